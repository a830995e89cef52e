"""The measurement: one startup as an agent observed it."""

import hashlib
import json
from collections.abc import Iterator
from enum import StrEnum
from typing import Annotated, Any, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    ModelWrapValidatorHandler,
    PrivateAttr,
    StringConstraints,
    model_validator,
)

from app.schemas.base import FreeJson, Label, PastDatetime, Seconds, Tolerant, field_error, require_json
from app.schemas.prediction import MAX_BATCH
from app.schemas.problem import OrProblem
from app.schemas.spec import CacheSpec, EngineSpec, HardwareSpec, ModelSpec, Spec, named
from app.stages import PARTS_OF, SIX_STAGES, Part, Stage, observed_stages

__all__ = [
    "ID_PATTERN",
    "Measurement",
    "MeasurementBatch",
    "Outcome",
    "PartSeconds",
    "ReportedSpec",
    "StageSeconds",
    "canonical_digest",
]

ID_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9._:-]{0,127}$"
SLACK_SECONDS = 0.5  # Clocks of several processes and whole-second log stamps put this much into a sum.
SLACK_SHARE = 0.01
_KEEP_UNKNOWN = ConfigDict(extra="allow")


class Outcome(StrEnum):
    """How a startup ended."""

    READY = "ready"
    FAILED = "failed"
    TIMED_OUT = "timed_out"


class StageSeconds(Tolerant):
    """Seconds of each stage: 0.0 means that it did not happen, absent that it was not observed."""

    framework_bootstrap: Seconds | None = None
    """From exec to the first work on the tokenizer or the model: imports, platform, model inspection, worker start."""
    tokenizer_init: Seconds | None = None
    """Loading the tokenizer."""
    model_loading: Seconds | None = None
    """Building the model, loading its weights, and processing them."""
    torch_compile: Seconds | None = None
    """Dynamo and Inductor, or loading the compiled graph."""
    kv_cache_profiling: Seconds | None = None
    """The profiling run, without the compilation that happens inside it."""
    cuda_graph_capture: Seconds | None = None
    """Capturing CUDA graphs; 0.0 with enforce_eager."""


class PartSeconds(Tolerant):
    """Seconds of the parts that were observed; the same meaning of 0.0 and absent."""

    imports: Seconds | None = None
    """Importing the engine, on the critical path of processes."""
    platform_detection: Seconds | None = None
    """Finding out which accelerator there is."""
    model_inspection: Seconds | None = None
    """Inspecting the model class, in a process of its own where its cache is cold."""
    worker_init: Seconds | None = None
    """Starting the worker and its device."""
    tokenizer_init: Seconds | None = None
    """Loading the tokenizer."""
    model_init: Seconds | None = None
    """Building the model's modules."""
    weight_loading: Seconds | None = None
    """Reading the weights."""
    weight_postprocess: Seconds | None = None
    """Repacking the weights (quantization, fused layouts)."""
    dynamo_transform: Seconds | None = None
    """Dynamo's tracing."""
    graph_compile: Seconds | None = None
    """Inductor's compilation, with a cold cache."""
    graph_load: Seconds | None = None
    """Loading the compiled graph, with a warm cache."""
    kv_cache_profiling: Seconds | None = None
    """The profiling run."""
    cuda_graph_capture: Seconds | None = None
    """Capturing CUDA graphs."""
    kv_cache_allocation: Seconds | None = None
    """Allocating the KV cache."""
    kernel_warmup: Seconds | None = None
    """Warming up and tuning kernels."""
    server_start: Seconds | None = None
    """From the engine being ready to the first healthy answer."""
    unaccounted: Seconds | None = None
    """What no event bounds."""


class ReportedModel(ModelSpec):
    """A model as an agent reports it."""

    model_config = _KEEP_UNKNOWN


class ReportedHardware(HardwareSpec):
    """A machine as an agent reports it."""

    model_config = _KEEP_UNKNOWN


class ReportedEngine(EngineSpec):
    """An engine as an agent reports it."""

    model_config = _KEEP_UNKNOWN


class ReportedCache(CacheSpec):
    """Caches as an agent reports them."""

    model_config = _KEEP_UNKNOWN


class ReportedSpec(Spec):
    """A spec as an agent reports it: the fields of a spec, and any newer ones."""

    model_config = _KEEP_UNKNOWN

    model: Annotated[ReportedModel, named("name", ReportedModel)]
    """The language model."""
    hardware: Annotated[ReportedHardware, named("gpu", ReportedHardware)]
    """The machine."""
    engine: ReportedEngine = ReportedEngine()
    """The engine and its arguments."""
    cache: ReportedCache = ReportedCache()
    """The caches when the startup began."""


