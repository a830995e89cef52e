"""The catalogue: which models and which hardware have been seen, with their facts. Built by a fit, kept in it."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from app.prediction.case import HardwareKey
from app.prediction.engine_rules import minor_version
from app.prediction.observation import Observation
from app.prediction.spec_facts import Identity, facts_of, hardware_key, identity_of, states_of
from app.schemas.spec import ModelSpec

__all__ = [
    "Catalogue",
    "KnownHardware",
    "KnownModel",
    "Names",
    "choose",
    "most_common_version",
]


@dataclass(slots=True)
class KnownModel:
    """One identity of a model, with the facts that most reporters agree on."""

    name: str
    revision: str | None
    dtype: str | None
    quantization: str | None
    facts: dict[str, Any]
    measurements: int
    own: int

    def key(self) -> str:
        """Return the identity as one string, the key of this model's effects."""
        return "/".join(value or "" for value in (self.name.lower(), self.revision, self.dtype, self.quantization))


@dataclass(slots=True)
class KnownHardware:
    """One identity of hardware, and what it has shown."""

    key: HardwareKey
    gpu_name: str
    cpu_name: str | None
    measurements: int
    own: int
    states: dict[str, int]
    """How often each ``weights|compile|inspection|kernels`` was seen; own measurements only, where there are any."""
    versions: dict[str, int]
    """How often each engine version was seen."""
    tensor_parallel: int
    """The most ranks that were seen."""
    weights: dict[str, int]
    """How often the weights were seen in each state, likewise."""
    stages: list[str]
    """Stages that were ever observed; of own measurements only, where there are any."""


@dataclass(slots=True)
class Catalogue:
    """All that is known of models and hardware."""

    models: list[KnownModel] = field(default_factory=list)
    hardware: list[KnownHardware] = field(default_factory=list)
    aliases: dict[str, str] = field(default_factory=dict)
    """Hub id in lower case → name of a model."""

    def to_json(self) -> dict[str, Any]:
        """Return the catalogue as plain data."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "Catalogue":
        """Rebuild a catalogue from plain data."""
        return cls(
            [KnownModel(**row) for row in data["models"]],
            [KnownHardware(**{**row, "key": HardwareKey(**row["key"])}) for row in data["hardware"]],
            dict(data["aliases"]),
        )

    @classmethod
    def of(
        cls, observations: Sequence[Observation], aliases: Mapping[str, str], known_models: Sequence[ModelSpec] = ()
    ) -> "Catalogue":
        """Gather what ``observations`` tell of models and hardware; ``known_models`` tell of what nobody measured."""
        lower = {alias.lower(): name for alias, name in sorted(aliases.items())}
        unmeasured = {model.name.lower(): model for model in known_models}
        names = Names({o.spec.model.name for o in observations} | unmeasured.keys(), lower)
        by_identity: dict[tuple[str, Identity], list[Observation]] = defaultdict(list)
        by_hardware: dict[str, list[Observation]] = defaultdict(list)
        for observation in observations:
            name = names.canonical(observation.spec.model.name)
            by_identity[name, identity_of(observation.spec.model)].append(observation)
            by_hardware[hardware_key(observation.spec).text()].append(observation)
        counts = {key: len(rows) for key, rows in by_identity.items()}
        by_model: dict[tuple[str, Identity], list[Observation]] = defaultdict(list)
        for (name, identity), rows in by_identity.items():
            others = {i: n for (other, i), n in counts.items() if other == name and i[-1] == identity[-1]}
            by_model[name, choose(identity, others) or identity].extend(rows)
        models = [_known_model(name, identity, rows) for (name, identity), rows in by_model.items()]
        measured = {model.name.lower() for model in models}
        models += [_unmeasured(model) for name, model in unmeasured.items() if name not in measured]
        hardware = [_known_hardware(rows) for rows in by_hardware.values()]
        return cls(sorted(models, key=KnownModel.key), sorted(hardware, key=lambda known: known.key.text()), lower)


class Names:
    """The names of models, as they are known and as people write them."""

    def __init__(self, names: Iterable[str], aliases: Mapping[str, str]) -> None:
        self._known = {name.lower() for name in names}
        self._aliases = {alias: name.lower() for alias, name in aliases.items()}
        self._by_tail: dict[str, set[str]] = defaultdict(set)
        for name in self._known:
            self._by_tail[_tail(name)].add(name)
        for alias, name in self._aliases.items():
            self._by_tail[_tail(alias)].add(name)

    def canonical(self, name: str) -> str:
        """Return the name under which a model is known: its alias's, or one that differs by its organisation."""
        lower = name.lower()
        lower = lower if lower in self._known else self._aliases.get(lower, lower)
        alike = self._by_tail.get(_tail(lower), set())
        if lower in self._known and ("/" in lower or len(alike) != 2):
            return lower
        full = {known for known in alike if "/" not in lower or "/" not in known}
        return max(full, key=lambda known: ("/" in known, known)) if len(full - {lower}) == 1 else lower


