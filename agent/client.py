"""Sending measurements: spool first, then post, with retries; nothing is lost and nothing is doubled.

The id is chosen once by whoever builds the measurement, and the service answers a repeat with 200, so sending again
after a crash or a lost answer is always safe.
"""

import logging
import random
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from agent.settings import AgentSettings
from agent.spool import Spool

__all__ = ["Flushed", "Reporter"]

logger = logging.getLogger(__name__)

MAX_BATCH = 200
MAX_BATCH_BYTES = 8 * 2**20  # An eighth of what the batch route takes.
FIRST_DELAY_SECONDS = 0.5  # Doubled each time: 0.5, 1, 2, … and jittered between half and all of it.
MAX_DELAY_SECONDS = 15.0
TIMEOUT = httpx.Timeout(20.0, connect=5.0)

_TRY_AGAIN = frozenset((408, 425, 429))  # And every 5xx.
# These blame the address or the key, not the measurement: it waits in the spool until somebody has corrected them.
_BLAMES_THE_SETTINGS = frozenset((401, 403, 404, 405, 407))

_Spooled = tuple[Path, dict[str, Any]]


@dataclass
class Flushed:
    """What came of the spooled measurements: how many were sent, how many were refused for good, how many wait.

    ``dropped`` counts those that the spool's bound has ever cost; ``problem`` says why some still wait.
    """

    sent: int = 0
    refused: int = 0
    waiting: int = 0
    dropped: int = 0
    problem: str | None = None


class _NotNow(Exception):
    """The service cannot take measurements at present."""


class Reporter:
    """Sends measurements to the service. ``clock``, ``sleep`` and ``jitter`` (0 to 1) are arguments for the tests."""

    def __init__(
        self,
        settings: AgentSettings,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self.settings = settings
        self.spool = Spool(settings.spool_dir, settings.spool_max_bytes)
        self._clock = clock
        self._sleep = sleep
        self._jitter = jitter

    def send(self, measurement: dict[str, Any]) -> None:
        """Spool ``measurement``, then send all that waits. Never raises: the engine matters more than its report."""
        try:
            self.spool.put(measurement)
        except OSError as error:
            logger.warning("spool_unwritable error=%s", type(error).__name__)
            self._send_unspooled(measurement)
            return
        except Exception:
            logger.exception("measurement_unsendable")
            return
        self.flush()

    def flush(self) -> Flushed:
        """Send all that waits, oldest first, and count what came of it. Never raises."""
        flushed = Flushed()
        try:
            with self._client() as http:
                for batch in self._batches(self.spool.waiting()):
                    self._deliver(http, batch, flushed)
        except _NotNow as reason:
            flushed.problem = str(reason)
            logger.warning("measurements_wait reason=%s", reason)
        except Exception as error:
            flushed.problem = f"{type(error).__name__}: {error}"
            logger.exception("flush_failed")
        flushed.waiting, flushed.dropped = len(self.spool.waiting()), self.spool.dropped
        return flushed

    def _client(self) -> httpx.Client:
        headers = {"Authorization": f"Bearer {self.settings.api_key}"} if self.settings.api_key else {}
        return httpx.Client(base_url=self.settings.url, headers=headers, timeout=TIMEOUT)

    def _send_unspooled(self, measurement: dict[str, Any]) -> None:
        try:
            with self._client() as http:
                response = self._post(http, "/measurements", measurement)
            if not response.is_success:
                logger.error("measurement_refused problem=%s", _problem(response).get("title"))
        except Exception as error:
            logger.exception("measurement_lost error=%s", type(error).__name__)

    def _batches(self, paths: Iterable[Path]) -> Iterator[list[_Spooled]]:
        batch: list[_Spooled] = []
        size = 0
        for path in paths:
            if (measurement := self.spool.read(path)) is None:
                continue
            size += len(str(measurement))
            if batch and (len(batch) == MAX_BATCH or size > MAX_BATCH_BYTES):
                yield batch
                batch, size = [], len(str(measurement))
            batch.append((path, measurement))
        if batch:
            yield batch

    def _deliver(self, http: httpx.Client, batch: list[_Spooled], flushed: Flushed) -> None:
        """Send ``batch`` at once, or one by one where it is one or where the service takes no such batch."""
        if len(batch) > 1:
            body = {"measurements": [measurement for _, measurement in batch]}
            response = self._post(http, "/measurements/batch", body)
            if response.is_success:
                self._settle(batch, response.json()["results"], flushed)
                return
        for path, measurement in batch:
            response = self._post(http, "/measurements", measurement)
            self._file(path, None if response.is_success else _problem(response), flushed)

    def _settle(self, batch: list[_Spooled], results: list[dict[str, Any]], flushed: Flushed) -> None:
        for result in results:
            path, _ = batch[result["index"]]
            if result["status"] in ("created", "unchanged"):
                self._file(path, None, flushed)
            elif result["status"] in ("conflict", "invalid"):
                self._file(path, result.get("problem") or {"title": result["status"]}, flushed)

    def _file(self, path: Path, problem: dict[str, Any] | None, flushed: Flushed) -> None:
        """Take a spooled measurement out of the spool: it was taken, or it was refused with ``problem``."""
        if problem is None:
            self.spool.remove(path)
            flushed.sent += 1
        else:
            self.spool.refuse(path, problem)
            flushed.refused += 1

    def _post(self, http: httpx.Client, route: str, body: dict[str, Any]) -> httpx.Response:
        """Post until the service answers for good. Raises ``_NotNow`` where it does not within ``send_seconds``."""
        deadline = self._clock() + self.settings.send_seconds
        delay = FIRST_DELAY_SECONDS
        while True:
            asked_to_wait = 0.0
            try:
                response = http.post(route, json=body)
            except httpx.TransportError as error:
                reason = f"the service at {http.base_url.host} does not answer ({type(error).__name__})"
            else:
                if _answers(response, route):
                    return response
                reason = f"the service answers {response.status_code}"
                asked_to_wait = _retry_after(response)
            wait = max(asked_to_wait, delay * (0.5 + 0.5 * self._jitter()))
            if self._clock() + wait > deadline:
                raise _NotNow(reason)
            self._sleep(wait)
            delay = min(2 * delay, MAX_DELAY_SECONDS)


def _answers(response: httpx.Response, route: str) -> bool:
    """Whether ``response`` settles the matter. Raises ``_NotNow`` where trying again soon cannot help."""
    status = response.status_code
    if status in _TRY_AGAIN or status >= 500:
        return False
    if route.endswith("/batch") and status in (404, 405):
        return True  # A service without this route: the measurements go one by one.
    # A page of HTML is a proxy's or a portal's, whatever its status; the service answers in JSON.
    if status < 400 and (not response.is_success or "html" in response.headers.get("content-type", "")):
        raise _NotNow(f"what answers at {response.url.host} is not the service (status {status}): check COLDCAST_URL")
    if status in _BLAMES_THE_SETTINGS:
        raise _NotNow(f"the service answers {status}: check COLDCAST_URL and COLDCAST_API_KEY")
    return True


def _retry_after(response: httpx.Response) -> float:
    """Return the seconds that the service asks to wait; its other form, a date, is not used among our own."""
    text = response.headers.get("retry-after", "")
    return float(text) if text.isascii() and text.isdigit() else 0.0


def _problem(response: httpx.Response) -> dict[str, Any]:
    """Return the problem that the service sent, or one that says what it sent instead."""
    try:
        problem = response.json()
    except ValueError:
        problem = None
    if isinstance(problem, dict):
        return problem
    return {"title": f"The service answers {response.status_code}", "status": response.status_code}
