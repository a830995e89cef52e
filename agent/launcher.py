"""``run``: starts the engine as a child, measures its startup from a thread beside, and stays as a thin parent.

The engine comes first: whatever fails in here, it is started, gets its signals, and its exit code is passed on.
"""

import logging
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from agent.child import Child, end_like, hold_signals

if TYPE_CHECKING:
    from agent.health import HealthCheck
    from agent.startup import Startup

__all__ = ["Launch"]

Result = TypeVar("Result")
logger = logging.getLogger(__name__)

POLL_SECONDS = 0.05
FAREWELL_SECONDS = 5.0  # How long the service is tried when the engine has ended: the spool keeps what is not sent.
NOT_FOUND, NOT_EXECUTABLE = 127, 126  # As a shell says it.


class Launch:
    """One run of an engine. ``timeout_seconds`` is when a startup counts as timed out; the engine goes on."""

    def __init__(
        self,
        command: Sequence[str],
        environment: Mapping[str, str],
        *,
        timeout_seconds: float,
        health_url: str | None = None,
        events_dir: Path | None = None,
    ) -> None:
        self.command = command
        self.environment = environment
        self.timeout_seconds = timeout_seconds
        self.health_url = health_url
        self.events_dir = events_dir
        self._ended = threading.Event()
        self._child: Child | None = None

    def run(self) -> int:
        """Run the engine to its end and return the exit code to end with."""
        hold_signals()
        prepared = self._guarded(self._prepare)
        environment = prepared[0].environment if prepared else self.environment
        if prepared:
            prepared[0].spawned()
        try:
            self._child = Child.start(self.command, environment)
        except OSError as error:
            if prepared:
                prepared[0].discard()
            logger.error("engine_not_started command=%s error=%s", self.command[0], error.strerror)
            return NOT_FOUND if isinstance(error, FileNotFoundError) else NOT_EXECUTABLE
        if prepared is None:
            return end_like(self._child.wait() or 0)
        watcher = threading.Thread(target=self._guarded, args=[lambda: self._watch(*prepared)], daemon=True)
        watcher.start()
        status = self._child.wait() or 0
        self._ended.set()
        watcher.join(2 * FAREWELL_SECONDS)
        return end_like(status)

    def _guarded(self, step: Callable[[], Result]) -> Result | None:
        """Return what ``step`` gives; its failure costs the measurement and is logged."""
        try:
            return step()
        except Exception:
            logger.exception("startup_not_measured")
            return None

    def _prepare(self) -> "tuple[Startup, HealthCheck] | None":
        # Here, so that an agent which cannot be imported whole still starts the engine.
        from agent.health import HealthCheck
        from agent.startup import Startup, health_check

        health = (
            HealthCheck.of_url(self.health_url) if self.health_url else health_check(self.command, self.environment)
        )
        if health is None:
            logger.warning("startup_not_measured reason=serves_nothing")
            return None
        if health.passes():
            logger.warning("startup_not_measured reason=address_answers_already port=%s", health.port)
            return None
        return Startup.prepare(self.command, self.environment), health

    def _watch(self, startup: "Startup", health: "HealthCheck") -> None:
        from agent.startup import clock

        try:
            outcome = self._outcome(health, startup.spawned_at + self.timeout_seconds)
            ended_at = clock()
            if self.events_dir is not None:
                startup.keep_events(self.events_dir, ended_at)
            exit_code = self._child.status if self._child else None
            if outcome is not None and (measurement := startup.measurement(outcome, ended_at, exit_code)):
                self._report(measurement)
        finally:
            startup.discard()

    def _outcome(self, health: "HealthCheck", deadline: float) -> str | None:
        """Wait for the startup's end; None where it was stopped, or ended of itself as ``--help`` does."""
        from agent.startup import clock

        while not self._ended.wait(POLL_SECONDS):
            if health.passes():
                return "ready"
            if clock() > deadline:
                return "timed_out"
        child = self._child
        return None if child is None or child.stopped or child.status == 0 else "failed"

    def _report(self, measurement: dict[str, object]) -> None:
        from agent.client import Reporter
        from agent.settings import DEFAULT_SPOOL_MAX_BYTES, AgentSettings, spool_dir
        from agent.spool import Spool
        from app.errors import SettingsError

        try:
            settings = AgentSettings.of(os.environ)
        except SettingsError as error:
            logger.error("measurement_waits reason=%s", error)
            Spool(spool_dir(os.environ), DEFAULT_SPOOL_MAX_BYTES).put(measurement)
            return
        if self._ended.is_set():
            settings = replace(settings, send_seconds=FAREWELL_SECONDS)
        Reporter(settings).send(measurement)
