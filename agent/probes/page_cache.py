"""Probe: where the weights lie when the startup begins: how much of them is in the page cache."""

import ctypes
import mmap
import os
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from agent.probes.base import Context, Found, NoData
from agent.probes.storage import weights_mount, weights_storage
from app.schemas.spec import Storage, WeightsState

__all__ = ["cached_fraction", "probe", "resident_bytes"]

WINDOW_BYTES = 4 * 2**20
# mincore takes up to 0.1 ms for a window of 1,024 pages, so 2,000 windows (8 GB) keep the start waiting for 0.2 s.
MAX_WINDOWS = 2000
MOSTLY = 0.5  # From here on reading the rest takes less time than the cache saves; the fraction itself goes along.


def probe(context: Context) -> Found:
    """Ask the kernel, before the engine reads anything; weights that are not on this node come over the network."""
    if context.files.remote:
        return Found({"cache": {"weights": WeightsState.NETWORK}})
    if context.arguments.options.get("load_format") == "dummy":
        raise NoData("with load format dummy no weights are read")
    mount = weights_mount(context)
    storage = weights_storage(context, mount)
    if storage == Storage.TMPFS:
        return Found({"cache": {"weights": WeightsState.PAGE_CACHE, "weights_cached_fraction": 1.0}})
    if (fraction := cached_fraction(context.files.weights, max_windows=MAX_WINDOWS)) is None:
        raise NoData("the kernel tells the page cache's state of a file only to its owner or to who may write it")
    uncached = WeightsState.NETWORK if storage == Storage.NETWORK else WeightsState.DISK
    state = WeightsState.PAGE_CACHE if fraction >= MOSTLY else uncached
    return Found({"cache": {"weights": state, "weights_cached_fraction": round(fraction, 4)}})


def cached_fraction(files: Sequence[Path], *, max_windows: int | None = None) -> float | None:
    """Return the share of the files' bytes that is in the page cache; None where the kernel will not tell.

    With ``max_windows`` a larger set of files is sampled, evenly; without, every page counts.
    """
    sizes = {path: path.stat().st_size for path in files}
    windows = sum(-(-size // WINDOW_BYTES) for size in sizes.values())
    if windows == 0 or not all(map(_is_told, files)):
        return None
    step = 1 if max_windows is None else -(-windows // max_windows)
    counted = [resident_bytes(path, step=step) for path in files]
    return sum(resident for resident, _ in counted) / sum(looked_at for _, looked_at in counted)


def resident_bytes(path: Path, *, step: int = 1) -> tuple[int, int]:
    """Return how many bytes of ``path`` are in the page cache, and how many were looked at: one window in ``step``."""
    resident = looked_at = 0
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        for offset in range(0, size, step * WINDOW_BYTES):
            length = min(WINDOW_BYTES, size - offset)
            resident += min(length, _resident_pages(file.fileno(), offset, length) * mmap.PAGESIZE)
            looked_at += length
    return resident, looked_at


def _is_told(path: Path) -> bool:
    """Of a file that is neither ours nor ours to write, Linux reports every page as present."""
    return os.geteuid() in (0, path.stat().st_uid) or os.access(path, os.W_OK)


def _resident_pages(descriptor: int, offset: int, length: int) -> int:
    """Map a window of the file, without reading any of it, and count the pages that are in memory."""
    libc = _libc()
    address = libc.mmap(None, length, mmap.PROT_READ, mmap.MAP_SHARED, descriptor, offset)
    if address == ctypes.c_void_p(-1).value:
        raise OSError(ctypes.get_errno(), "mmap")
    try:
        pages = ctypes.create_string_buffer(-(-length // mmap.PAGESIZE))
        if libc.mincore(address, length, pages) != 0:
            raise OSError(ctypes.get_errno(), "mincore")
        # The lowest bit is the page's state, and the only one that the kernel sets.
        return pages.raw.count(b"\x01")
    finally:
        libc.munmap(address, length)


@cache
def _libc() -> ctypes.CDLL:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t, *(ctypes.c_int,) * 3, ctypes.c_long)
    libc.mincore.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p)
    libc.munmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t)
    return libc
