"""Live error: how the predictions that were stored before each measurement fared against it, and what drifts.

Pure but for :class:`DriftWatch`, which reads what it watches.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from scipy.stats import binomtest

from app.database.catalogue import PredictedMeasurement, predicted_measurements
from app.database.engine import Sessions
from app.database.measurements import StoredMeasurement
from app.schemas.fits import LiveError
from app.stages import Stage, observed_stages

__all__ = ["STATED_COVERAGE", "DriftWatch", "is_miss", "live_errors"]

STATED_COVERAGE = 0.90  # What the bounds promise.
DRIFT_PROBABILITY = 0.001  # With 100 groups watched all day a false alarm comes about once in ten windows.
SHORT_SECONDS = 1.0  # Stages under a second are mostly clock resolution: they are shown, but raise no drift.


@dataclass(frozen=True)
class _Test:
    measured: float
    predicted: float
    lower: float
    upper: float

    @property
    def inside(self) -> bool:
        return self.lower <= self.measured <= self.upper


def live_errors(measurements: Iterable[PredictedMeasurement]) -> list[LiveError]:
    """Return error, bias and coverage per GPU, engine version and stage (None: the total), seconds."""
    groups: dict[tuple[str, str, Stage | None], list[_Test]] = defaultdict(list)
    for row in measurements:
        for stage, test in _tests(row.total_seconds, observed_stages(row.stages, row.total_seconds), row.prediction):
            groups[row.gpu, row.engine_minor, stage].append(test)
    ordered = sorted(groups.items(), key=lambda item: (*item[0][:2], item[0][2] or ""))
    return [_score(gpu, version, stage, tests) for (gpu, version, stage), tests in ordered]


def is_miss(stored: StoredMeasurement) -> bool:
    """Whether a measurement's total or a stage of some length lies outside of its bounds: only such begin a drift."""
    if not stored.prediction:
        return False
    measured = stored.measurement
    tests = _tests(measured.total_seconds, measured.stage_seconds, stored.prediction)
    return any(not test.inside and max(test.measured, test.predicted) >= SHORT_SECONDS for _, test in tests)


class DriftWatch:
    """Remembers what drifts, so that a drift is news once: one that a refit does not end asks for no other."""

    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions
        self._known: frozenset[tuple[str, str, str]] = frozenset()

    def news(self) -> list[tuple[str, str, str]]:
        """Return the GPU, engine version and stage (or ``total``) of what drifts and did not at the last look."""
        with self._sessions() as session:
            live = live_errors(predicted_measurements(session))
        now = frozenset((row.gpu, row.engine_version, row.stage or "total") for row in live if row.drifting)
        new, self._known = now - self._known, now
        return sorted(new)


def _tests(
    total_seconds: float, stages: Mapping[Stage, float], prediction: Mapping[str, Any]
) -> Iterable[tuple[Stage | None, _Test]]:
    """Yield what was measured beside the stored prediction, which is a `StoredPrediction` as plain data."""
    yield None, _Test(total_seconds, *(prediction[f"{name}_seconds"] for name in ("total", "lower", "upper")))
    for stage, seconds in stages.items():
        if stage in prediction["stages"]:
            yield stage, _Test(seconds, *prediction["stages"][stage])


def _score(gpu: str, version: str, stage: Stage | None, tests: Sequence[_Test]) -> LiveError:
    shares = [abs(t.predicted - t.measured) / t.measured for t in tests if t.measured > 0]
    inside = sum(t.inside for t in tests)
    long = sum(t.measured for t in tests) >= SHORT_SECONDS * len(tests)
    chance = binomtest(inside, len(tests), STATED_COVERAGE, alternative="less").pvalue
    return LiveError(
        gpu=gpu,
        engine_version=version,
        stage=stage,
        measurements=len(tests),
        mean_absolute_percentage_error=sum(shares) / len(shares) if shares else None,
        bias_seconds=sum(t.predicted - t.measured for t in tests) / len(tests),
        coverage=inside / len(tests),
        drifting=bool(long and chance < DRIFT_PROBABILITY),
    )
