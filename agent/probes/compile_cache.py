"""Probe: what the torch.compile cache and the ahead-of-time cache hold before the start."""

from pathlib import Path
from typing import Any

from agent.probes.base import Context, Found
from agent.probes.folders import cache_root, folder_size
from app.schemas.spec import CompileCache

__all__ = ["probe"]


def probe(context: Context) -> Found:
    """Look for entries.

    Which entry this startup will use is a hash that only the engine can compute, so an empty cache is cold and a filled
    one is unknown until the hook has seen what was loaded.
    """
    root = cache_root(context.environment)
    compiled = _entries(_compile_folder(context, root), leaving_out="torch_aot_compile")
    ahead = [entry for place in ("torch_compile_cache", ".") for entry in _entries(root / place / "torch_aot_compile")]
    sizes = [folder_size(entry) for entry in (*compiled, *ahead)]
    facts = {
        "compile_entries": len(compiled),
        "aot_entries": len(ahead),
        "bytes": sum(size.bytes for size in sizes),
        "files": sum(size.files for size in sizes),
    }
    state = _state(context, facts["files"])
    return Found({"cache": {"compile": state}} if state else {}, facts)


def _state(context: Context, files: int) -> CompileCache | None:
    if context.environment.get("VLLM_DISABLE_COMPILE_CACHE", "0") != "0":
        return CompileCache.DISABLED
    return CompileCache.COLD if files == 0 else None


def _compile_folder(context: Context, root: Path) -> Path:
    compilation: Any = context.arguments.options.get("compilation_config")
    folder = compilation.get("cache_dir") if isinstance(compilation, dict) else None
    return Path(folder) if isinstance(folder, str) and folder else root / "torch_compile_cache"


def _entries(folder: Path, *, leaving_out: str = "") -> list[Path]:
    return sorted(path for path in folder.glob("*") if path.is_dir() and path.name != leaving_out)
