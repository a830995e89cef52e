"""Waiting for notifications: none is missed, and a broken connection only means looking oneself."""

import threading
from collections.abc import Callable, Iterator

import pytest
from sqlalchemy import text

from app.database.engine import make_database_engine
from app.database.listen import Wakeups, listening
from tests.waiting import eventually

FOREVER = 3600.0


def ends_within(action: Callable[[], object], seconds: float = 30.0) -> bool:
    thread = threading.Thread(target=action, daemon=True)
    thread.start()
    thread.join(seconds)
    return not thread.is_alive()


def execute(url: str, statement: str) -> None:
    with make_database_engine(url).begin() as connection:
        connection.execute(text(statement))


@pytest.fixture
def wakeups(server: str) -> Iterator[Wakeups]:
    wakeups = Wakeups(server, "mine")
    yield wakeups
    wakeups.close()


def test_the_first_wait_returns_once_it_listens(wakeups: Wakeups, server: str) -> None:
    stop = threading.Event()
    assert ends_within(lambda: wakeups.wait(FOREVER, stop))
    execute(server, "NOTIFY mine")  # From now on none is missed, whether anybody waits or not.
    assert ends_within(lambda: wakeups.wait(FOREVER, stop))


def test_only_its_own_channel_wakes(wakeups: Wakeups, server: str) -> None:
    stop = threading.Event()
    wakeups.wait(FOREVER, stop)
    execute(server, "NOTIFY another")
    waiting = threading.Thread(target=wakeups.wait, args=[FOREVER, stop])
    waiting.start()
    waiting.join(1)
    assert waiting.is_alive()
    execute(server, "NOTIFY mine")
    waiting.join(30)
    assert not waiting.is_alive()


def test_the_poll_and_a_stop_end_the_wait(wakeups: Wakeups) -> None:
    stop = threading.Event()
    wakeups.wait(FOREVER, stop)
    assert ends_within(lambda: wakeups.wait(0.5, stop))
    stop.set()
    assert ends_within(lambda: wakeups.wait(FOREVER, stop))


def test_a_broken_connection_is_made_anew(server: str) -> None:
    woken = threading.Semaphore(0)
    with listening(server, "broken", woken.release, FOREVER):
        assert woken.acquire(timeout=30)  # It listens.
        execute(server, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query = 'LISTEN \"broken\"'")
        assert woken.acquire(timeout=30)  # It noticed, and looks.
        assert woken.acquire(timeout=30)  # It listens again.
        execute(server, "NOTIFY broken")
        assert woken.acquire(timeout=30)


def test_a_database_that_is_away_is_waited_for() -> None:
    woken = threading.Semaphore(0)
    with listening("postgresql://nobody@127.0.0.1:1/nowhere", "x", woken.release, 0.1):
        assert woken.acquire(timeout=30)
        assert woken.acquire(timeout=30)
    assert eventually(lambda: not any(t.name == "listen-x" for t in threading.enumerate()))