class Measurement(Tolerant):
    """One startup: its spec, its stage seconds, its total."""

    id: Annotated[str, StringConstraints(pattern=ID_PATTERN)] = Field(examples=["0192f0c1-7d3c-7c5e-9a54-3d1b7c2a9f10"])
    """Chosen by the reporter, once for a startup (a UUID); sending it again changes nothing."""
    started_at: PastDatetime
    """When the engine was started, with a zone."""
    outcome: Outcome
    """How the startup ended; only ready ones are fitted."""
    total_seconds: Seconds
    """From exec to the first healthy answer, or to the failure."""
    stages: StageSeconds = StageSeconds()
    """Seconds of each stage."""
    parts: PartSeconds = PartSeconds()
    """Seconds of the parts that were observed."""
    spec: ReportedSpec
    """All that was known before the startup."""
    source: Label = "agent"
    """Who reports; ids are scoped to it."""
    agent_version: Label | None = None
    """Version of the agent."""
    facts: FreeJson = Field(default_factory=dict)
    """Anything else about the startup; kept, never fitted."""

    _sent: dict[str, Any] = PrivateAttr(default_factory=dict)

    @model_validator(mode="wrap")
    @classmethod
    def _remember_what_was_sent(cls, data: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        require_json(data)
        measurement = handler(data)
        measurement._sent = data if isinstance(data, dict) else measurement._sent
        return measurement

    @model_validator(mode="after")
    def _sums_fit(self) -> Self:
        spent = 0.0
        for stage in SIX_STAGES:
            parts = sum(self.part_seconds.get(part, 0.0) for part in PARTS_OF[stage])
            seconds = self.stage_seconds.get(stage)
            if seconds is not None and parts > seconds + _slack(seconds):
                raise field_error(f"the parts of {stage} sum to {parts:g} s, more than its {seconds:g} s", ("parts",))
            spent += parts if seconds is None else seconds
        spent += sum(self.part_seconds.get(part, 0.0) for part in PARTS_OF[Stage.OTHER] if part is not Part.UNACCOUNTED)
        if spent > self.total_seconds + _slack(self.total_seconds):
            advice = f"the stages sum to {spent:g} s, more than total_seconds = {self.total_seconds:g} s"
            raise field_error(advice, ("stages",))
        return self

    @property
    def sent(self) -> dict[str, Any]:
        """The fields as the reporter sent them."""
        return self._sent

    @property
    def digest(self) -> str:
        """SHA-256 of the fields as the reporter sent them, in canonical form."""
        return canonical_digest(self._sent)

    @property
    def stage_seconds(self) -> dict[Stage, float]:
        """The observed ones of the six stages, and ``other`` where all six were observed."""
        return observed_stages({stage: getattr(self.stages, stage.value) for stage in SIX_STAGES}, self.total_seconds)

    @property
    def part_seconds(self) -> dict[Part, float]:
        """The observed parts."""
        return {part: s for part in Part if (s := getattr(self.parts, part.value)) is not None}

    def unknown_fields(self) -> dict[str, Any]:
        """Return the fields that this version does not know, by their dotted path."""
        return dict(_extras(self, ""))


class MeasurementBatch(Tolerant):
    """Measurements to store, at most ten thousand; each stands alone."""

    measurements: Annotated[list[OrProblem[Measurement]], Field(min_length=1, max_length=MAX_BATCH)]
    """The measurements."""


def canonical_digest(data: dict[str, Any]) -> str:
    """Return the SHA-256 of ``data`` as JSON with sorted keys and whole floats as integers (as RFC 8785 has it)."""
    text = json.dumps(_canonical(data), sort_keys=True, separators=(",", ":"), default=str)
    return hashlib.sha256(text.encode()).hexdigest()


def _canonical(value: Any) -> Any:
    match value:
        case float() if value.is_integer():
            return int(value)
        case dict():
            return {key: _canonical(item) for key, item in value.items()}
        case list():
            return [_canonical(item) for item in value]
    return value


def _slack(seconds: float) -> float:
    return max(SLACK_SECONDS, SLACK_SHARE * seconds)


def _extras(schema: BaseModel, path: str) -> Iterator[tuple[str, Any]]:
    yield from ((path + name, value) for name, value in (schema.model_extra or {}).items())
    for name in type(schema).model_fields:
        if isinstance(value := getattr(schema, name), BaseModel):
            yield from _extras(value, f"{path}{name}.")
