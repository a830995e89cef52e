"""One service a data directory: a lock that the system releases when its holder dies, however it dies."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from app.errors import DataDirectoryBusy

__all__ = ["hold"]


@contextmanager
def hold(data_dir: Path) -> Iterator[None]:
    """Hold ``data_dir`` while the block runs.

    Raises:
        DataDirectoryBusy: another process holds it; the message names it.
    """
    data_dir.mkdir(parents=True, exist_ok=True)
    with (data_dir / "lock").open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            holder = file.read().strip() or "unknown"
            message = (
                f"Process {holder} already runs on {data_dir}: stop it, or set COLDCAST_DATA_DIR to another folder."
            )
            raise DataDirectoryBusy(message) from None
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        yield
