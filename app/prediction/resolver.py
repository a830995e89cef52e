"""The resolver: spec + catalogue → case. What a spec leaves open is filled in here, and listed."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace

from app.errors import AmbiguousHardware, FieldError, UnknownModel
from app.hardware_names import cpu_key, match_gpu, matching_cpus
from app.prediction.case import Case, HardwareKey
from app.prediction.case_of import case_of, with_states
from app.prediction.catalogue import (
    Catalogue,
    KnownHardware,
    KnownModel,
    Names,
    choose,
    most_common_version,
)
from app.prediction.engine_rules import minor_version
from app.prediction.imputation import Facts, completed
from app.prediction.observation import Observation
from app.prediction.spec_facts import Identity, facts_of, hardware_key, identity_of
from app.schemas.spec import Spec

__all__ = ["Resolved", "Resolver"]

DEFAULT_VERSION = "0.10.1.1"  # The version of the paper, where nothing at all is known.


@dataclass(slots=True)
class Resolved:
    """A case, and what it stands on."""

    case: Case
    model: KnownModel | None
    alike: list[KnownHardware]
    """Known hardware that is as near as any to the one asked for, the most measured first."""
    same_hardware: bool
    """Whether it is the very one asked for, not just the nearest."""

    @property
    def hardware(self) -> KnownHardware | None:
        """The most measured of the known hardware that is meant."""
        return self.alike[0] if self.alike else None

    @property
    def measured_model(self) -> bool:
        """Whether somebody has measured the model; of others there are facts alone."""
        return self.model is not None and self.model.measurements > 0

    def at(self, states: tuple[str, ...], cached_fraction: float | None = None) -> Case:
        """Return the case in these states of weights, compile cache, inspection cache and kernel cache."""
        case = with_states(self.case, states, cached_fraction)
        showing = [known for known in self.alike if known.weights.get(states[0])]
        if showing:
            case.loading = max(showing, key=lambda known: known.weights[states[0]]).key
        return case

    def seen_states(self, machines: Sequence[KnownHardware]) -> tuple[Counter[str], ...]:
        """Return how often each state of weights, compile, inspection and kernel cache was seen on this hardware.

        On all ``machines`` where it is not known. What nobody knows counts only where nothing is known.
        """
        seen: tuple[Counter[str], ...] = (Counter(), Counter(), Counter(), Counter())
        for machine in self.alike or machines:
            for states, count in machine.states.items():
                for counter, state in zip(seen, states.split("|"), strict=True):
                    counter[state] += count
        return tuple(Counter({s: n for s, n in counter.items() if s != "unknown"}) or counter for counter in seen)


class Resolver:
    """Fills specs in from a catalogue."""

    def __init__(self, catalogue: Catalogue) -> None:
        self._names = Names({model.name for model in catalogue.models}, catalogue.aliases)
        self._models: dict[str, dict[Identity, KnownModel]] = defaultdict(dict)
        for model in catalogue.models:
            self._models[model.name.lower()][model.revision, model.dtype, model.quantization] = model
        self._hardware = catalogue.hardware
        self._by_key = {known.key: known for known in catalogue.hardware}
        self._by_gpu: dict[str, list[KnownHardware]] = defaultdict(list)
        for known in catalogue.hardware:
            self._by_gpu[known.key.gpu].append(known)
        self._version = most_common_version(catalogue.hardware) or DEFAULT_VERSION

    def measured(self, observation: Observation) -> Resolved:
        """Resolve the spec of a measurement: its hardware is what it says, its unknown states stay unknown."""
        known = self._by_key[hardware_key(observation.spec)]
        resolved = self._resolve(observation.spec, [known], known.key, same=True, strict=False)
        resolved.case.own = not observation.reference
        return resolved

    def asked(self, spec: Spec) -> Resolved:
        """Resolve the spec of a request.

        Raises UnknownModel and AmbiguousHardware.
        """
        assumed: list[str] = []
        key = self._matched(spec)
        alike, same = self._nearest(key, spec, assumed)
        resolved = self._resolve(spec, alike, alike[0].key if alike else key, same=same, strict=True)
        resolved.case.assumed[:0] = assumed
        return resolved

    def _matched(self, spec: Spec) -> HardwareKey:
        """Replace the names of GPU and CPU by those that the catalogue knows them under."""
        key = hardware_key(spec)
        gpus = match_gpu(spec.hardware.gpu, self._by_gpu)
        if len(gpus) > 1:
            names = sorted({known.gpu_name for gpu in gpus for known in self._by_gpu[gpu]})
            raise _ambiguous("gpu", spec.hardware.gpu, names)
        gpu = gpus[0] if gpus else key.gpu
        cpu = self._matched_cpu(spec.hardware.cpu, gpu) if spec.hardware.cpu else None
        return replace(key, gpu=gpu, cpu=cpu)

    def _matched_cpu(self, name: str, gpu: str) -> str:
        for machines in (self._by_gpu.get(gpu, []), self._hardware):
            cpus = matching_cpus(name, (known.key.cpu for known in machines if known.key.cpu))
            if len(cpus) > 1:
                names = sorted({known.cpu_name or "" for known in machines if known.key.cpu in cpus})
                raise _ambiguous("cpu", name, names)
            if cpus:
                return cpus[0]
        return cpu_key(name)

    def _nearest(self, key: HardwareKey, spec: Spec, assumed: list[str]) -> tuple[list[KnownHardware], bool]:
        """Find the known hardware that is nearest to ``key``; what is not given matches any.

        Where the operator has measured some of it, the shipped entries do not count.
        """
        given_count = spec.hardware.gpu_count is not None or spec.engine.tensor_parallel_size is not None
        if not given_count:
            key = replace(key, gpu_count=None)
        alike = [
            known
            for known in self._by_gpu.get(key.gpu, [])
            if key.cpu in (None, known.key.cpu) or known.key.cpu is None
            if key.node in (None, known.key.node)
        ]
        if not alike:
            assumed.append(f"hardware.gpu: {spec.hardware.gpu} with these parts was never seen; other hardware answers")
            return [], False
        least = min(_differences(key, known.key) for known in alike)
        alike = [known for known in alike if _differences(key, known.key) == least]
        alike = [known for known in alike if known.own] or alike
        alike.sort(key=lambda known: (-known.own, -known.measurements, known.key.text()))
        best = alike[0]
        if key.cpu is None and best.cpu_name:
            assumed.append(f"hardware.cpu: {best.cpu_name}, which this GPU was seen with")
        if key.storage is None and best.key.storage:
            assumed.append(f"hardware.storage: {best.key.storage}, which this hardware was seen with")
        return alike, least == 0

    def _resolve(
        self, spec: Spec, alike: list[KnownHardware], key: HardwareKey, *, same: bool, strict: bool
    ) -> Resolved:
        assumed: list[str] = []
        model = self._model(spec)
        facts = self._facts(spec, model, assumed, strict=strict)
        version = spec.engine.version
        if version is None:
            version = most_common_version(alike) or self._version
            assumed.append(f"engine.version: {version}, the one seen most often")
        name = (
            model.key()
            if model
            else "/".join((self._names.canonical(spec.model.name), *map(str, identity_of(spec.model))))
        )
        case = case_of(spec, facts, name, key, minor_version(version), assumed)
        return Resolved(case, model, alike, same)

    def _model(self, spec: Spec) -> KnownModel | None:
        known = self._models.get(self._names.canonical(spec.model.name), {})
        identity = choose(identity_of(spec.model), {i: model.measurements for i, model in known.items()})
        return known[identity] if identity else None

    def _facts(self, spec: Spec, model: KnownModel | None, assumed: list[str], *, strict: bool) -> Facts:
        """Merge what is known of a model with what the spec says of it; the spec wins."""
        told = facts_of(spec.model)
        if strict and model is None and not (told.keys() & {"weight_bytes", "num_parameters", "num_layers"}):
            raise UnknownModel(
                f"Nobody has measured {spec.model.name}: send weight_bytes and num_layers at least, or its config.",
                errors=[FieldError("/model", "send weight_bytes and num_layers at least, or config")],
            )
        facts = {**(model.facts if model else {}), **told}
        if "weight_bytes" in told:  # These are other files.
            facts["unloaded_weight_bytes"] = told.get("unloaded_weight_bytes")
        _, dtype, quantization = identity_of(spec.model)
        facts["quantization"] = quantization or (model.quantization if model else None)
        facts["dtype"] = dtype or (model.dtype if model else None)
        return completed(facts, assumed)


def _ambiguous(field: str, name: str, candidates: Sequence[str]) -> AmbiguousHardware:
    return AmbiguousHardware(
        f"{name} can be any of: {', '.join(candidates)}. Send one of them.",
        errors=[FieldError(f"/hardware/{field}", "send one of the candidates")],
        candidates=candidates,
    )


def _differences(key: HardwareKey, known: HardwareKey) -> int:
    """Count the fields that are given and are another in ``known``; what ``known`` does not say counts too."""
    pairs = ((getattr(key, name), getattr(known, name)) for name in HardwareKey.__slots__)
    return sum(1 for asked, seen in pairs if asked is not None and asked != seen)
