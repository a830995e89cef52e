"""Rows as the wire shows them, and batches stored item by item."""

from sqlalchemy.orm import Session

from app.database.fits import report_miss
from app.database.measurements import digests, insert_many
from app.database.tables import MeasurementRow
from app.errors import Conflict
from app.intake import receive
from app.live import is_miss
from app.prediction.predictor import Predictor
from app.schemas.measurement import Measurement, MeasurementBatch
from app.schemas.problem import Problem, problem_of
from app.schemas.records import BatchResult, BatchResults, MeasurementRecord, MeasurementStatus, StoredPrediction
from app.stages import Stage

__all__ = ["record_of", "store_batch"]


def record_of(row: MeasurementRow) -> MeasurementRecord:
    """Return a stored measurement as the wire shows it."""
    measurement = Measurement.model_validate(row.content)
    stages, unknown = measurement.stage_seconds, measurement.unknown_fields()
    return MeasurementRecord(
        id=row.id,
        source=row.source,
        received_at=row.received_at,
        status=MeasurementStatus(row.status),
        status_reason=row.status_reason,
        started_at=row.started_at,
        outcome=measurement.outcome,
        total_seconds=row.total_seconds,
        stages=stages,
        unattributed_seconds=None if Stage.OTHER in stages else max(0.0, row.total_seconds - sum(stages.values())),
        parts=measurement.part_seconds,
        spec=measurement.spec.model_dump(mode="json", exclude_unset=True),
        facts=measurement.facts | ({"unknown_fields": unknown} if unknown else {}),
        agent_version=measurement.agent_version,
        prediction=StoredPrediction.model_validate(row.prediction) if row.prediction else None,
    )


def store_batch(session: Session, batch: MeasurementBatch, predictor: Predictor | None) -> BatchResults:
    """Store the valid measurements of ``batch`` and say of each what became of it."""
    items = batch.measurements
    first: dict[tuple[str, str], int] = {}
    for index, item in enumerate(items):
        if isinstance(item, Measurement):
            first.setdefault((item.source, item.id), index)
    stored = [receive(item, predictor) for index in first.values() if isinstance(item := items[index], Measurement)]
    created = insert_many(session, stored)
    if any(is_miss(one) for one in stored if (one.measurement.source, one.measurement.id) in created):
        report_miss(session)
    known = digests(session, list(first))
    return BatchResults(
        results=[
            _invalid(index, item)
            if isinstance(item, Problem)
            else _result(index, item, first[item.source, item.id] == index, created, known)
            for index, item in enumerate(items)
        ]
    )


def _invalid(index: int, problem: Problem) -> BatchResult:
    return BatchResult(index=index, id=problem.item_id, status="invalid", problem=problem)


def _result(
    index: int,
    measurement: Measurement,
    is_first: bool,
    created: set[tuple[str, str]],
    known: dict[tuple[str, str], str],
) -> BatchResult:
    key = (measurement.source, measurement.id)
    if is_first and key in created:
        return BatchResult(index=index, id=measurement.id, status="created", problem=None)
    if known[key] == measurement.digest:
        return BatchResult(index=index, id=measurement.id, status="unchanged", problem=None)
    problem = problem_of(Conflict(f"The id {measurement.id!r} is taken by other content: choose a new id."))
    return BatchResult(index=index, id=measurement.id, status="conflict", problem=problem)
