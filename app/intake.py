"""A measurement's way in: predicted by the champion first, then stored with that prediction beside it."""

from app.database.measurements import StoredMeasurement
from app.errors import ColdcastError
from app.prediction.predictor import Predictor
from app.schemas.measurement import Measurement, Outcome
from app.schemas.prediction import Prediction, Rung
from app.schemas.records import MeasurementStatus, StoredPrediction

__all__ = ["receive"]

QUARANTINE_HISTORY = 5  # Fewer earlier startups know the usual spread too badly to call anything far outside.
QUARANTINE_WIDTHS = 3.0  # Beyond the 90 % bounds by three of their widths: under one in a million for normal errors.


def receive(measurement: Measurement, predictor: Predictor | None) -> StoredMeasurement:
    """Return what to store for ``measurement``: every one is a test of the champion before it is a lesson.

    It is quarantined only far outside the bounds of a `history` prediction with enough startups behind it; new
    hardware and new models are news, not outliers.
    """
    prediction = _predict(measurement, predictor)
    reason = _why_quarantined(measurement, prediction) if prediction else None
    return StoredMeasurement(
        measurement=measurement,
        content=measurement.sent,
        status=MeasurementStatus.QUARANTINED if reason else MeasurementStatus.ACCEPTED,
        status_reason=reason,
        prediction=_summary(prediction).model_dump(mode="json") if prediction else None,
    )


def _predict(measurement: Measurement, predictor: Predictor | None) -> Prediction | None:
    if predictor is None or measurement.outcome is not Outcome.READY:
        return None
    try:
        return predictor.predict(measurement.spec)
    except ColdcastError:  # A model nobody knows yet, or an ambiguous name: there is nothing to test against.
        return None


def _why_quarantined(measurement: Measurement, prediction: Prediction) -> str | None:
    basis, total = prediction.basis, prediction.total
    if basis.rung is not Rung.HISTORY or basis.measurements < QUARANTINE_HISTORY:
        return None
    reach = QUARANTINE_WIDTHS * (total.upper_seconds - total.lower_seconds)
    if total.lower_seconds - reach <= measurement.total_seconds <= total.upper_seconds + reach:
        return None
    return (
        f"{measurement.total_seconds:.1f} s lies far outside {total.lower_seconds:.1f} to {total.upper_seconds:.1f} s, "
        f"which {basis.measurements} earlier startups of this model on this hardware lead to expect"
    )


def _summary(prediction: Prediction) -> StoredPrediction:
    return StoredPrediction(
        fit_id=prediction.basis.fit_id,
        rung=prediction.basis.rung.value,
        total_seconds=prediction.total.seconds,
        lower_seconds=prediction.total.lower_seconds,
        upper_seconds=prediction.total.upper_seconds,
        stages={s.stage: (s.seconds, s.lower_seconds, s.upper_seconds) for s in prediction.stages},
    )
