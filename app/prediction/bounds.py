"""Bounds: how far startups lie from their prediction, by how near the evidence is, from residuals held out by group.

Conformal where groups suffice: of G groups and one new one, all alike, the quantile that holds the share s of the new
one is the smallest residual with s (G + 1) groups at or below it. Each group has one vote, shared by its startups.
"""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from app.stages import STAGES

__all__ = ["COVERAGE", "TARGETS", "Spread", "spread_of"]

Array = NDArray[np.float64]
COVERAGE = 0.9
TARGETS: tuple[str, ...] = ("total", *STAGES)
"""What is bounded: the total and each stage."""
DEFAULT_DEVIATION = 0.25
"""Before any group: 90 % within a factor of 1.5."""
WIDEST = 3.0
"""A residual counts as a factor of twenty at most: bounds beyond that say nothing more."""
PRIOR_GROUPS = 2.0
"""Groups that the default weighs: with eight of 5 % each, the parametric deviation is 12 %."""
NORMAL_90, NORMAL_95, NORMAL_99 = 1.2816, 1.6449, 2.3263


@dataclass(frozen=True, slots=True)
class Spread:
    """Quantiles of the logarithm of observed over predicted seconds."""

    groups: int
    two_sided: float
    """Nine in ten lie within plus and minus this."""
    p90: float
    """Nine in ten lie below this."""
    p99: float | None
    """Ninety-nine in a hundred lie below this; None where too few groups tell."""
    conformal: bool
    """Whether the quantiles are distribution-free."""

    def to_json(self) -> dict[str, Any]:
        """Return the quantiles as plain data."""
        return asdict(self)


def spread_of(residuals: Sequence[float] | Array, groups: Sequence[str]) -> Spread:
    """Measure the spread of ``residuals``, each of one group."""
    values = np.clip(np.asarray(residuals, dtype=float), -WIDEST, WIDEST)
    counts: dict[str, int] = {}
    for group in groups:
        counts[group] = counts.get(group, 0) + 1
    votes = np.array([1.0 / counts[group] for group in groups])
    two_sided = _quantile(np.abs(values), votes, COVERAGE, len(counts))
    p90 = _quantile(values, votes, COVERAGE, len(counts))
    p99 = _quantile(values, votes, 0.99, len(counts))
    if two_sided is not None and p90 is not None:
        return Spread(len(counts), two_sided, min(p90, two_sided), None if p99 is None else max(p99, two_sided), True)
    deviation = _deviation(values, votes, len(counts))
    return Spread(len(counts), NORMAL_95 * deviation, NORMAL_90 * deviation, None, False)


def _quantile(values: Array, votes: Array, share: float, groups: int) -> float | None:
    """Return the conformal quantile, or None where the groups are too few for one."""
    needed = share * (groups + 1)
    if needed > groups:
        return None
    order = np.argsort(values, kind="stable")
    reached = np.searchsorted(np.cumsum(votes[order]), needed - 1e-9)
    return float(values[order][min(int(reached), len(values) - 1)])


def _deviation(values: Array, votes: Array, groups: int) -> float:
    """Return the standard deviation, with the default as a prior of a few groups."""
    squares = float(np.sum(votes * np.minimum(values**2, 1.0))) + PRIOR_GROUPS * DEFAULT_DEVIATION**2
    return math.sqrt(squares / (groups + PRIOR_GROUPS))
