"""The refit: learn from what was measured, and let the better fit answer."""

import hashlib
import json
import os
import socket
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import timedelta
from typing import Any
from uuid import uuid4

import structlog
from pydantic import ValidationError

from app.database import fits
from app.database.engine import Sessions, database_errors
from app.database.listen import Wakeups
from app.database.measurements import WorkingRow, release_agreed, working_set
from app.database.tables import FitRow
from app.errors import DatabaseUnavailable, UnknownFitFormat
from app.live import DriftWatch
from app.prediction.evaluation import Comparison, compare
from app.prediction.fit import FORMAT_VERSION, Fit, fit
from app.prediction.observation import Observation
from app.prediction.recipe import Recipe
from app.reference import aliases, models
from app.schemas.fits import FitStatus, RefitOutcome
from app.schemas.measurement import Measurement

__all__ = ["RefitReport", "refit_every", "refit_once"]

log = structlog.get_logger()

LEASE = timedelta(minutes=1)  # Renewed while a fit goes on; after a killed one, as long as no other can begin.


@dataclass(frozen=True)
class RefitReport:
    """What came of one refit."""

    outcome: RefitOutcome
    reason: str
    fit_id: int | None = None


@dataclass(frozen=True)
class _Reading:
    """What one refit works from, read in one short transaction."""

    rows: Sequence[WorkingRow]
    refit_ids: Sequence[int]
    champion_id: int | None
    champion_content: dict[str, Any] | None
    last_fingerprint: str | None


def refit_once(sessions: Sessions, *, recipe: Recipe | None = None) -> RefitReport | None:
    """Refit once: lease, read, fit and score outside any transaction, publish by compare and swap, notify.

    Returns:
        What came of it, or None where another process holds the lease.
    """
    with _lease(sessions) as held:
        if not held:
            return None
        with _step("read"):
            reading = _read(sessions)
        report = _learn(sessions, reading, recipe or Recipe())
        log.info("refit_done", outcome=report.outcome.value, fit_id=report.fit_id, reason=report.reason)
        return report


@contextmanager
def _lease(sessions: Sessions) -> Iterator[bool]:
    """Hold the lease, renewed by a thread; yield whether it was free."""
    holder = f"{socket.gethostname()}:{os.getpid()}:{uuid4()}"
    with sessions.begin() as session:
        held = fits.take_lease(session, holder, LEASE)
    done = threading.Event()
    renewal = threading.Thread(target=_renew, args=[sessions, holder, done], name="renew-lease", daemon=True)
    if held:
        renewal.start()
    try:
        yield held
    finally:
        done.set()
        if held:
            renewal.join()
            with sessions.begin() as session:
                fits.release_lease(session, holder)


def _renew(sessions: Sessions, holder: str, done: threading.Event) -> None:
    while not done.wait(LEASE.total_seconds() / 4):
        try:
            with database_errors(), sessions.begin() as session:
                fits.take_lease(session, holder, LEASE)
        except DatabaseUnavailable as error:  # If another takes over meanwhile, compare and swap decides.
            log.warning("database_unavailable", error=str(error.__cause__))


def _read(sessions: Sessions) -> _Reading:
    with sessions.begin() as session:
        release_agreed(session)
    with sessions.begin() as session:
        session.connection(execution_options={"isolation_level": "REPEATABLE READ", "postgresql_readonly": True})
        champion_id = fits.champion_id(session)
        return _Reading(
            rows=working_set(session),
            refit_ids=fits.open_refits(session),
            champion_id=champion_id,
            champion_content=fits.find_fit(session, champion_id).content if champion_id else None,
            last_fingerprint=fits.last_fingerprint(session),
        )


def _learn(sessions: Sessions, reading: _Reading, recipe: Recipe) -> RefitReport:
    fingerprint = _fingerprint(reading.rows, recipe)
    if not reading.rows or fingerprint == reading.last_fingerprint:
        reason = "no measurement has come since the last refit" if reading.rows else "there is no measurement to fit"
        return _answer(sessions, reading, RefitReport(RefitOutcome.NOTHING_NEW, reason, reading.champion_id))
    observations, unreadable = _observations(reading.rows)
    champion = _champion(reading)
    with _step("fit", measurements=len(observations)):
        candidate = fit(observations, recipe=recipe, previous=champion, aliases=aliases(), known_models=models())
    with _step("score"):
        comparison = compare(observations, recipe, champion.recipe if champion else recipe)
    with _step("publish"):
        unreadable_champion = champion is None and reading.champion_content is not None
        return _publish(
            sessions, reading, fingerprint, candidate, comparison, unreadable, replace_pinned=unreadable_champion
        )


