"""Intervals: bounds around a prediction, from its scenes and a calibration."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from app.prediction.bounds import Calibration, Spread
from app.prediction.case import Case
from app.prediction.scenes import Scene
from app.stages import PARTS_OF, Part, Stage

__all__ = ["Evidence", "Interval", "interval"]

MIN_SHARE = 0.02  # Bounds span every state that at least one startup in fifty began with.
REPEATABILITY_WIDTH = 1.645  # 90 % of a normal distribution: never promise more than startups repeat.


@dataclass(frozen=True, slots=True)
class Interval:
    """Bounds of one target, seconds; p90 <= upper <= p99."""

    lower: float
    upper: float
    p90: float
    p99: float | None
    conformal: bool
    """Whether they are distribution-free."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """What bounds are made from."""

    calibration: Calibration
    """Gives the quantiles."""
    scale: Callable[[Part, Case], float]
    """Gives the usual relative error of a part."""
    repeatability: float
    """Deviation of the logarithm of totals from startup to startup on this hardware."""
    widening: float
    """Factor for what lies beyond the measured."""
    floor_seconds: float


def interval(target: str, scenes: Sequence[Scene], evidence: Evidence) -> Interval:
    """Bound a target over its scenes: the widest of the states that are likely enough, never narrower than repeats."""
    mean = sum(scene.share * scene.seconds[target] for scene in scenes)
    likely = [scene for scene in scenes if scene.share >= MIN_SHARE] or scenes
    each = [_around(scene, target, evidence.calibration.spread(target, scene.case), evidence) for scene in likely]
    upper = max(mean, *(bounds.upper for bounds in each))
    p99 = [bounds.p99 for bounds in each if bounds.p99 is not None]
    return Interval(
        lower=max(0.0, min(mean, *(bounds.lower for bounds in each))),
        upper=upper,
        p90=min(upper, max(mean, *(bounds.p90 for bounds in each))),
        p99=max(upper, *p99) if len(p99) == len(each) else None,
        conformal=all(bounds.conformal for bounds in each),
    )


def _around(scene: Scene, target: str, spread: Spread, evidence: Evidence) -> Interval:
    seconds, deviation = scene.seconds[target], _deviation(scene, target, evidence)
    least = REPEATABILITY_WIDTH * evidence.repeatability * seconds
    width = max(spread.two_sided * deviation, least)
    p99 = None if spread.p99 is None else seconds + spread.p99 * deviation
    return Interval(seconds - width, seconds + width, seconds + spread.p90 * deviation, p99, spread.conformal)


def _deviation(scene: Scene, target: str, evidence: Evidence) -> float:
    """Return the deviation of a target: those of its parts in quadrature."""
    parts = tuple(Part) if target == "total" else PARTS_OF[Stage(target)]
    square = 0.0
    for part in parts:
        square += (evidence.scale(part, scene.case) * (scene.parts[part] + evidence.floor_seconds)) ** 2
    return evidence.widening * math.sqrt(square)
