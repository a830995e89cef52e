"""Probe: how busy other work keeps the CPUs just before the start."""

from agent.probes.base import Context, Found, NoData

__all__ = ["INTERVAL_SECONDS", "busy_fraction", "parse_stat", "probe"]

INTERVAL_SECONDS = 0.1  # Ten ticks of each CPU: 10 % steps on one core, 0.3 % on 32; the engine's start waits for it.


def probe(context: Context) -> Found:
    """Read ``/proc/stat`` twice, and the load averages."""
    before = parse_stat(context.read("proc/stat"))
    context.pause(INTERVAL_SECONDS)
    busy = busy_fraction(before, parse_stat(context.read("proc/stat")))
    averages = [float(word) for word in context.read("proc/loadavg").split()[:3]]
    return Found({"hardware": {"cpu_busy_fraction": busy}}, {"load_averages": averages})


def parse_stat(text: str) -> tuple[int, int]:
    """Return the idle and the total ticks of all CPUs since boot. Waiting for a disk is idle; steal is not."""
    line = next((line for line in text.splitlines() if line.startswith("cpu ")), "")
    ticks = [int(word) for word in line.split()[1:9]]  # What follows counts guests, which user and nice hold already.
    if len(ticks) < 5:
        raise NoData("/proc/stat has no line for all CPUs")
    return ticks[3] + ticks[4], sum(ticks)


def busy_fraction(before: tuple[int, int], after: tuple[int, int]) -> float:
    """Return the share of the ticks between two readings that were not idle."""
    idle, total = (late - early for early, late in zip(before, after, strict=True))
    if total <= 0:
        raise NoData("no tick passed between two readings of /proc/stat")
    return round(min(1.0, max(0.0, 1 - idle / total)), 4)
