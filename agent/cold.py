"""Making a startup cold, without touching anybody else's caches: fresh folders, and weights out of the page cache."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from agent.probes.command_line import parse_command, read_config
from agent.probes.model_files import find_model_files
from agent.probes.page_cache import cached_fraction

__all__ = ["evict_weights", "fresh_caches"]

_CACHES = {
    "VLLM_CACHE_ROOT": "vllm",
    "TORCHINDUCTOR_CACHE_DIR": "inductor",
    "TRITON_CACHE_DIR": "triton",
    "FLASHINFER_WORKSPACE_BASE": "flashinfer",
}
"""Variables that move a cache, none of which is part of vLLM's compile key, and the folder that each gets."""


def fresh_caches(folder: Path) -> dict[str, str]:
    """Return the variables that give an engine empty caches below ``folder``."""
    return {variable: str(folder / name) for variable, name in _CACHES.items()}


def evict_weights(command: Sequence[str], environment: Mapping[str, str]) -> str:
    """Ask the kernel to drop the weights of ``command`` from the page cache, and return what it did, as a sentence.

    Only these files are touched. The kernel keeps what is dirty, mapped or on tmpfs, so what is left is counted
    afterwards.
    """
    arguments = read_config(parse_command(command, environment))
    weights = find_model_files(arguments, environment).weights
    if not weights:
        return "the weights are not on this node, so nothing was evicted"
    for path in weights:
        with path.open("rb") as file:
            # Only pages that storage holds already can be dropped.
            os.fdatasync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    left = cached_fraction(weights)
    if left is None:
        return "the weights were evicted, but the kernel does not say what is left in the page cache"
    return f"{left:.0%} of the weights are left in the page cache"
