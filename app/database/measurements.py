"""Queries on measurements."""

import base64
import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from pydantic import TypeAdapter
from sqlalchemy import delete, func, select, tuple_, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session, aliased

from app.database.keys import SEPARATOR, engine_minor, hardware_key, model_key, reporter_of
from app.database.tables import MeasurementRow
from app.errors import Conflict, FieldError, InvalidInput, NotFound
from app.hardware_names import gpu_key
from app.schemas.base import Time, json_problem
from app.schemas.measurement import Measurement, Outcome
from app.schemas.records import MeasurementStatus

__all__ = [
    "Filters",
    "StoredMeasurement",
    "WorkingRow",
    "digests",
    "find_measurement",
    "insert_many",
    "insert_measurement",
    "list_measurements",
    "release_agreed",
    "remove_reference_except",
    "set_status",
    "working_set",
]

PER_GROUP = (
    200  # Newest measurements of one model, hardware and engine version that a fit reads: 200 know a mean to 7 %
)
WORKING_SET = 20_000  # of one spread; together with this bound a refit's memory stays under 1 GiB.
KEYS = 1_000  # Named in one statement: Postgres takes at most 65,535 parameters.
AGREEMENT_SHARE = 0.10  # Two others within a tenth of a quarantined total: the world has changed, not the reporter.
_CURSOR = TypeAdapter(tuple[Time, str, str])  # received_at, id and source of the last measurement on the page.


@dataclass(frozen=True)
class StoredMeasurement:
    """What goes into one row beside the measurement itself."""

    measurement: Measurement
    content: dict[str, Any]
    status: MeasurementStatus = MeasurementStatus.ACCEPTED
    status_reason: str | None = None
    prediction: dict[str, Any] | None = None
    reference: bool = False


@dataclass(frozen=True)
class WorkingRow:
    """One measurement as a fit reads it."""

    source: str
    id: str
    digest: str
    reference: bool
    reporter: str
    content: dict[str, Any]


@dataclass(frozen=True)
class Filters:
    """What `GET /measurements` can be narrowed by."""

    model: str | None = None
    gpu: str | None = None
    engine_version: str | None = None
    outcome: Outcome | None = None
    status: MeasurementStatus | None = None
    since: datetime | None = None


_INSERT = insert(MeasurementRow).on_conflict_do_nothing()


def insert_measurement(session: Session, stored: StoredMeasurement) -> tuple[MeasurementRow, bool]:
    """Store a measurement; return its row and whether it is new.

    Two at once with the same id make one row: the second waits for the first and then reads it.

    Raises:
        Conflict: the id is taken by other content.
    """
    created = session.scalars(_INSERT.values(_columns(stored)).returning(MeasurementRow)).one_or_none()
    if created is not None:
        return created, True
    measurement = stored.measurement
    row = session.get_one(MeasurementRow, (measurement.source, measurement.id))
    if row.digest != measurement.digest:
        raise Conflict(f"The id {measurement.id!r} is taken by a measurement with other content: choose a new id.")
    return row, False


def insert_many(session: Session, batch: Sequence[StoredMeasurement]) -> set[tuple[str, str]]:
    """Store many measurements; return the (source, id) of those that are new."""
    if not batch:
        return set()
    # In one order, so that two batches with the same ids wait for each other instead of deadlocking.
    ordered = sorted(batch, key=lambda stored: (stored.measurement.source, stored.measurement.id))
    returning = _INSERT.returning(MeasurementRow.source, MeasurementRow.id)
    return {(row.source, row.id) for row in session.execute(returning, [_columns(stored) for stored in ordered])}


def _columns(stored: StoredMeasurement) -> dict[str, Any]:
    measurement, spec = stored.measurement, stored.measurement.spec
    return {
        "source": measurement.source,
        "id": measurement.id,
        "digest": measurement.digest,
        "started_at": measurement.started_at,
        "outcome": measurement.outcome.value,
        "status": stored.status.value,
        "status_reason": stored.status_reason,
        "total_seconds": measurement.total_seconds,
        "reference": stored.reference,
        "reporter": reporter_of(measurement),
        "model_key": model_key(spec.model),
        "gpu_key": gpu_key(spec.hardware.gpu),
        "hardware_key": hardware_key(spec.hardware),
        "engine_version": spec.engine.version,
        "engine_minor": engine_minor(spec.engine.version),
        "content": stored.content,
        "prediction": stored.prediction,
    }


def remove_reference_except(session: Session, kept: Collection[tuple[str, str]]) -> int:
    """Remove the reference measurements whose (source, id) is not ``kept``; return how many."""
    stored = session.execute(select(MeasurementRow.source, MeasurementRow.id).where(MeasurementRow.reference))
    stale = [tuple(row) for row in stored if tuple(row) not in kept]
    key = tuple_(MeasurementRow.source, MeasurementRow.id)
    for start in range(0, len(stale), KEYS):
        session.execute(delete(MeasurementRow).where(key.in_(stale[start : start + KEYS])))
    return len(stale)


def digests(session: Session, keys: Sequence[tuple[str, str]]) -> dict[tuple[str, str], str]:
    """Return the digests of the stored ones among ``keys`` of (source, id)."""
    found: dict[tuple[str, str], str] = {}
    for start in range(0, len(keys), KEYS):
        columns = tuple_(MeasurementRow.source, MeasurementRow.id)
        query = select(MeasurementRow.source, MeasurementRow.id, MeasurementRow.digest)
        for row in session.execute(query.where(columns.in_(keys[start : start + KEYS]))):
            found[row.source, row.id] = row.digest
    return found


