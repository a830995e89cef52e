"""Real processes of `coldcast`, and all that belongs to them."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil

from tests.waiting import eventually

__all__ = ["Service", "run", "serving"]

ROOT = Path(__file__).resolve().parent.parent
START_SECONDS = 180.0  # A first fit on a busy machine.
STOP_SECONDS = 60.0


def _environment(**variables: str) -> dict[str, str]:
    ours = {name: value for name, value in os.environ.items() if not name.startswith(("COLDCAST_", "DATABASE_URL"))}
    return ours | {"COLDCAST_PORT": "0", "OMP_NUM_THREADS": "1"} | variables


def run(*arguments: str, input: str | None = None, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run `coldcast` to its end."""
    command = [sys.executable, "-m", "app", *arguments]
    return subprocess.run(
        command, cwd=ROOT, env=_environment(**variables), input=input, capture_output=True, text=True, timeout=180
    )


class Service:
    """A running `coldcast serve`."""

    def __init__(self, data_dir: Path, *options: str, **variables: str) -> None:
        self.data_dir = data_dir
        self._lines: list[str] = []
        self.process = subprocess.Popen(
            [sys.executable, "-m", "app", "serve", *options],
            cwd=ROOT,
            env=_environment(COLDCAST_DATA_DIR=os.fspath(data_dir), **variables),
            stderr=subprocess.PIPE,
            text=True,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stderr
        with self.process.stderr as lines:
            self._lines.extend(lines)

    @property
    def output(self) -> str:
        """What it has written to standard error."""
        return "".join(self._lines)

    def line(self, text: str, seconds: float = START_SECONDS) -> str:
        """Wait for a line that holds ``text``."""

        def found() -> str | None:
            line = next((line for line in list(self._lines) if text in line), None)
            assert line or self.process.poll() is None, self.output
            return line

        return eventually(found, seconds=seconds)

    @property
    def url(self) -> str:
        """Where it answers; waits until it does."""
        return self.line("Coldcast answers on ").split()[3]

    def family(self) -> list[psutil.Process]:
        """Return it, the processes that it started, and its Postgres."""
        parents = [psutil.Process(self.process.pid)] if self.process.poll() is None else []
        with suppress(OSError, ValueError, psutil.Error):
            pid = (self.data_dir / "postgres" / "postmaster.pid").read_text().split("\n", 1)[0]
            parents.append(psutil.Process(int(pid)))
        children = [child for parent in parents for child in parent.children(recursive=True)]
        return [*parents, *children]

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Ask it to stop, wait, and return its exit code."""
        self.process.send_signal(number)
        code = self.process.wait(STOP_SECONDS)
        self._reader.join(STOP_SECONDS)
        return code

    def kill_everything(self) -> None:
        """SIGKILL it and all its processes, as a machine that runs out of memory does."""
        family = self.family()
        for process in family:
            with suppress(psutil.NoSuchProcess):
                process.kill()
        self.process.wait(STOP_SECONDS)
        psutil.wait_procs(family, STOP_SECONDS)


@contextmanager
def serving(data_dir: Path, *options: str, **variables: str) -> Iterator[Service]:
    """Run a service on ``data_dir``; nothing of it outlives the block."""
    service = Service(data_dir, *options, **variables)
    try:
        yield service
    finally:
        if service.process.poll() is None:
            service.stop()
        service.kill_everything()
