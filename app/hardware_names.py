"""Hardware names as NVML, /proc/cpuinfo and people write them, and the identity behind them. Pure functions.

A GPU's kind is the set of words that tell it from others: ``NVIDIA H100 80GB HBM3`` and ``h100`` are the kind {h100},
``NVIDIA H100 NVL`` is {h100, nvl}. Vendor and memory words do not tell kinds apart, except that two different memory
sizes are two kinds.
"""

import re
from collections.abc import Iterable

__all__ = ["cpu_key", "gpu_key", "match_gpu", "matching_cpus"]

_GPU_NOISE = frozenset(
    (
        "nvidia",
        "amd",
        "intel",
        "tesla",
        "geforce",
        "quadro",
        "instinct",
        "radeon",
        "gpu",
        "graphics",
        "card",
        "corporation",
    )
)
_CPU_NOISE = frozenset(("cpu", "processor", "with", "inc", "gen", "core", "cores", "dual", "quad", "threads", "at"))
_VENDOR_OF = {"epyc": "amd", "ryzen": "amd", "threadripper": "amd", "xeon": "intel", "grace": "nvidia"}
_MEMORY = re.compile(r"\d+gi?b")
_QUALIFIER = re.compile(r"hbm\d?e?|gddr\d+x?|\d+gi?b")


def gpu_key(name: str) -> str:
    """Return the identity of a GPU name: ``NVIDIA A100-SXM4-80GB`` → ``a100 sxm4 80gb``."""
    words = [word for word in _words(name) if word not in _GPU_NOISE and not re.fullmatch(r"hbm\d?e?|gddr\d+x?", word)]
    return " ".join(words) or name.strip().lower()


def match_gpu(name: str, known: Iterable[str]) -> list[str]:
    """Return those of the ``known`` keys (see :func:`gpu_key`) that ``name`` can mean.

    One key where the name is exact; several where it is ambiguous; none where nobody knows it.
    """
    key, keys = gpu_key(name), sorted(set(known))
    if key in keys:
        return [key]
    alike = [k for k in keys if _kind(k) == _kind(key) and len(_memory(k) | _memory(key)) <= 1]
    return alike or [k for k in keys if _is_short_for(name, k)]


def cpu_key(name: str) -> str:
    """Return the identity of a CPU name: vendor, family, number.

    ``AMD EPYC 9354 32-Core Processor`` → ``amd epyc 9354``; ``2x Xeon Gold 6226R`` → ``intel xeon gold 6226r``.
    """
    plain = re.sub(r"\((?:r|tm|c)\)", " ", name.lower())
    plain = re.sub(r"@.*$|\b\d+\s*-?\s*cores?\b|\b\d+(?:st|nd|rd|th) gen\b|^\s*\d+\s*x\s+", " ", plain)
    words = [word for word in _words(plain) if word not in _CPU_NOISE]
    vendor = next((_VENDOR_OF[word] for word in words if word in _VENDOR_OF), None)
    if vendor and vendor not in words:
        words = [vendor, *words]
    return " ".join(words) or name.strip().lower()


def matching_cpus(name: str, known: Iterable[str]) -> list[str]:
    """Return those of the ``known`` keys (see :func:`cpu_key`) that ``name`` can mean: the exact one, or all."""
    key, keys = cpu_key(name), sorted(set(known))
    if key in keys:
        return [key]
    return [k for k in keys if set(key.split()) <= set(k.split())]


def _words(name: str) -> list[str]:
    return re.findall(r"[a-z0-9][a-z0-9+.]*", name.lower().replace("(r)", " ").replace("(tm)", " "))


def _kind(key: str) -> frozenset[str]:
    return frozenset(word for word in key.split() if not _QUALIFIER.fullmatch(word))


def _memory(key: str) -> frozenset[str]:
    return frozenset(word for word in key.split() if _MEMORY.fullmatch(word))


def _is_short_for(name: str, key: str) -> bool:
    """A name of vendor words alone is short for every GPU; any other for the kinds that hold all its words."""
    words = _kind(gpu_key(name))
    return words <= _kind(key) or words <= _GPU_NOISE
