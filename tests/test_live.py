"""Live error: the stored predictions against what then happened."""

from typing import Any

import pytest

from app.database.catalogue import PredictedMeasurement
from app.database.engine import Sessions
from app.database.measurements import StoredMeasurement
from app.live import DriftWatch, is_miss, live_errors
from app.schemas.measurement import Measurement
from app.stages import Stage
from tests.factories import make_measurement, store


def row(total: float, predicted: float, width: float, *, gpu: str = "g", **stages: Any) -> PredictedMeasurement:
    seconds = {name: value for name, (value, _) in stages.items()}
    prediction = {
        "fit_id": 1,
        "rung": "history",
        "total_seconds": predicted,
        "lower_seconds": predicted - width,
        "upper_seconds": predicted + width,
        "stages": {name: (value, value - width, value + width) for name, (_, value) in stages.items()},
    }
    return PredictedMeasurement(gpu, "0.10", total, seconds, prediction)


def test_error_bias_and_coverage_of_the_total() -> None:
    # Errors of +10 of 100 and -10 of 50; the first lies inside of its bounds.
    (total,) = live_errors([row(100.0, 110.0, 15.0), row(50.0, 40.0, 5.0)])
    assert total.stage is None
    assert total.measurements == 2
    assert total.mean_absolute_percentage_error == pytest.approx((0.1 + 0.2) / 2)
    assert total.bias_seconds == pytest.approx(0.0)
    assert total.coverage == 0.5


def test_stages_and_hardware_are_kept_apart() -> None:
    errors = live_errors(
        [row(100.0, 100.0, 1.0, gpu=gpu, torch_compile=(10.0, 12.0 if gpu == "a" else 9.0)) for gpu in "ab"]
    )
    assert [(e.gpu, e.stage) for e in errors] == [
        ("a", None),
        ("a", Stage.TORCH_COMPILE),
        ("b", None),
        ("b", Stage.TORCH_COMPILE),
    ]
    assert [e.bias_seconds for e in errors if e.stage] == [pytest.approx(2.0), pytest.approx(-1.0)]


def test_a_stage_that_did_not_happen_has_no_percentage() -> None:
    error = next(e for e in live_errors([row(10.0, 10.0, 1.0, cuda_graph_capture=(0.0, 0.5))]) if e.stage)
    assert error.mean_absolute_percentage_error is None
    assert error.bias_seconds == pytest.approx(0.5)


def test_drift_is_coverage_too_low_to_be_chance() -> None:
    # The chance that at most k of 20 lie inside of bounds that hold 90 %: 0.0024 for 13, 0.0004 for 12.
    def drifting(inside: int) -> bool:
        rows = [row(100.0, 100.0, 1.0)] * inside + [row(100.0, 200.0, 1.0)] * (20 - inside)
        return live_errors(rows)[0].drifting

    assert not drifting(20)
    assert not drifting(13)
    assert drifting(12)


def test_stages_that_this_version_does_not_know_count_nothing() -> None:
    errors = live_errors([row(100.0, 100.0, 1.0, brand_new=(10.0, 12.0))])
    assert [e.stage for e in errors] == [None]


def test_short_stages_raise_no_drift() -> None:
    errors = live_errors([row(100.0, 100.0, 1.0, tokenizer_init=(0.4, 9.0))] * 20)
    assert [e.drifting for e in errors] == [False, False]


def stored(total: float, **stages: Any) -> StoredMeasurement:
    predicted = row(total, 100.0, 1.0, **stages)
    measurement = Measurement.model_validate(make_measurement(total_seconds=total, stages=predicted.stages))
    return StoredMeasurement(measurement, measurement.sent, prediction=predicted.prediction)


def test_a_miss_is_a_total_or_a_stage_outside_of_its_bounds() -> None:
    assert not is_miss(stored(100.9))
    assert is_miss(stored(101.1))
    assert is_miss(stored(100.9, torch_compile=(10.0, 12.0)))
    assert not is_miss(stored(100.9, torch_compile=(10.0, 10.9)))
    assert not is_miss(stored(100.9, tokenizer_init=(0.1, 0.9)))  # Short: it would begin no drift.
    measurement = Measurement.model_validate(make_measurement())
    assert not is_miss(StoredMeasurement(measurement, measurement.sent))  # Nobody could predict it.


def test_what_drifts_is_news_once_until_it_has_recovered(sessions: Sessions) -> None:
    def arrive(total: float, count: int) -> None:
        for _ in range(count):
            store(sessions, make_measurement(total_seconds=total), prediction=row(total, 100.0, 1.0).prediction)

    watch = DriftWatch(sessions)
    arrive(100.0, 20)
    assert watch.news() == []
    arrive(200.0, 9)  # The chance that 20 or fewer of 29 lie inside is 0.0016, that 20 of 30 do is 0.0005.
    assert watch.news() == []
    arrive(200.0, 1)
    assert watch.news() == [("h100 nvl", "0.10", "total")]
    arrive(200.0, 1)
    assert watch.news() == []
    arrive(100.0, 20)  # 40 of 51.
    assert watch.news() == []
    arrive(200.0, 9)  # 40 of 60.
    assert watch.news() == [("h100 nvl", "0.10", "total")]
