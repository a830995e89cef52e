"""How fast the log parser is, and how much memory it takes: a log of 100 MB that never becomes ready.

    python bench/stage_log.py [MEGABYTES]

A ready line ends the reading, so a log without one is the worst case.
"""

import io
import resource
import sys
import time

from agent.stage_log import parse_lines, read_lines

# Own lines in the shapes that fill real logs: debug records, progress bars, collectors' stamps.
LINES = (
    "(EngineCore pid=77) INFO 03-01 10:00:00 [interface.py:1] Setting the block size to 64 for the attention backend.",
    "(EngineCore pid=77) DEBUG 03-01 10:00:01 [backends.py:1] Directly load the 7-th graph for dynamic shape from x",
    "Loading safetensors checkpoint shards:  33% Completed | 1/3 [00:22<00:45, 22.71s/it]",
    "2026-03-01T10:00:02.123456789Z stdout F (Worker_TP0 pid=78) INFO 03-01 10:00:02 [loader.py:1] nothing to see here",
    "\x1b[1;36m(EngineCore pid=77)\x1b[0;0m DEBUG 03-01 10:00:03 [utils.py:1] Waiting for 1 local core engine proc(s)",
    '{"asctime": "03-01 10:00:04", "levelname": "INFO", "process": 77, "message": "another line of a service"}',
)


class Repeated(io.RawIOBase):
    """A stream of ``size`` bytes that repeats ``block``."""

    def __init__(self, block: bytes, size: int) -> None:
        self._block, self._left = block, size

    def read1(self, size: int, /) -> bytes:
        """Return the next block."""
        del size
        piece = self._block[: self._left]
        self._left -= len(piece)
        return piece


def main() -> None:
    """Parse the log and print what it took."""
    megabytes = int(sys.argv[1]) if len(sys.argv) > 1 else 100
    block = "\n".join((*LINES, "")).encode() * 300
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    started = time.process_time()
    outcome = parse_lines(read_lines(Repeated(block, megabytes * 10**6))).outcome
    seconds = time.process_time() - started
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    print(f"{megabytes} MB: {outcome}, {seconds:.1f} s of processor time, {grown:.1f} MiB more memory at the peak")


if __name__ == "__main__":
    main()
