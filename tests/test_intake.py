"""A measurement's way in: predicted first, quarantined only where history speaks against it."""

from typing import Any

import pytest

from app.intake import QUARANTINE_WIDTHS, receive
from app.prediction.fit import fit
from app.prediction.observation import Observation
from app.prediction.predictor import Predictor
from app.prediction.recipe import Recipe
from app.schemas.measurement import Measurement
from app.schemas.records import MeasurementStatus
from tests.factories import make_measurement, make_model, make_spec

NODE = {"gpu": "NVIDIA H100 NVL", "node": "mine"}


def measured(total: float, **fields: Any) -> Measurement:
    spec = make_spec(hardware=NODE)
    return Measurement.model_validate(make_measurement(total_seconds=total, spec=spec) | fields)


def after(startups: int) -> Predictor:
    """Return a predictor that has seen so many startups of 60 s."""
    observations = [Observation.of(measured(60.0 + 0.1 * (n % 3))) for n in range(startups)]
    return Predictor(fit(observations, recipe=Recipe(rounds=1, folds=2)), fit_id=7)


@pytest.fixture(scope="module")
def experienced() -> Predictor:
    return after(8)


def test_far_outside_of_history_is_quarantined_with_the_reason(experienced: Predictor) -> None:
    for total in (2000.0, 86_400.0):
        stored = receive(measured(total), experienced)
        assert stored.status is MeasurementStatus.QUARANTINED
        assert f"{total:.1f} s lies far outside" in (stored.status_reason or "")
        assert stored.prediction
        assert stored.prediction["fit_id"] == 7


def test_the_bounds_and_their_widths_decide(experienced: Predictor) -> None:
    total = experienced.predict(measured(60.0).spec).total
    edge = total.upper_seconds + QUARANTINE_WIDTHS * (total.upper_seconds - total.lower_seconds)
    assert receive(measured(edge - 0.01), experienced).status is MeasurementStatus.ACCEPTED
    assert receive(measured(edge + 0.01), experienced).status is MeasurementStatus.QUARANTINED


def test_five_earlier_startups_are_what_a_quarantine_takes() -> None:
    assert receive(measured(2000.0), after(4)).status is MeasurementStatus.ACCEPTED
    assert receive(measured(2000.0), after(5)).status is MeasurementStatus.QUARANTINED


def test_new_hardware_and_new_models_are_news(experienced: Predictor) -> None:
    for spec in (
        make_spec(hardware={"gpu": "NVIDIA B300", "node": "new"}),
        make_spec(model=make_model(name="new/model"), hardware=NODE),
    ):
        stored = receive(measured(2000.0, spec=spec), experienced)
        assert (stored.status, stored.status_reason) == (MeasurementStatus.ACCEPTED, None)
        assert stored.prediction


@pytest.mark.parametrize("outcome", ["failed", "timed_out"])
def test_startups_that_failed_are_never_outliers(experienced: Predictor, outcome: str) -> None:
    stored = receive(measured(2000.0, outcome=outcome), experienced)
    assert (stored.status, stored.prediction) == (MeasurementStatus.ACCEPTED, None)


def test_what_cannot_be_predicted_is_kept(experienced: Predictor) -> None:
    stored = receive(measured(60.0, spec=make_spec(model="nobody/knows")), experienced)
    assert (stored.status, stored.prediction) == (MeasurementStatus.ACCEPTED, None)
    assert receive(measured(60.0), None).prediction is None


def test_what_is_stored_is_what_was_sent(experienced: Predictor) -> None:
    wire = make_measurement(total_seconds=30, new_field=[1])
    assert receive(Measurement.model_validate(wire), experienced).content == wire
