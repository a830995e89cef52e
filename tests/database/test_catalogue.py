"""What live error is computed from."""

from app.database.catalogue import predicted_measurements
from app.database.engine import Sessions
from app.schemas.records import MeasurementStatus
from tests.factories import make_measurement, store

PREDICTION = {
    "fit_id": 1,
    "rung": "history",
    "total_seconds": 30.0,
    "lower_seconds": 29.0,
    "upper_seconds": 31.0,
    "stages": {},
}


def test_quarantined_measurements_count_in_live_error(sessions: Sessions) -> None:
    store(sessions, make_measurement(total_seconds=41.0), prediction=PREDICTION)
    quarantined = make_measurement(total_seconds=42.0)
    store(sessions, quarantined, prediction=PREDICTION, status=MeasurementStatus.QUARANTINED)
    store(sessions, make_measurement(total_seconds=43.0))  # Never predicted.
    store(sessions, make_measurement(total_seconds=44.0, outcome="failed"), prediction=PREDICTION)
    with sessions() as session:
        rows = predicted_measurements(session)
    assert [row.total_seconds for row in rows] == [42.0, 41.0]
    assert rows[0].prediction == PREDICTION
    assert rows[0].stages == make_measurement()["stages"]
