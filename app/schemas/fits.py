"""Fits and refits on the wire."""

from datetime import datetime
from enum import StrEnum
from typing import Any

from pydantic import BaseModel, ConfigDict

from app.stages import Stage

__all__ = ["ChampionFit", "FitDetail", "FitList", "FitStatus", "FitSummary", "LiveError", "RefitOutcome", "RefitResult"]


class FitStatus(StrEnum):
    """Whether the gate let a fit through."""

    PROMOTED = "promoted"
    REJECTED = "rejected"


class RefitOutcome(StrEnum):
    """What came of a refit."""

    PROMOTED = "promoted"
    REJECTED = "rejected"
    NOTHING_NEW = "nothing_new"


class _Answer(BaseModel):
    model_config = ConfigDict(use_attribute_docstrings=True, frozen=True, from_attributes=True)


class FitSummary(_Answer):
    """One fit."""

    id: int
    """Its number."""
    fitted_at: datetime
    """When it was made."""
    status: FitStatus
    """Whether the gate let it through."""
    reason: str
    """Why."""
    measurements: int
    """Measurements behind it."""
    champion: bool
    """Whether it answers now."""


class FitList(_Answer):
    """Fits, newest first."""

    fits: list[FitSummary]
    """The fits."""


class FitDetail(FitSummary):
    """One fit with all that it learned."""

    content: dict[str, Any]
    """Coefficients, factors, residual quantiles and the catalogue of models and hardware, with a format version."""
    scores: dict[str, Any]
    """Scores of this fit's recipe and of the champion's on the same held-out groups."""
    left_out: list[dict[str, Any]]
    """Measurements or parts that were not fitted, each with the reason."""


class LiveError(_Answer):
    """Error of the stored predictions against what then happened, for one hardware, engine version and stage."""

    gpu: str
    """GPU, normalised."""
    engine_version: str
    """Engine minor version."""
    stage: Stage | None
    """Stage; null for the total."""
    measurements: int
    """Measurements in the window."""
    mean_absolute_percentage_error: float | None
    """Mean of |predicted - measured| / measured; null where nothing measured took time."""
    bias_seconds: float
    """Mean of predicted - measured, seconds."""
    coverage: float
    """Share of measurements inside the 90 % bounds that were stated for them."""
    drifting: bool
    """Whether the coverage is too low to be chance."""


class ChampionFit(FitDetail):
    """The fit that answers now, and how well it does."""

    pinned: bool
    """True after an operator's activation: refits go on, but none replaces it until an activation of the newest."""
    live: list[LiveError]
    """Live error per hardware, engine version and stage over the newest measurements."""
    drifting: bool
    """Whether any of them drifts."""


class RefitResult(_Answer):
    """What came of a refit."""

    id: int
    """Number of the refit."""
    requested_at: datetime
    """When it was asked for."""
    finished_at: datetime | None
    """When it was done; null while it is not."""
    outcome: RefitOutcome | None
    """What came of it; null while it is not done."""
    reason: str | None
    """Why."""
    fit_id: int | None
    """The fit that it made, if any."""