def choose(identity: Identity, known: Mapping[Identity, int]) -> Identity | None:
    """Return the known identity that ``identity`` means; a field left out, on either side, matches any.

    The same quantization comes first, then the most telling one, then the most measured.
    """
    alike = [
        other
        for other in known
        if all(None in pair or len(set(pair)) == 1 for pair in zip(identity, other, strict=True))
    ]
    return max(
        alike,
        key=lambda other: (other[-1] == identity[-1], sum(v is not None for v in other), known[other], str(other)),
        default=None,
    )


def _unmeasured(model: ModelSpec) -> KnownModel:
    identity = identity_of(model)
    return KnownModel(model.name, *identity, facts=facts_of(model), measurements=0, own=0)


def _tail(name: str) -> str:
    return name.rsplit("/", 1)[-1]


def _known_model(name: str, identity: Identity, rows: list[Observation]) -> KnownModel:
    votes: dict[str, dict[str, Counter[Any]]] = defaultdict(lambda: defaultdict(Counter))
    for row in rows:
        for fact, value in facts_of(row.spec.model).items():
            votes[fact][row.reporter][value] += 1
    facts = {fact: _majority(by_reporter.values()) for fact, by_reporter in sorted(votes.items())}
    revision, dtype, quantization = identity
    return KnownModel(name, revision, dtype, quantization, facts, len(rows), _own(rows))


def _majority(ballots: Iterable[Counter[Any]]) -> Any:
    """Return what most reporters say; each has one vote, ties go to what was said more often."""
    votes: Counter[Any] = Counter()
    said: Counter[Any] = Counter()
    for ballot in ballots:
        votes[max(ballot, key=lambda value: (ballot[value], str(value)))] += 1
        said.update(ballot)
    return max(votes, key=lambda value: (votes[value], said[value], str(value)))


def _known_hardware(rows: list[Observation]) -> KnownHardware:
    hardware = rows[0].spec.hardware
    telling = [row for row in rows if not row.reference] or rows
    return KnownHardware(
        key=hardware_key(rows[0].spec),
        gpu_name=min(row.spec.hardware.gpu for row in rows),
        cpu_name=min((row.spec.hardware.cpu for row in rows if row.spec.hardware.cpu), default=hardware.cpu),
        measurements=len(rows),
        own=_own(rows),
        states=dict(sorted(Counter("|".join(states_of(row.spec)) for row in telling).items())),
        weights=dict(sorted(Counter(states_of(row.spec)[0] for row in telling).items())),
        versions=dict(sorted(Counter(v for row in rows if (v := row.spec.engine.version)).items())),
        tensor_parallel=max(row.spec.engine.tensor_parallel_size or 1 for row in rows),
        stages=sorted({stage.value for row in telling for stage in row.stages}),
    )


def _own(rows: list[Observation]) -> int:
    return sum(1 for row in rows if not row.reference)


def most_common_version(hardware: Iterable[KnownHardware]) -> str | None:
    """Return the engine version seen most often; the newer one where two are equal."""
    seen: Counter[str] = Counter()
    for known in hardware:
        seen.update(known.versions)
    return max(seen, key=lambda version: (seen[version], minor_version(version), version), default=None)