def _observations(rows: Sequence[WorkingRow]) -> tuple[list[Observation], list[dict[str, Any]]]:
    """Return what can be fitted, and what this version cannot read any more (a limit may have been tightened)."""
    observations, unreadable = [], []
    for row in rows:
        try:
            measurement = Measurement.model_validate(row.content)
        except ValidationError as error:
            reason = f"not valid any more: {error.errors()[0]['msg']}"
            unreadable.append({"key": f"{row.source}/{row.id}", "part": None, "reason": reason})
        else:
            observations.append(Observation.of(measurement, reference=row.reference))
    return observations, unreadable


def _champion(reading: _Reading) -> Fit | None:
    if reading.champion_content is None:
        return None
    try:
        return Fit.from_json(reading.champion_content)
    except UnknownFitFormat as error:  # After an upgrade the new format starts afresh.
        log.warning("champion_unreadable", fit_id=reading.champion_id, error=str(error))
        return None


def _publish(
    sessions: Sessions,
    reading: _Reading,
    fingerprint: str,
    candidate: Fit,
    comparison: Comparison,
    unreadable: list[dict[str, Any]],
    *,
    replace_pinned: bool,
) -> RefitReport:
    row = FitRow(
        status=(FitStatus.PROMOTED if comparison.promote else FitStatus.REJECTED).value,
        reason=comparison.reason,
        fingerprint=fingerprint,
        measurements=candidate.measurements,
        content=candidate.to_json(),
        scores={"candidate": comparison.candidate, "champion": comparison.champion},
        left_out=[*unreadable, *candidate.left_out],
    )
    with sessions.begin() as session:
        answers = fits.publish_fit(session, row, expected_champion=reading.champion_id, replace_pinned=replace_pinned)
        reason = row.reason if answers or not comparison.promote else f"{row.reason}; the champion is pinned or changed"
        outcome = RefitOutcome.PROMOTED if answers else RefitOutcome.REJECTED
        report = RefitReport(outcome, reason, row.id)
        fits.finish_refits(session, reading.refit_ids, outcome, reason, row.id)
    return report


def _answer(sessions: Sessions, reading: _Reading, report: RefitReport) -> RefitReport:
    with sessions.begin() as session:
        fits.finish_refits(session, reading.refit_ids, report.outcome, report.reason, report.fit_id)
    return report


def _fingerprint(rows: Sequence[WorkingRow], recipe: Recipe) -> str:
    """Return which data and recipe a fit comes from: the same fingerprint is the same fit."""
    digest = hashlib.sha256(f"{FORMAT_VERSION}{json.dumps(asdict(recipe), sort_keys=True)}".encode())
    for row in sorted((row.source, row.id, row.digest) for row in rows):
        digest.update("\x1f".join(row).encode())
    return digest.hexdigest()


def refit_every(sessions: Sessions, url: str, seconds: float, stop: threading.Event) -> None:
    """Refit when somebody asks for it or something begins to drift, and every ``seconds``, until ``stop`` is set."""
    wakeups, drift = Wakeups(url, fits.REFIT_CHANNEL), DriftWatch(sessions)
    while not stop.is_set():
        with _survived():
            drift.news()  # What drifts before a refit is no reason for another after it.
        with _survived():
            refit_once(sessions)
        due = time.monotonic() + seconds
        while not stop.is_set() and (left := due - time.monotonic()) > 0:
            wakeups.wait(left, stop)
            with _survived():
                if _wanted(sessions, drift):
                    break
    wakeups.close()


def _wanted(sessions: Sessions, drift: DriftWatch) -> bool:
    """Whether somebody asked for a refit, or something has begun to drift since the last look."""
    with sessions() as session:
        if fits.open_refits(session):
            return True
    news = drift.news()
    for gpu, version, stage in news:
        log.info("drift_began", gpu=gpu, engine_version=version, stage=stage)
    return bool(news)


@contextmanager
def _survived() -> Iterator[None]:
    """Let nothing end the loop: the champion answers on, the log tells."""
    try:
        with database_errors():
            yield
    except DatabaseUnavailable as error:
        log.warning("database_unavailable", error=str(error.__cause__))
    except Exception:
        log.exception("refit_failed")


@contextmanager
def _step(name: str, **fields: object) -> Iterator[None]:
    started = time.perf_counter()
    yield
    log.info("refit_step", step=name, seconds=round(time.perf_counter() - started, 3), **fields)
