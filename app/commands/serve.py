"""`coldcast serve`: the database, the refit process and the API, started and stopped as one."""

import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import structlog
import uvicorn
from rich.console import Console

from app.commands.database import database, prepare
from app.commands.signals import Stopped, raise_if_stopped
from app.database.engine import database_errors, make_database_engine, sessions_of
from app.errors import SettingsError
from app.main import create_app
from app.settings import Settings

__all__ = ["serve"]

log = structlog.get_logger()

STOP_SECONDS = 20.0  # A fit in progress is abandoned at once; nothing is half published.
RESTART_SECONDS = 5.0


def serve(settings: Settings, console: Console, *, api_only: bool) -> None:
    """Serve until a signal comes, then stop everything that was started.

    Args:
        settings: the environment.
        console: where progress is told.
        api_only: the API alone, on a database that `coldcast migrate` has prepared.
    """
    with suppress(Stopped), _listening_socket(settings) as listener, database(settings) as running:
        if not api_only:
            _prepare(running, console)
        with _refit_process(running, wanted=not api_only):
            server = _Server(uvicorn.Config(create_app(running), log_level="warning"), console, listener)
            signal.signal(signal.SIGHUP, server.handle_exit)  # As it handles the others itself.
            raise_if_stopped()
            server.run([listener])
    console.print("Stopped.")


def _prepare(settings: Settings, console: Console) -> None:
    assert settings.database_url is not None  # noqa: S101 (database() has set it)
    with database_errors():
        prepare(sessions_of(make_database_engine(settings.database_url)), console)


@contextmanager
def _listening_socket(settings: Settings) -> Iterator[socket.socket]:
    """Take the port before anything else starts: a port that is taken is the commonest mistake."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    try:
        listener = socket.create_server((settings.host, settings.port), family=family, backlog=2048)
    except OSError as error:
        place = f"{settings.host}:{settings.port}"
        raise SettingsError(
            f"Cannot listen on {place} ({error.strerror}): set COLDCAST_HOST or COLDCAST_PORT."
        ) from error
    with listener:
        yield listener


@contextmanager
def _refit_process(settings: Settings, *, wanted: bool) -> Iterator[None]:
    """Run `coldcast refit --every` beside the API, and start it again if it dies."""
    if not wanted:
        yield
        return
    stop = threading.Event()
    current: list[subprocess.Popen[bytes]] = [_start_refits(settings)]

    def watch() -> None:
        while not stop.is_set():
            code = current[0].wait()
            if not stop.wait(RESTART_SECONDS):
                log.error("refit_process_died", code=code)
                current[0] = _start_refits(settings)

    threading.Thread(target=watch, name="watch-refits", daemon=True).start()
    try:
        yield
    finally:
        stop.set()
        _end(current[0])


def _start_refits(settings: Settings) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "app", "refit", "--every", str(settings.refit_seconds), "--until-stdin-closes"]
    # The pipe closes when this process dies, even by SIGKILL, and ends the child; a session of its own keeps Ctrl-C
    # from reaching it first.
    return subprocess.Popen(command, stdin=subprocess.PIPE, env=_environment(settings), start_new_session=True)  # noqa: S603


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _environment(settings: Settings) -> dict[str, str]:
    return dict(os.environ) | {"DATABASE_URL": settings.database_url or ""}


class _Server(uvicorn.Server):
    """Says how to ask it, once it can be asked."""

    def __init__(self, config: uvicorn.Config, console: Console, listener: socket.socket) -> None:
        super().__init__(config)
        self._announce: Callable[[], None] = lambda: _announce(console, listener)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            self._announce()


def _announce(console: Console, listener: socket.socket) -> None:
    host, port = listener.getsockname()[:2]
    url = f"http://{f'[{host}]' if ':' in host else host}:{port}".replace("0.0.0.0", "127.0.0.1")  # noqa: S104
    body = '{"model": "meta-llama/Llama-3.1-8B", "hardware": "NVIDIA H100 NVL"}'
    console.print(f"Coldcast answers on {url} (pages: {url}/docs). Try:\n")
    console.print(
        f"curl -s {url}/predict -H 'content-type: application/json' -d '{body}'\n", soft_wrap=True, markup=False
    )
