"""Bounds: how far startups lie from their prediction, by how near the evidence is, from residuals held out by group.

Each part has a scale (`scales.py`); the scales of a target's parts add in quadrature, since their errors are unlike,
which makes the total's width less than the sum of the stages'. What is calibrated is the error in units of that
deviation, apart for everyday starts and for rare ones. Each group has one vote, shared by its startups.

Conformal where groups suffice: of G groups and one new one, all alike, the quantile that holds the share s of the new
one is the smallest error with s (G + 1) groups at or below it. Where they do not, Student's t by the mean size of the
errors: it tells of all groups, where the quantile of twenty is what the worst two of them did.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm
from scipy.stats import t as student

from app.prediction.case import Case
from app.prediction.scales import MEAN_SIZE, Chain, Standing, anywhere, chain_on_new, narrowest
from app.stages import STAGES

__all__ = ["COVERAGE", "NEARNESS", "TARGETS", "Calibration", "Spread", "scale_of", "spread_of"]

Array = NDArray[np.float64]
COVERAGE = 0.9
TARGETS: tuple[str, ...] = ("total", *(stage.value for stage in STAGES))
"""What is bounded: the total and each stage."""
NEARNESS = ("history", "elsewhere", "hardware", "pooled")
"""This model on this hardware; this model elsewhere and this hardware; this hardware alone; neither."""
WIDEST = 5.0
"""In a mean size, an error counts as five deviations at most: of Student's errors fewer than one in a hundred lie
further out, and one disk that is nothing like the others must not widen the bounds of all."""
PRIOR_GROUPS = 1.0
"""Groups of one deviation each that the parametric bounds begin with, so that no group or one gives bounds as well."""
CONFORMAL_GROUPS = 45
"""Groups that suffice: what conformal 90 % bounds really hold scatters by 6 % with 20 groups, 4 % with 45 (a beta
distribution), and with 20 they lie where the worst two groups do."""
FREEDOM = 4.0
"""Degrees of freedom of the errors, as a fit takes them to have: nine in ten lie within 2.13 times their mean size."""


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
    """Of each part and its narrower circumstances, the usual relative error."""
    spreads: Mapping[str, Spread]
    """Of each target, the errors in deviations: of everyday starts, and under ``target|rare`` of others."""

    def spread(self, target: str, case: Case) -> Spread:
        """Return the spread of a target for a case: rare starts do not widen the bounds of everyday ones."""
        return self.spreads[f"{target}|rare" if case.rare else target]

    def to_json(self) -> dict[str, Any]:
        """Return the calibration as plain data."""
        spreads = {target: asdict(spread) for target, spread in self.spreads.items()}
        return {"scales": dict(self.scales), "spreads": spreads}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "Calibration":
        """Rebuild a calibration."""
        return cls(data["scales"], {target: Spread(**spread) for target, spread in data["spreads"].items()})


def scale_of(calibrations: Mapping[str, Calibration], near: str, chain: Chain, standing: Standing) -> float:
    """Return the usual relative error of a part: its own, and that of the few startups that its hardware is known by.

    On new hardware that of a part there, and in quadrature that of a new model where it is new as well.
    """
    if near != "pooled":
        return narrowest(calibrations[near].scales, chain) * standing.uncertainty
    usual = narrowest(calibrations[near].scales, chain_on_new(chain, familiar=standing.familiar))
    return (
        usual
        if standing.known_model
        else math.hypot(usual, narrowest(calibrations["hardware"].scales, anywhere(chain)))
    )


def spread_of(errors: Array, groups: Sequence[str]) -> Spread:
    """Measure the spread of ``errors`` in deviations, each of one group."""
    counts = Counter(groups)
    count = len(counts)
    votes = np.array([1.0 / counts[group] for group in groups])
    if count < CONFORMAL_GROUPS:
        sizes = np.minimum(np.abs(errors), WIDEST)
        size = (float(votes @ sizes) + PRIOR_GROUPS * MEAN_SIZE) / (count + PRIOR_GROUPS)
        return Spread(count, size * _widths((1 + COVERAGE) / 2, count), size * _widths(COVERAGE, count), None, False)
    two_sided, p90 = (_quantile(told, votes, COVERAGE, count) for told in (np.abs(errors), errors))
    p99 = max(_quantile(errors, votes, 0.99, count), two_sided) if 0.99 * (count + 1) <= count else None
    return Spread(count, two_sided, min(max(p90, 0.0), two_sided), p99, True)


def _widths(share: float, groups: int) -> float:
    """Return how many mean sizes hold a share of the errors from below; more where few groups tell the mean size.

    Errors of four degrees of freedom have a mean size of 1. For nine in ten within both bounds, no group gives 8.2,
    one 3.8, ten 2.3, forty 2.2.
    """
    told = groups + PRIOR_GROUPS
    return float(student.ppf(share, FREEDOM) * student.ppf(share, told) / norm.ppf(share))


def _quantile(values: Array, votes: Array, share: float, groups: int) -> float:
    """Return the conformal quantile of at least ``share`` (groups + 1) groups."""
    order = np.argsort(values, kind="stable")
    reached = np.searchsorted(np.cumsum(votes[order]), share * (groups + 1) - 1e-9)
    return float(values[order][min(int(reached), len(values) - 1)])
