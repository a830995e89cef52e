"""What the hook costs a real engine: pairs of starts, with it and without it, one after the other.

    python -m bench.hook_cost --vllm .venv-engine/bin/vllm MODEL [--pairs 3] [--serve-args "--max-model-len 512"]

Prints the seconds to the first healthy answer of each start, and the difference of the medians. Ends with 1 where it
is over a second, or where the two kinds of start left different folders in their compile caches. Wants an idle machine.
"""

import argparse
import os
import shlex
import socket
import statistics
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from agent.child import Child
from agent.health import HealthCheck
from agent.startup import Startup, clock

MOST_SECONDS = 1.0


def main() -> int:
    """Run the pairs and return how to end."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model")
    parser.add_argument("--vllm", default="vllm")
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--serve-args", default="")
    options = parser.parse_args()
    seconds: dict[bool, list[float]] = {False: [], True: []}
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        caches = {hooked: Path(folder) / ("hooked" if hooked else "bare") for hooked in seconds}
        for pair in range(options.pairs + 1):
            for hooked in seconds:
                command = [options.vllm, "serve", options.model, *shlex.split(options.serve_args)]
                ready = ready_seconds(command, {**os.environ, "VLLM_CACHE_ROOT": str(caches[hooked])}, hooked)
                print(f"pair {pair}  {'hooked' if hooked else 'bare':8}{ready:8.2f} s", flush=True)
                if pair:  # The first pair fills the caches.
                    seconds[hooked].append(ready)
        same = folders(caches[True]) == folders(caches[False])
    cost = statistics.median(seconds[True]) - statistics.median(seconds[False])
    print(f"the hook costs {cost:+.2f} s; the compile caches have {'the same' if same else 'DIFFERENT'} folders")
    return 0 if same and cost <= MOST_SECONDS else 1


def ready_seconds(command: Sequence[str], environment: Mapping[str, str], hooked: bool) -> float:
    """Return the seconds from the start of ``command`` to its first healthy answer; the engine is stopped again."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [*command, "--host", "127.0.0.1", "--port", str(port)]
    startup = Startup.prepare(command, environment)
    health = HealthCheck("127.0.0.1", port)
    with tempfile.NamedTemporaryFile() as log:
        startup.spawned()
        child = Child.start(command, startup.environment if hooked else environment, log=Path(log.name))
        try:
            while not health.passes():
                if child.wait(0.05) is not None:
                    raise SystemExit(Path(log.name).read_text()[-2000:])
            return clock() - startup.spawned_at
        finally:
            child.stop(60.0)
            startup.discard()


def folders(root: Path) -> set[str]:
    """Return the folders that vLLM names by its compile keys."""
    return {
        str(path.relative_to(root)) for path in root.rglob("*") if path.is_dir() and "inductor_cache" not in path.parts
    }


if __name__ == "__main__":
    sys.exit(main())
