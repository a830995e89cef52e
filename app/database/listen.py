"""LISTEN on a connection of its own."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import psycopg
from psycopg import sql

from app.database.engine import CONNECT_SECONDS, psycopg_url

__all__ = ["Wakeups", "listening"]


class Wakeups:
    """Waits for notifications on one channel; a broken connection only means that the poll behind it does the work."""

    def __init__(self, url: str, channel: str) -> None:
        """Take a direct database URL (LISTEN does not work through a transaction pooler) and a channel."""
        self._url, self._channel = psycopg_url(url), channel
        self._connection: psycopg.Connection | None = None

    def wait(self, seconds: float, stop: threading.Event) -> None:
        """Return when a notification arrives, after ``seconds``, or soon after ``stop`` is set.

        Return at once after connecting, too: what was notified before then is lost, and the caller has to look itself.
        """
        try:
            if self._connection is None:
                self._connection = self._connect()
                return
            connection = self._connection
            for _ in _slices(seconds, stop):
                if next(connection.notifies(timeout=_SLICE, stop_after=1), None) is not None:
                    return
        except psycopg.Error:
            self.close()
            stop.wait(min(seconds, RETRY_SECONDS))

    def close(self) -> None:
        """Close the connection; the next wait opens a new one."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _connect(self) -> psycopg.Connection:
        connection = psycopg.connect(self._url, autocommit=True, connect_timeout=CONNECT_SECONDS)
        connection.execute(sql.SQL("LISTEN {}").format(sql.Identifier(self._channel)))
        return connection


RETRY_SECONDS = 2.0
_SLICE = 0.5  # How long a stop may go unnoticed.


def _slices(seconds: float, stop: threading.Event) -> Iterator[None]:
    for _ in range(max(1, round(seconds / _SLICE))):
        if stop.is_set():
            return
        yield


@contextmanager
def listening(url: str, channel: str, on_wakeup: Callable[[], None], poll_seconds: float) -> Iterator[None]:
    """Call ``on_wakeup`` in a thread at each notification on ``channel``, and every ``poll_seconds`` in any case."""
    stop = threading.Event()

    def watch() -> None:
        wakeups = Wakeups(url, channel)
        while not stop.is_set():
            wakeups.wait(poll_seconds, stop)
            if not stop.is_set():
                on_wakeup()
        wakeups.close()

    thread = threading.Thread(target=watch, name=f"listen-{channel}", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(timeout=5)