def find_measurement(session: Session, measurement_id: str, source: str | None) -> MeasurementRow:
    """Return the measurement with this id.

    Raises:
        NotFound: there is none.
        InvalidInput: several reporters chose the same id and ``source`` does not say which is meant.
    """
    query = select(MeasurementRow).where(MeasurementRow.id == measurement_id).order_by(MeasurementRow.source).limit(50)
    rows = session.scalars(query.where(MeasurementRow.source == source) if source else query).all()
    if not rows:
        raise NotFound(f"There is no measurement {measurement_id!r}: GET /measurements lists them.")
    if len(rows) > 1:
        names = [row.source for row in rows]
        detail = f"is ambiguous: add ?source= with one of {', '.join(names)}"
        raise InvalidInput(f"The id {measurement_id!r} {detail}.", [FieldError("/query/source", detail)], names)
    return rows[0]


def list_measurements(
    session: Session, filters: Filters, cursor: str | None, limit: int
) -> tuple[Sequence[MeasurementRow], str | None]:
    """Return one page, newest received first, and the cursor of the next."""
    query = select(MeasurementRow)
    if filters.model:
        query = query.where(func.split_part(MeasurementRow.model_key, SEPARATOR, 1) == filters.model.lower())
    if filters.gpu:
        query = query.where(MeasurementRow.gpu_key == gpu_key(filters.gpu))
    if filters.engine_version:
        query = query.where(MeasurementRow.engine_version == filters.engine_version)
    if filters.outcome:
        query = query.where(MeasurementRow.outcome == filters.outcome.value)
    if filters.status:
        query = query.where(MeasurementRow.status == filters.status.value)
    if filters.since:
        query = query.where(MeasurementRow.received_at >= filters.since)
    place = tuple_(MeasurementRow.received_at, MeasurementRow.id, MeasurementRow.source)
    if cursor:
        query = query.where(place < tuple_(*_decode_cursor(cursor)))
    order = (MeasurementRow.received_at.desc(), MeasurementRow.id.desc(), MeasurementRow.source.desc())
    rows = session.scalars(query.order_by(*order).limit(limit + 1)).all()
    return rows[:limit], _encode_cursor(rows[limit - 1]) if len(rows) > limit else None


def _encode_cursor(row: MeasurementRow) -> str:
    place = json.dumps([row.received_at.isoformat(), row.id, row.source])
    return base64.urlsafe_b64encode(place.encode()).decode().rstrip("=")


def _decode_cursor(cursor: str) -> tuple[datetime, str, str]:
    try:
        place = json.loads(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
        received_at, measurement_id, source = _CURSOR.validate_python(place)
        if json_problem(place):
            raise ValueError(cursor)
        return received_at, measurement_id, source
    except (ValueError, RecursionError) as error:
        detail = "is no cursor of this service: send next_cursor as it came, or leave it out for the first page"
        raise InvalidInput(f"The cursor {detail}.", [FieldError("/query/cursor", detail)]) from error


def working_set(session: Session) -> Sequence[WorkingRow]:
    """Return what a fit reads: ready, accepted measurements, the newest of each model, hardware and engine version.

    At most ``WORKING_SET`` of them, the reference measurements first.
    """
    rank = func.row_number().over(
        partition_by=(MeasurementRow.model_key, MeasurementRow.hardware_key, MeasurementRow.engine_minor),
        order_by=(MeasurementRow.received_at.desc(), MeasurementRow.id),
    )
    ranked = (
        select(MeasurementRow, rank.label("rank"))
        .where(MeasurementRow.outcome == Outcome.READY.value, MeasurementRow.status == MeasurementStatus.ACCEPTED.value)
        .subquery()
    )
    row = ranked.c
    rows = session.execute(
        select(row.source, row.id, row.digest, row.reference, row.reporter, row.content)
        .where((row.rank <= PER_GROUP) | row.reference)
        .order_by(row.reference.desc(), row.received_at.desc(), row.id, row.source)
        .limit(WORKING_SET)
    )
    return [WorkingRow(*row) for row in rows]


def set_status(session: Session, row: MeasurementRow, status: MeasurementStatus, reason: str) -> None:
    """Take a measurement into fits, or out of them."""
    row.status, row.status_reason = status.value, reason
    session.flush()


def release_agreed(session: Session) -> int:
    """Take back every quarantined measurement that two other reporters agree with; return how many."""
    other = aliased(MeasurementRow)
    agreeing = (
        select(func.count(other.reporter.distinct()))
        .where(
            other.model_key == MeasurementRow.model_key,
            other.gpu_key == MeasurementRow.gpu_key,
            other.engine_minor == MeasurementRow.engine_minor,
            other.outcome == MeasurementRow.outcome,
            other.reporter != MeasurementRow.reporter,
            func.abs(other.total_seconds - MeasurementRow.total_seconds)
            <= AGREEMENT_SHARE * MeasurementRow.total_seconds,
        )
        .scalar_subquery()
    )
    released = session.execute(
        update(MeasurementRow)
        .where(MeasurementRow.status == MeasurementStatus.QUARANTINED.value, agreeing >= 2)
        .values(status=MeasurementStatus.ACCEPTED.value, status_reason="two other reporters agree")
        .returning(MeasurementRow.id)
        .execution_options(synchronize_session=False)
    )
    return len(released.all())
