"""Whether the hook tells what the engine's own log tells, on the recorded events of real startups.

    python -m bench.hook_truth [FOLDER ...]

A FOLDER holds the hook's files of one startup; left out, the recordings that the tests use are read. Prints, for each
duration that both time, the unrounded argument of the log record beside the hook's seconds, and their difference.
"""

import sys
from collections.abc import Iterator
from pathlib import Path

from agent.assemble import read_events
from agent.critical_path import chain_of
from agent.cross_check import told_twice
from agent.spans import processes_of

RECORDINGS = Path(__file__).resolve().parent.parent / "tests" / "agent" / "spans"


def compared(folder: Path) -> Iterator[tuple[str, float, float]]:
    """Yield what both told in one startup, with the seconds by the log and by the hook."""
    for process in chain_of(processes_of(read_events(folder))).processes:
        yield from told_twice(process)


def main() -> None:
    """Print the table, and the largest difference of each duration."""
    folders = [Path(name) for name in sys.argv[1:]] or sorted(RECORDINGS.glob("h200_*"))
    largest: dict[str, float] = {}
    for folder in folders:
        for what, said, seen in compared(folder):
            print(f"{folder.name:28} {what:20} log {said:8.4f} s  hook {seen:8.4f} s  {1000 * (seen - said):+6.1f} ms")
            largest[what] = max(largest.get(what, 0.0), abs(seen - said))
    for what, seconds in largest.items():
        print(f"largest difference: {what:20} {1000 * seconds:.1f} ms")


if __name__ == "__main__":
    main()
