"""Probe: the CPU's name and its physical cores."""

import re
from collections.abc import Iterator
from pathlib import Path

from agent.probes.base import Context, Found, NoData

__all__ = ["parse_cpuinfo", "probe", "read_topology"]

# ARM's /proc/cpuinfo has no names; these are what lscpu prints for the parts that stand beside GPUs.
_ARM_PARTS = {"0xd0c": "Neoverse-N1", "0xd40": "Neoverse-V1", "0xd49": "Neoverse-N2", "0xd4f": "Neoverse-V2"}


def probe(context: Context) -> Found:
    """Read ``/proc/cpuinfo`` and the topology below ``/sys``."""
    name, logical = parse_cpuinfo(context.read("proc/cpuinfo"))
    cores = len(set(read_topology(context.root).values())) or None
    if name is None and cores is None:
        raise NoData("neither /proc/cpuinfo nor /sys/devices/system/cpu describes a CPU")
    found = {"cpu": name, "cpu_cores": cores}
    return Found({"hardware": {key: value for key, value in found.items() if value}}, {"logical_cpus": logical})


def parse_cpuinfo(text: str) -> tuple[str | None, int]:
    """Return the CPU's name, where it has one, and the number of logical CPUs."""
    fields = re.findall(r"^([^:\n]+?)\s*:[ \t]*(.*)$", text, re.MULTILINE)
    first = dict(reversed(fields))
    part = first.get("CPU part", "")
    name = first.get("model name") or _ARM_PARTS.get(part) or (f"ARM part {part}" if part else None)
    return name, sum(1 for key, _ in fields if key == "processor")


def read_topology(root: Path) -> dict[int, tuple[str, str]]:
    """Return the physical core (package, core) of each logical CPU that is online."""
    return dict(_cores(root / "sys/devices/system/cpu"))


def _cores(folder: Path) -> Iterator[tuple[int, tuple[str, str]]]:
    for path in folder.glob("cpu[0-9]*"):
        try:
            package, core = (
                (path / "topology" / name).read_text().strip() for name in ("physical_package_id", "core_id")
            )
        except OSError:
            continue  # An offline CPU has no topology.
        yield int(path.name.removeprefix("cpu")), (package, core)
