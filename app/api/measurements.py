"""Measurements: what agents report, and what is stored."""

from typing import Annotated

from fastapi import APIRouter, Body, Path, Query, Response

from app.api.dependencies import ChampionDependency, SessionDependency
from app.api.examples import BATCH_MEASUREMENTS, MEASUREMENT
from app.api.problems import problem_responses
from app.api.records import record_of, store_batch
from app.database import measurements as queries
from app.database.fits import report_miss
from app.database.measurements import Filters
from app.intake import receive
from app.live import is_miss
from app.schemas.base import Label, Name, Time
from app.schemas.measurement import ID_PATTERN, Measurement, MeasurementBatch, Outcome
from app.schemas.records import BatchResults, MeasurementList, MeasurementRecord, MeasurementStatus

router = APIRouter(prefix="/measurements", tags=["measurements"])

MeasurementID = Annotated[str, Path(pattern=ID_PATTERN, description="Id that the reporter chose.")]
Source = Annotated[Label | None, Query(description="Who reported it, where several reporters chose the same id.")]
Cursor = Annotated[str | None, Query(max_length=1024, description="`next_cursor` of the page before.")]
Limit = Annotated[int, Query(ge=1, le=1000, description="Measurements on a page.")]


@router.post(
    "",
    status_code=201,
    responses={
        200: {"description": "It was stored before; nothing changed.", "model": MeasurementRecord},
        **problem_responses(400, 409, 413, 422, 503),
    },
)
def create_measurement(
    measurement: Annotated[Measurement, Body(openapi_examples=MEASUREMENT)],
    response: Response,
    session: SessionDependency,
    champion: ChampionDependency,
) -> MeasurementRecord:
    """Store one startup. Sending it again with the same id changes nothing."""
    stored = receive(measurement, champion.predictor() if champion.loaded else None)
    row, created = queries.insert_measurement(session, stored)
    if created and is_miss(stored):
        report_miss(session)
    response.status_code = 201 if created else 200
    return record_of(row)


@router.post("/batch", responses=problem_responses(400, 413, 422, 503))
def create_measurements(
    batch: Annotated[MeasurementBatch, Body(openapi_examples=BATCH_MEASUREMENTS)],
    session: SessionDependency,
    champion: ChampionDependency,
) -> BatchResults:
    """Store many startups; each stands alone and keeps its place."""
    return store_batch(session, batch, champion.predictor() if champion.loaded else None)


@router.get("", responses=problem_responses(422, 503))
def list_measurements(
    session: SessionDependency,
    model: Annotated[Name | None, Query(description="Model name.")] = None,
    gpu: Annotated[Name | None, Query(description="GPU name, as NVML or people write it.")] = None,
    engine_version: Annotated[Label | None, Query(description="vLLM version.")] = None,
    outcome: Annotated[Outcome | None, Query(description="How the startup ended.")] = None,
    status: Annotated[MeasurementStatus | None, Query(description="Whether it takes part in fits.")] = None,
    since: Annotated[Time | None, Query(description="Received at or after this time (RFC 3339 with a zone).")] = None,
    cursor: Cursor = None,
    limit: Limit = 100,
) -> MeasurementList:
    """List measurements, newest received first."""
    filters = Filters(model, gpu, engine_version, outcome, status, since)
    rows, next_cursor = queries.list_measurements(session, filters, cursor, limit)
    return MeasurementList(measurements=[record_of(row) for row in rows], next_cursor=next_cursor)


@router.get("/{measurement_id}", responses=problem_responses(404, 422, 503))
def get_measurement(
    measurement_id: MeasurementID, session: SessionDependency, source: Source = None
) -> MeasurementRecord:
    """Return one measurement."""
    return record_of(queries.find_measurement(session, measurement_id, source))


@router.post("/{measurement_id}/accept", responses=problem_responses(404, 422, 503))
def accept_measurement(
    measurement_id: MeasurementID, session: SessionDependency, source: Source = None
) -> MeasurementRecord:
    """Take a quarantined measurement back into fits, by an operator's word."""
    row = queries.find_measurement(session, measurement_id, source)
    if row.status == MeasurementStatus.QUARANTINED.value:
        queries.set_status(session, row, MeasurementStatus.ACCEPTED, "accepted by an operator")
    return record_of(row)
