"""The prediction: the service's answer for one spec, with what stands behind it."""

from datetime import datetime
from enum import StrEnum
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from app.schemas.base import Strict
from app.schemas.problem import OrProblem, Problem
from app.schemas.spec import Spec
from app.stages import Part, Stage

__all__ = [
    "MAX_BATCH",
    "Basis",
    "Bounds",
    "PartPrediction",
    "Prediction",
    "PredictionBatch",
    "Rung",
    "SpecBatch",
    "StagePrediction",
    "Term",
    "TotalPrediction",
]

MAX_BATCH = 10_000


class Rung(StrEnum):
    """How near the evidence is, nearest first."""

    HISTORY = "history"  # This model on this hardware.
    HARDWARE = "hardware"  # This hardware, other models.
    POOLED = "pooled"  # Other hardware.
    REFERENCE = "reference"  # Only the shipped reference measurements.


class Bounds(StrEnum):
    """What kind of bounds a prediction carries."""

    CONFORMAL = "conformal"
    PARAMETRIC = "parametric"


class _Answer(BaseModel):
    model_config = ConfigDict(use_attribute_docstrings=True, frozen=True)


class Term(_Answer):
    """One term of a part's linear model; the terms of a part sum to its seconds."""

    feature: str
    """Name of the feature."""
    value: float
    """The feature's value for this spec."""
    coefficient: float
    """Seconds per unit of the feature on this hardware."""
    seconds: float
    """value x coefficient."""
    bytes_per_second: float | None
    """The bandwidth that a bytes-like term stands for; null for the others."""


class PartPrediction(_Answer):
    """The seconds of one part of a stage."""

    part: Part
    """Name of the part."""
    seconds: float
    """Expected seconds."""
    terms: list[Term] | None
    """With explain=true, the terms that sum to the seconds; else null."""


class StagePrediction(_Answer):
    """The seconds of one stage."""

    stage: Stage
    """Name of the stage."""
    seconds: float
    """Expected seconds."""
    lower_seconds: float
    """Lower end of the range that holds 90 % of outcomes."""
    upper_seconds: float
    """Upper end of the range that holds 90 % of outcomes."""
    parts: list[PartPrediction]
    """The parts that the stage is made of; they sum to it."""


class TotalPrediction(_Answer):
    """The seconds from exec to the first healthy answer."""

    seconds: float
    """Expected seconds; the seven stages sum to it."""
    lower_seconds: float
    """Lower end of the range that holds 90 % of outcomes."""
    upper_seconds: float
    """Upper end of the range that holds 90 % of outcomes."""
    p90_seconds: float | None
    """Nine in ten startups are done by then; null where too few measurements stand behind it."""
    p99_seconds: float | None
    """Ninety-nine in a hundred startups are done by then; null where too few measurements stand behind it."""


class Basis(_Answer):
    """What stands behind a prediction."""

    rung: Rung
    """How near the evidence is."""
    measurements: int
    """Measurements at that rung."""
    fit_id: int | None
    """The fit that answered; null for a fit that is not stored."""
    fitted_at: datetime | None
    """When that fit was made."""
    bounds: Bounds
    """Distribution-free (conformal) or, where groups are few, parametric."""
    assumed: list[str]
    """What the spec left open and what was assumed instead, one sentence each, beginning with the field's path."""
    extrapolated: list[str]
    """Where the spec lies outside what was measured, one sentence each, beginning with the field's path."""


class Prediction(_Answer):
    """The answer for one spec."""

    total: TotalPrediction
    """The whole startup."""
    stages: list[StagePrediction]
    """Seven stages, always, in the order in which they happen; they sum to the total."""
    basis: Basis
    """What stands behind it."""


class SpecBatch(Strict):
    """Specs to predict, at most ten thousand; each is validated on its own."""

    specs: Annotated[list[OrProblem[Spec]], Field(min_length=1, max_length=MAX_BATCH)]
    """The specs."""


class PredictionBatch(_Answer):
    """Answers in the order of the specs."""

    predictions: list[Prediction | Problem]
    """For each spec its prediction, or the problem with it."""
