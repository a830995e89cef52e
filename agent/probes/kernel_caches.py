"""Probe: caches of kernels that are built on first use; where they are empty, warming up takes minutes.

Whether Triton's cache held what *this* engine needs shows only afterwards, by whether it built anything: kernels differ
by model runner, vocabulary and GPU, and their names do not tell.
"""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from agent.probes.base import Context, Found, home_of
from agent.probes.folders import MAX_FILES, cache_root, folder_size
from app.schemas.spec import KernelCache

__all__ = ["kernel_state", "kernels_built", "probe"]

_MACHINE_CODE = (".cubin", ".hsaco")
"""How Triton names a compiled kernel, for NVIDIA and AMD; every kernel has one such file."""


def probe(context: Context) -> Found:
    """Measure each folder: bytes and files by the name of what is kept there."""
    sizes = {name: folder_size(folder) for name, folder in _folders(context)}
    facts = {name: {"bytes": size.bytes, "files": size.files} for name, size in sizes.items()}
    return Found(facts={**facts, "kernels": kernels_built(context.environment)})


def kernels_built(environment: Mapping[str, str]) -> dict[str, int]:
    """Count the kernels in Triton's own folder and in vLLM's compile cache, where a cold start builds them.

    Of a folder with too many files to look through, there is no count.
    """
    folders = {"triton": _triton(environment), "compile_cache": cache_root(environment) / "torch_compile_cache"}
    return {name: kernels for name, folder in folders.items() if (kernels := _count(folder)) is not None}


def kernel_state(before: Mapping[str, int], after: Mapping[str, int]) -> KernelCache | None:
    """Return in which state the cache was, by the kernels before and after a startup; None where nobody can tell.

    Cold where vLLM's compile cache brought an empty one, or where the startup built more than Triton's folder held:
    then hardly any of those were of use to it.
    """
    if before.keys() != after.keys() or len(after) < 2 or not any(after.values()):
        return None
    built = {name: after[name] - before[name] for name in after}
    if max(built.values()) <= 0:
        return KernelCache.WARM
    own = built["compile_cache"] > 0 or built["triton"] > before["triton"]
    return KernelCache.COLD if own else KernelCache.PARTIAL


def _count(folder: Path) -> int | None:
    kernels = seen = 0
    for _, folders, names in os.walk(folder):
        seen += len(folders) + len(names)
        kernels += sum(name.endswith(_MACHINE_CODE) for name in names)
        if seen > MAX_FILES:
            return None
    return kernels


def _folders(context: Context) -> Iterator[tuple[str, Path]]:
    variables, home = context.environment, home_of(context.environment)
    yield "triton", _triton(variables)
    flashinfer = Path(variables.get("FLASHINFER_WORKSPACE_BASE") or home)
    yield "flashinfer", flashinfer / ".cache" / "flashinfer"
    tuned = variables.get("VLLM_FLASHINFER_AUTOTUNE_CACHE_DIR")
    yield "flashinfer_autotune", Path(tuned) if tuned else cache_root(variables) / "flashinfer_autotune_cache"
    yield "deep_gemm", Path(variables.get("DG_JIT_CACHE_DIR") or home / ".deep_gemm")
    yield "cuda", Path(variables.get("CUDA_CACHE_PATH") or home / ".nv" / "ComputeCache")


def _triton(environment: Mapping[str, str]) -> Path:
    home = Path(environment.get("TRITON_HOME") or home_of(environment))
    return Path(environment.get("TRITON_CACHE_DIR") or home / ".triton" / "cache")
