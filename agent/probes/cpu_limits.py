"""Probe: how many of the machine's cores the engine may use, by cgroup quota and by affinity."""

import math
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from agent.probes.base import Context, Found
from agent.probes.cpu import read_topology

__all__ = ["parse_cpu_list", "parse_cpu_max", "probe"]


def probe(context: Context) -> Found:
    """Read the cgroup's CPU quota (version 2, else 1) and this process's affinity, which the engine will inherit."""
    quota = min(_quotas(context), default=None)
    affinity = _affinity(context)
    limits = [limit for limit in (quota, affinity) if limit is not None]
    facts = {"quota_cores": quota, "affinity_cores": affinity}
    return Found({"hardware": {"cpu_quota_cores": min(limits)}} if limits else {}, facts)


def parse_cpu_max(text: str) -> float | None:
    """``150000 100000`` → 1.5 cores; ``max 100000`` and version 1's ``-1 100000`` → None, no limit."""
    quota, period = text.split()
    return None if quota in ("max", "-1") else int(quota) / int(period)


def parse_cpu_list(text: str) -> set[int]:
    """``0-3,8`` → {0, 1, 2, 3, 8}."""
    ranges = (part.partition("-") for part in text.strip().split(",") if part)
    return {number for first, _, last in ranges for number in range(int(first), int(last or first) + 1)}


def _quotas(context: Context) -> Iterator[float]:
    """Give the quota of the process's own cgroup and of each above it: the tightest one holds."""
    for line in context.read("proc/self/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers and "cpu" not in controllers.split(","):
            continue
        mounts = ("",) if not controllers else (f"{controllers}", "cpu", "cpu,cpuacct")
        for mount in dict.fromkeys(mounts):
            # Inside a container the path may be the host's and lead nowhere; the mount's own root is then the cgroup.
            for folder in (PurePosixPath(path), *PurePosixPath(path).parents):
                quota = _quota(context.root / "sys/fs/cgroup" / mount / str(folder).lstrip("/"))
                if quota is not None and math.isfinite(quota) and quota > 0:
                    yield quota


def _quota(folder: Path) -> float | None:
    try:
        if (unified := folder / "cpu.max").is_file():
            return parse_cpu_max(unified.read_text())
        names = ("cpu.cfs_quota_us", "cpu.cfs_period_us")
        return parse_cpu_max(" ".join((folder / name).read_text().strip() for name in names))
    except FileNotFoundError:
        return None  # The root cgroup has no limit, and no file for it.


def _affinity(context: Context) -> int | None:
    """Return the physical cores among the CPUs that this process may run on; None where it may use them all."""
    cores = read_topology(context.root)
    status = context.read("proc/self/status").splitlines()
    listed = next((line.partition(":")[2] for line in status if line.startswith("Cpus_allowed_list:")), None)
    if listed is None or not cores:
        return None
    allowed = parse_cpu_list(listed) & cores.keys()
    return None if allowed == cores.keys() else len({cores[cpu] for cpu in allowed}) or None
