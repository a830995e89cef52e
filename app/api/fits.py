"""Fits: what was learned, and which one answers."""

from typing import Annotated

from fastapi import APIRouter, Path, Query
from sqlalchemy.orm import Session

from app.api.dependencies import SessionDependency
from app.api.problems import problem_responses
from app.database import fits as queries
from app.database.catalogue import predicted_measurements
from app.database.tables import FitRow
from app.live import live_errors
from app.schemas.fits import ChampionFit, FitDetail, FitList, FitSummary

router = APIRouter(prefix="/fits", tags=["fits"])

FitID = Annotated[int, Path(ge=1, le=2**63 - 1, description="Number of the fit.")]


@router.get("", responses=problem_responses(422, 503))
def list_fits(
    session: SessionDependency, limit: Annotated[int, Query(ge=1, le=1000, description="Fits at most.")] = 50
) -> FitList:
    """List fits, newest first."""
    champion = queries.champion_id(session)
    rows = queries.list_fits(session, limit)
    return FitList(fits=[FitSummary.model_validate(_fields(row, champion)) for row in rows])


@router.get("/champion", responses=problem_responses(503))
def get_champion(session: SessionDependency) -> ChampionFit:
    """Return the fit that answers now, how its predictions fare, and whether they drift."""
    champion, row = queries.champion(session)
    live = live_errors(predicted_measurements(session))
    drifting = any(error.drifting for error in live)
    return ChampionFit(**_detail(row, row.id), pinned=champion.pinned, live=live, drifting=drifting)


@router.get("/{fit_id}", responses=problem_responses(404, 422, 503))
def get_fit(fit_id: FitID, session: SessionDependency) -> FitDetail:
    """Return one fit: coefficients, scores, what was left out and why."""
    return _fit(session, queries.find_fit(session, fit_id))


@router.post("/{fit_id}/activate", responses=problem_responses(404, 422, 503))
def activate_fit(fit_id: FitID, session: SessionDependency) -> FitDetail:
    """Make a fit answer from now on: roll back, or forward. An older fit stays until the newest is activated."""
    return _fit(session, queries.activate_fit(session, fit_id))


def _fit(session: Session, row: FitRow) -> FitDetail:
    return FitDetail.model_validate(_detail(row, queries.champion_id(session)))


def _fields(row: FitRow, champion: int | None) -> dict[str, object]:
    names = ("id", "fitted_at", "status", "reason", "measurements")
    return {name: getattr(row, name) for name in names} | {"champion": row.id == champion}


def _detail(row: FitRow, champion: int | None) -> dict[str, object]:
    return _fields(row, champion) | {"content": row.content, "scores": row.scores, "left_out": row.left_out}
