"""The spool: measurements on disk that the service has not taken yet.

One file a measurement, written aside, synchronised and renamed, so that a crash leaves a whole file or none. Files are
never changed. What the service refuses for good moves to ``refused/`` with the problem beside it. Several agents may
share one spool: every change happens under one file lock, and a file that another agent has taken away is no error.
"""

import fcntl
import hashlib
import json
import logging
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

__all__ = ["Spool"]

logger = logging.getLogger(__name__)
_DROPPED = "dropped.count"


class Spool:
    """A folder of measurements that wait to be sent, of at most ``max_bytes``; the oldest go first."""

    def __init__(self, folder: Path, max_bytes: int) -> None:
        self.folder = folder
        self.max_bytes = max_bytes

    def put(self, measurement: dict[str, Any]) -> Path:
        """Store ``measurement`` and return its file; drop the oldest ones where the spool grows over its bound.

        Raises ``OSError`` where the folder cannot be written, and ``ValueError`` for what is no JSON.
        """
        text = json.dumps(measurement, allow_nan=False)
        # The id's digest makes names differ between agents that report in the same nanosecond, whatever the id holds.
        name = f"{time.time_ns():020d}-{hashlib.sha256(str(measurement.get('id')).encode()).hexdigest()[:12]}.json"
        with self._locked():
            for orphan in self.folder.glob("*.part"):  # Nobody writes without the lock, so these are a crash's.
                orphan.unlink(missing_ok=True)
            path = _write(self.folder / name, text)
            self._drop_oldest(keep=path)
        return path

    def waiting(self) -> list[Path]:
        """Return the files that wait, oldest first."""
        return sorted(self.folder.glob("*.json"))

    def read(self, path: Path) -> dict[str, Any] | None:
        """Return the measurement in ``path``, or None where it is gone; refuse the file where it holds none."""
        try:
            measurement = json.loads(path.read_bytes())
        except FileNotFoundError:
            return None
        except ValueError as error:
            self.refuse(path, {"title": "The spooled file is damaged", "detail": str(error)})
            return None
        if not isinstance(measurement, dict):
            self.refuse(path, {"title": "The spooled file is damaged", "detail": "It holds no JSON object."})
            return None
        return measurement

    def remove(self, path: Path) -> None:
        """Forget the measurement in ``path``: the service has it."""
        with self._locked():
            path.unlink(missing_ok=True)

    def refuse(self, path: Path, problem: dict[str, Any]) -> None:
        """Move the measurement in ``path`` to ``refused/`` with the ``problem`` beside it."""
        refused = self.folder / "refused"
        with self._locked():
            if not path.exists():
                return
            refused.mkdir(exist_ok=True)
            # The problem goes first, so that a crash between the two leaves the measurement in the spool.
            _write(refused / f"{path.stem}.problem.json", json.dumps(problem))
            path.rename(refused / path.name)
            _synchronise(refused)
        logger.warning("measurement_refused file=%s problem=%s", path.name, problem.get("title"))

    @property
    def dropped(self) -> int:
        """How many measurements this spool has dropped to keep to its bound, ever."""
        try:
            return int((self.folder / _DROPPED).read_text())
        except (FileNotFoundError, ValueError):
            return 0

    def _drop_oldest(self, keep: Path) -> None:
        sizes = {path: path.stat().st_size for path in self.waiting()}
        excess, dropped = sum(sizes.values()) - self.max_bytes, 0
        for path, size in sizes.items():
            if excess <= 0 or path == keep:
                break
            path.unlink()
            excess, dropped = excess - size, dropped + 1
        if dropped:
            _write(self.folder / _DROPPED, str(self.dropped + dropped))
            logger.warning("measurements_dropped count=%d max_bytes=%d", dropped, self.max_bytes)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        with (self.folder / "lock").open("a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # Closing the file lets go of the lock.
            yield


def _write(path: Path, text: str) -> Path:
    """Write ``text`` to ``path`` so that after a crash the file is whole or not there."""
    aside = path.with_suffix(".part")
    with aside.open("w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    aside.rename(path)
    _synchronise(path.parent)
    return path


def _synchronise(folder: Path) -> None:
    """Make the folder's own entries durable: without it a rename may be lost with the power."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
