"""Bounds: how far startups lie from their prediction, by how near the evidence is, from residuals held out by group.

Each part has a scale, the usual size of its relative error in its cache state; the scales of a target's parts add in
quadrature, since their errors are unlike, which makes the total's width less than the sum of the stages'. What is
calibrated is the error in units of that deviation, apart for everyday starts and for rare ones. Conformal where groups
suffice: of G groups and one new one, all alike, the quantile that holds the share s of the new one is the smallest
error with s (G + 1) groups at or below it. Where they do not, Student's t. Each group has one vote, shared by its
startups.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import t as student

from app.prediction.case import Case
from app.stages import STAGES

__all__ = ["COVERAGE", "NEARNESS", "TARGETS", "Calibration", "Spread", "spread_of", "votes_of"]

Array = NDArray[np.float64]
COVERAGE = 0.9
TARGETS: tuple[str, ...] = ("total", *(stage.value for stage in STAGES))
"""What is bounded: the total and each stage."""
NEARNESS = ("history", "elsewhere", "hardware", "pooled")
"""This model on this hardware; this model elsewhere and this hardware; this hardware alone; neither."""
WIDEST = 10.0
"""An error counts as ten deviations at most: bounds beyond that say nothing more."""
PRIOR_GROUPS = 1.0
"""Groups of one deviation each that the parametric bounds begin with, so that no group or one gives bounds as well."""


@dataclass(frozen=True, slots=True)
class Spread:
    """Quantiles of the errors of one target, in deviations."""

    groups: int
    two_sided: float
    """Nine in ten lie within plus and minus this."""
    p90: float
    """Nine in ten lie below this."""
    p99: float | None
    """Ninety-nine in a hundred lie below this; None where too few groups tell."""
    conformal: bool
    """Whether the quantiles are distribution-free."""


@dataclass(frozen=True, slots=True)
class Calibration:
    """How far startups lie from their prediction at one nearness."""

    scales: Mapping[str, float]
    """Of each circumstance (a part in its cache state, usual or unusual) and each part, the usual relative error."""
    spreads: Mapping[str, Spread]
    """Of each target, the errors in deviations: of everyday starts, and under ``target|rare`` of others."""

    def spread(self, target: str, case: Case) -> Spread:
        """Return the spread of a target for a case: rare starts do not widen the bounds of everyday ones."""
        return self.spreads[f"{target}|rare" if case.rare else target]

    def scale(self, circumstance: str) -> float:
        """Return the scale of a circumstance; of the next wider one, at last its part, where it was never held out."""
        while circumstance not in self.scales:
            circumstance = circumstance.rpartition("|")[0]
        return self.scales[circumstance]

    def to_json(self) -> dict[str, Any]:
        """Return the calibration as plain data."""
        spreads = {target: asdict(spread) for target, spread in self.spreads.items()}
        return {"scales": dict(self.scales), "spreads": spreads}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "Calibration":
        """Rebuild a calibration."""
        return cls(data["scales"], {target: Spread(**spread) for target, spread in data["spreads"].items()})


def votes_of(groups: Sequence[str]) -> Array:
    """Return the share of its group's vote that each row has."""
    counts = Counter(groups)
    return np.array([1.0 / counts[group] for group in groups])


def spread_of(errors: Array, groups: Sequence[str], *, parametric: bool = False) -> Spread:
    """Measure the spread of ``errors`` in deviations, each of one group."""
    values, votes, count = np.clip(errors, -WIDEST, WIDEST), votes_of(groups), len(set(groups))
    two_sided = _quantile(np.abs(values), votes, COVERAGE, count)
    p90, p99 = _quantile(values, votes, COVERAGE, count), _quantile(values, votes, 0.99, count)
    if two_sided is not None and p90 is not None and not parametric:
        return Spread(
            count, two_sided, min(max(p90, 0.0), two_sided), None if p99 is None else max(p99, two_sided), True
        )
    deviation = float(np.sqrt((np.sum(votes * values**2) + PRIOR_GROUPS) / (count + PRIOR_GROUPS)))
    freedom = count + PRIOR_GROUPS - 1 or 1.0
    upper, p90 = student.ppf([(1 + COVERAGE) / 2, COVERAGE], freedom)
    return Spread(count, deviation * float(upper), deviation * float(p90), None, False)


def _quantile(values: Array, votes: Array, share: float, groups: int) -> float | None:
    """Return the conformal quantile, or None where the groups are too few for one."""
    needed = share * (groups + 1)
    if needed > groups:
        return None
    order = np.argsort(values, kind="stable")
    reached = np.searchsorted(np.cumsum(votes[order]), needed - 1e-9)
    return float(values[order][min(int(reached), len(values) - 1)])
