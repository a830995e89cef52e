"""Refits on demand. The refit process does the work; this route wakes it and waits."""

import asyncio
import time
from typing import Annotated

from fastapi import APIRouter, Query, Response
from fastapi.concurrency import run_in_threadpool

from app.api.dependencies import SessionsDependency
from app.api.problems import problem_responses
from app.database import fits as queries
from app.database.engine import Sessions
from app.schemas.fits import RefitResult

router = APIRouter(tags=["fits"])

POLL_SECONDS = 0.1


@router.post(
    "/refits",
    responses={
        202: {"description": "Not done in time; it will be.", "model": RefitResult},
        **problem_responses(422, 503),
    },
)
async def create_refit(
    sessions: SessionsDependency,
    response: Response,
    wait_seconds: Annotated[float, Query(ge=0, le=300, description="How long to wait for it, seconds.")] = 30,
) -> RefitResult:
    """Refit now and say what came of it."""
    deadline = time.monotonic() + wait_seconds
    refit_id = await run_in_threadpool(_ask, sessions)
    while True:
        result = await run_in_threadpool(_look, sessions, refit_id)
        if result.outcome is not None or time.monotonic() >= deadline:
            response.status_code = 200 if result.outcome else 202
            return result
        await asyncio.sleep(POLL_SECONDS)


def _ask(sessions: Sessions) -> int:
    with sessions.begin() as session:
        return queries.ask_for_refit(session).id


def _look(sessions: Sessions, refit_id: int) -> RefitResult:
    with sessions.begin() as session:  # Short transactions: a waiting caller holds no connection.
        return RefitResult.model_validate(queries.find_refit(session, refit_id))
