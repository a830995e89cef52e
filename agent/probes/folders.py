"""Cache folders: where the engine keeps them, and how large they are."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from agent.probes.base import home_of

__all__ = ["FolderSize", "cache_root", "folder_size"]

MAX_FILES = 20_000  # 0.1 s of looking; a cache folder of more files is full of other models' entries.


@dataclass(frozen=True)
class FolderSize:
    """How many files a folder holds at any depth, and their bytes; ``whole`` is false where the count was cut short."""

    files: int = 0
    bytes: int = 0
    whole: bool = True


def cache_root(environment: Mapping[str, str]) -> Path:
    """Return the folder that holds vLLM's caches."""
    if root := environment.get("VLLM_CACHE_ROOT"):
        return Path(root).expanduser()
    return Path(environment.get("XDG_CACHE_HOME") or home_of(environment) / ".cache") / "vllm"


def folder_size(folder: Path, max_files: int = MAX_FILES) -> FolderSize:
    """Count the files below ``folder``, at most ``max_files``; what vanishes meanwhile counts nothing."""
    files = size = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            if files == max_files:
                return FolderSize(files, size, whole=False)
            try:
                size += os.lstat(os.path.join(parent, name)).st_size
            except OSError:
                continue
            files += 1
    return FolderSize(files, size)
