"""Builds the API: settings in, application out. Nothing happens on import."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.metadata import version
from typing import Any

from fastapi import FastAPI
from fastapi.routing import APIRoute
from prometheus_fastapi_instrumentator import Instrumentator

from app.api import catalogue, fits, health, measurements, predict, refits
from app.api.limits import LimitBody
from app.api.problems import add_problem_handlers
from app.champion import Champion
from app.database.engine import make_database_engine, sessions_of
from app.database.fits import CHAMPION_CHANNEL
from app.database.listen import listening
from app.errors import SettingsError
from app.metrics import make_registry
from app.schemas.problem import Problem
from app.settings import Settings

__all__ = ["create_app"]

POLL_SECONDS = 15.0  # How old a champion may get where a notification was lost.
_DESCRIPTION = """\
Coldcast forecasts how long a vLLM engine will take to start, stage by stage, before anyone takes the GPU.

Seconds are floats, bytes integers, times RFC 3339 with a zone. Every error is `application/problem+json` (RFC 9457)
with a stable `type`, and says what to do. The method and the reference measurements come from "Breaking the Ice:
Analyzing Cold Start Latency in vLLM" (MLSys 2026, arXiv 2606.07362).
"""


def create_app(settings: Settings) -> FastAPI:
    """Build the API on ``settings.database_url``.

    Raises:
        SettingsError: no database is named.
    """
    if settings.database_url is None:
        raise SettingsError("Set DATABASE_URL, or run `coldcast serve`, which brings a Postgres of its own.")
    engine = make_database_engine(
        settings.database_url, pool_size=settings.pool_size, statement_timeout_ms=settings.statement_timeout_ms
    )
    sessions = sessions_of(engine)
    champion = Champion(sessions)
    listen_url = settings.listen_url or settings.database_url

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        champion.reload()
        with listening(listen_url, CHAMPION_CHANNEL, champion.reload, POLL_SECONDS):
            yield
        engine.dispose()

    app = FastAPI(
        title="Coldcast",
        version=version("coldcast"),
        description=_DESCRIPTION,
        lifespan=lifespan,
        generate_unique_id_function=_operation_id,
    )
    app.state.sessions, app.state.champion = sessions, champion
    app.state.registry = make_registry(champion, sessions)
    for router in (predict, measurements, refits, fits, catalogue, health):
        app.include_router(router.router)
    add_problem_handlers(app)
    app.add_middleware(LimitBody)
    Instrumentator(registry=app.state.registry, excluded_handlers=["/metrics", "/livez", "/readyz"]).instrument(app)
    _describe_problems(app)
    return app


def _operation_id(route: APIRoute) -> str:
    return route.name


def _describe_problems(app: FastAPI) -> None:
    """Put the problem's schema where every route's documentation points to."""
    document = app.openapi()
    document["components"]["schemas"].setdefault("Problem", _problem_schema())


def _problem_schema() -> dict[str, Any]:
    return Problem.model_json_schema(ref_template="#/components/schemas/{model}")
