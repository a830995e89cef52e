"""Probe: caches of kernels that are built on first use; where they are empty, warming up takes minutes."""

from collections.abc import Iterator
from pathlib import Path

from agent.probes.base import Context, Found, home_of
from agent.probes.folders import cache_root, folder_size

__all__ = ["probe"]


def probe(context: Context) -> Found:
    """Measure each folder: bytes and files by the name of what is kept there."""
    sizes = {name: folder_size(folder) for name, folder in _folders(context)}
    return Found(facts={name: {"bytes": size.bytes, "files": size.files} for name, size in sizes.items()})


def _folders(context: Context) -> Iterator[tuple[str, Path]]:
    variables, home = context.environment, home_of(context.environment)
    triton = Path(variables.get("TRITON_HOME") or home) / ".triton" / "cache"
    yield "triton", Path(variables.get("TRITON_CACHE_DIR") or triton)
    flashinfer = Path(variables.get("FLASHINFER_WORKSPACE_BASE") or home)
    yield "flashinfer", flashinfer / ".cache" / "flashinfer"
    tuned = variables.get("VLLM_FLASHINFER_AUTOTUNE_CACHE_DIR")
    yield "flashinfer_autotune", Path(tuned) if tuned else cache_root(variables) / "flashinfer_autotune_cache"
    yield "deep_gemm", Path(variables.get("DG_JIT_CACHE_DIR") or home / ".deep_gemm")
    yield "cuda", Path(variables.get("CUDA_CACHE_PATH") or home / ".nv" / "ComputeCache")
