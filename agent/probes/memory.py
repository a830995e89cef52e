"""Probe: main memory."""

import re

from agent.probes.base import Context, Found

__all__ = ["parse_meminfo", "probe"]


def probe(context: Context) -> Found:
    """Read ``/proc/meminfo``."""
    sizes = parse_meminfo(context.read("proc/meminfo"))
    total = {"memory_bytes": sizes["MemTotal"]} if "MemTotal" in sizes else {}
    facts = {"available_bytes": sizes.get("MemAvailable"), "swap_bytes": sizes.get("SwapTotal")}
    return Found({"hardware": total}, facts)


def parse_meminfo(text: str) -> dict[str, int]:
    """Return the sizes in bytes, by the kernel's names; its kB are 1,024 bytes."""
    return {name: int(size) * 1024 for name, size in re.findall(r"^(\w+):\s+(\d+) kB$", text, re.MULTILINE)}
