"""Stored measurements, and what is known of models and hardware, on the wire."""

from datetime import datetime
from enum import StrEnum
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from app.schemas.measurement import Outcome
from app.schemas.problem import Problem
from app.stages import Part, Stage

__all__ = [
    "BatchResult",
    "BatchResults",
    "HardwareList",
    "KnownHardware",
    "KnownModel",
    "MeasurementList",
    "MeasurementRecord",
    "MeasurementStatus",
    "ModelList",
    "StageInfo",
    "StageList",
    "StoredPrediction",
]


class MeasurementStatus(StrEnum):
    """Whether a measurement takes part in fits."""

    ACCEPTED = "accepted"
    QUARANTINED = "quarantined"


class _Answer(BaseModel):
    model_config = ConfigDict(use_attribute_docstrings=True, frozen=True)


class StoredPrediction(_Answer):
    """What the champion predicted for a measurement before it learned from it."""

    fit_id: int | None
    """The fit that answered."""
    rung: str
    """The rung of the prediction."""
    total_seconds: float
    """Predicted total."""
    lower_seconds: float
    """Lower end of its 90 % range."""
    upper_seconds: float
    """Upper end of its 90 % range."""
    stages: dict[Stage, tuple[float, float, float]]
    """Per stage: predicted seconds, lower and upper end of the 90 % range."""


class MeasurementRecord(_Answer):
    """A measurement as it is stored."""

    id: str
    """Id that the reporter chose."""
    source: str
    """Who reported it."""
    received_at: datetime
    """When the service stored it."""
    status: MeasurementStatus
    """Whether it takes part in fits."""
    status_reason: str | None
    """Why it is quarantined, or how it came back."""
    started_at: datetime
    """When the engine was started."""
    outcome: Outcome
    """How the startup ended."""
    total_seconds: float
    """From exec to the first healthy answer, or to the failure."""
    stages: dict[Stage, float]
    """Observed stages, and `other` where all six were observed."""
    unattributed_seconds: float | None
    """Total less the observed stages, where not all six were observed; no part learns from it."""
    parts: dict[Part, float]
    """Observed parts."""
    spec: dict[str, Any]
    """The spec as it was reported."""
    facts: dict[str, Any]
    """Anything else that was reported."""
    agent_version: str | None
    """Version of the agent."""
    prediction: StoredPrediction | None
    """What the champion predicted for it; null where no fit was loaded or the model's facts were missing."""


class MeasurementList(_Answer):
    """Measurements, newest received first."""

    measurements: list[MeasurementRecord]
    """One page."""
    next_cursor: str | None
    """Send as `cursor` for the next page; null on the last."""


class BatchResult(_Answer):
    """What became of one measurement of a batch."""

    index: int
    """Its place in the batch."""
    id: str | None
    """Its id, where it has a readable one."""
    status: Literal["created", "unchanged", "conflict", "invalid"]
    """What became of it."""
    problem: Problem | None
    """What is wrong, where something is."""


class BatchResults(_Answer):
    """What became of each measurement of a batch, in order."""

    results: list[BatchResult]
    """One entry a measurement."""


class KnownModel(_Answer):
    """A model that has been measured."""

    name: str
    """Name as first reported."""
    measurements: int
    """Ready startups of it."""
    gpus: list[str]
    """GPUs that it has been measured on, normalised."""
    reference: bool
    """Whether the shipped reference measurements hold it."""


class ModelList(_Answer):
    """Models that have been measured."""

    models: list[KnownModel]
    """The models, by name."""


class KnownHardware(_Answer):
    """Hardware that has been measured."""

    gpu: str
    """GPU as reported."""
    gpu_count: int
    """GPUs in use."""
    cpu: str | None
    """CPU as reported."""
    cpu_cores: int | None
    """Physical cores."""
    storage: str | None
    """Storage of the weights."""
    node: str | None
    """Node label."""
    measurements: int
    """Ready startups on it."""
    reference: bool
    """Whether the shipped reference measurements hold it."""


class HardwareList(_Answer):
    """Hardware that has been measured."""

    hardware: list[KnownHardware]
    """The hardware, by GPU."""


class StageInfo(_Answer):
    """One stage."""

    stage: Stage
    """Its name."""
    parts: list[Part]
    """The parts that it is made of."""
    description: str
    """What happens in it and what drives it."""


class StageList(_Answer):
    """The seven stages in the order in which they happen."""

    stages: list[StageInfo]
    """The stages."""
