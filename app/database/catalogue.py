"""What is known of models and hardware, and how the stored predictions fared."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from app.database.keys import SEPARATOR
from app.database.tables import MeasurementRow
from app.schemas.measurement import Outcome
from app.schemas.records import HardwareList, KnownHardware, KnownModel, ModelList

__all__ = ["PredictedMeasurement", "known_hardware", "known_models", "predicted_measurements"]

LIVE_WINDOW = 5_000  # Newest predicted measurements that live error is computed from.
_READY = MeasurementRow.outcome == Outcome.READY.value


def known_models(session: Session) -> ModelList:
    """Return the models that have been measured, by name."""
    name = MeasurementRow.content["spec"]["model"]
    rows = session.execute(
        select(
            func.split_part(MeasurementRow.model_key, SEPARATOR, 1).label("key"),
            func.min(func.coalesce(name["name"].astext, name.astext)).label("name"),
            func.count().filter(_READY).label("measurements"),
            func.array_agg(MeasurementRow.gpu_key.distinct()).label("gpus"),
            func.bool_or(MeasurementRow.reference).label("reference"),
        )
        .group_by("key")
        .order_by("key")
    )
    return ModelList(
        models=[
            KnownModel(name=row.name, measurements=row.measurements, gpus=sorted(row.gpus), reference=row.reference)
            for row in rows
        ]
    )


def known_hardware(session: Session) -> HardwareList:
    """Return the hardware that has been measured, by GPU."""
    rows = session.execute(
        select(
            MeasurementRow.hardware_key,
            func.count().filter(_READY).label("measurements"),
            func.bool_or(MeasurementRow.reference).label("reference"),
        )
        .group_by(MeasurementRow.hardware_key)
        .order_by(MeasurementRow.hardware_key)
    )
    return HardwareList(hardware=[_hardware(row) for row in rows])


def _hardware(row: Any) -> KnownHardware:
    gpu, count, cpu, cores, storage, node = row.hardware_key.split(SEPARATOR)
    return KnownHardware(
        gpu=gpu,
        gpu_count=int(count),
        cpu=cpu or None,
        cpu_cores=int(cores) if cores else None,
        storage=storage or None,
        node=node or None,
        measurements=row.measurements,
        reference=row.reference,
    )


@dataclass(frozen=True)
class PredictedMeasurement:
    """A measurement with the prediction that was stored beside it."""

    gpu: str
    engine_minor: str
    total_seconds: float
    stages: Mapping[str, float | None]
    prediction: dict[str, Any]


def predicted_measurements(session: Session) -> Sequence[PredictedMeasurement]:
    """Return the newest ready measurements of the fleet that were predicted before they were stored."""
    row = MeasurementRow
    # Of five thousand whole measurements, reading and checking each anew would take seconds.
    total, stages = row.content["total_seconds"], row.content["stages"]
    rows = session.execute(
        select(row.gpu_key, row.engine_minor, total, stages, row.prediction)
        .where(_READY, ~row.reference, row.prediction.is_not(None))
        .order_by(row.received_at.desc(), row.id.desc(), row.source.desc())
        .limit(LIVE_WINDOW)
    )
    return [PredictedMeasurement(gpu, version, told, each or {}, said) for gpu, version, told, each, said in rows]
