"""Whether the process lives, whether it can answer, and its metrics."""

from typing import Literal

from fastapi import APIRouter, Request, Response
from fastapi.responses import PlainTextResponse
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from pydantic import BaseModel, ConfigDict

from app.api.dependencies import ChampionDependency
from app.api.problems import problem_responses

router = APIRouter(tags=["health"])


class Liveness(BaseModel):
    """The process runs."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    status: Literal["alive"]
    """Always `alive`."""


class Readiness(BaseModel):
    """Predictions are answered."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    status: Literal["ready"]
    """Always `ready`; a service that is not ready answers 503."""
    fit_id: int | None
    """The fit that answers."""
    database: Literal["reachable", "unreachable"]
    """Whether Postgres answered last; predictions go on without it, measurements do not."""


@router.get("/livez")
async def livez() -> Liveness:
    """Say that the process runs. Touches nothing."""
    return Liveness(status="alive")


@router.get("/readyz", responses=problem_responses(503))
def readyz(champion: ChampionDependency) -> Readiness:
    """Say that predictions are answered, and whether the database answers."""
    champion.reload()
    champion.predictor()
    return Readiness(
        status="ready", fit_id=champion.fit_id, database="reachable" if champion.database_ok else "unreachable"
    )


@router.get("/metrics", response_class=PlainTextResponse)
def metrics(request: Request) -> Response:
    """Return the metrics in Prometheus' text format."""
    return Response(generate_latest(request.app.state.registry), media_type=CONTENT_TYPE_LATEST)
