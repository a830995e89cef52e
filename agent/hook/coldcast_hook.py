"""What runs inside the engine's processes: times imports and the functions that bound the stages, and writes it down.

Standard library only, and Python 3.9 or later, since it runs under the engine's interpreter. Each process appends JSON
lines to ``<folder>/<pid>.jsonl``, one ``write`` a line, all on CLOCK_BOOTTIME, which every process of a machine shares.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from typing import Any

import coldcast_facts
from coldcast_facts import clock
from coldcast_points import DETAILED_IMPORTS, POINTS
from coldcast_recorder import Recorder, on_main_thread
from coldcast_wrapping import Wrapping

SHORTEST_IMPORT_SECONDS = 0.0005
_WANTED = frozenset([*POINTS, *DETAILED_IMPORTS])
_LOOKS = 200  # A tenth of a millisecond.


class Finder:
    """Stands first on ``sys.meta_path``: times outermost imports and wraps the points of a module it knows."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self.wrapping = Wrapping(recorder)
        self.local = threading.local()
        self._look_seconds = 0.0
        self._look_seconds = self._measured_look()
        self._after = recorder.guarded(self._after_execution)

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        """Find a module as the other finders would, its loader prepared to be timed."""
        self.recorder.spent += self._look_seconds
        nested = getattr(self.local, "depth", 0) > 0
        if (nested and name not in _WANTED) or not self.recorder.active:
            return None
        for finder in sys.meta_path:
            if finder is not self and hasattr(finder, "find_spec"):
                spec = finder.find_spec(name, path, target)
                if spec is not None:
                    self._prepare(spec, nested)
                    return spec
        return None

    def _measured_look(self) -> float:
        """Return the seconds of a look at an import of no interest: thousands pass, and two clocks each cost more."""
        self.local.depth = 1
        start = time.thread_time()
        for _ in range(_LOOKS):
            self.find_spec("")
        self.local.depth = 0
        return (time.thread_time() - start) / _LOOKS

    def _prepare(self, spec: Any, nested: bool) -> None:
        execute = getattr(spec.loader, "exec_module", None)
        # Built-in and frozen modules have a class for a loader, shared by all of them, and take no time.
        if execute is None or isinstance(spec.loader, type):
            return
        loader = spec.loader

        def timed(module: Any) -> None:
            start, depth = clock(), getattr(self.local, "depth", 0)
            self.local.depth = depth + 1
            vars(loader).pop("exec_module", None)
            try:
                execute(module)
            finally:
                self.local.depth = depth
                self._after(module, start, nested)

        try:
            loader.exec_module = timed
        except AttributeError:
            return  # A loader with slots: its module goes untimed.
        if spec.name == "vllm":
            self.recorder.guarded(self.recorder.go_live)()

    def _after_execution(self, module: Any, start: float, nested: bool) -> None:
        end, name = clock(), module.__name__
        if end - start >= SHORTEST_IMPORT_SECONDS and (not nested or name in DETAILED_IMPORTS):
            self.recorder.write(
                {"event": "import", "name": name, "nested": nested, "main": on_main_thread(), "from": start, "at": end}
            )
        if name in POINTS:
            self.wrapping.module(module)
        if name == "vllm.logger":
            coldcast_facts.watch_logs(self.recorder)
            coldcast_facts.watch_death(self.recorder)


def arm(folder: str) -> None:
    """Start measuring in this process; where vLLM is imported already (armed late), wrap what is there and say so."""
    started = time.thread_time()
    recorder = Recorder(folder)
    finder = Finder(recorder)
    late = "vllm" in sys.modules
    recorder.write(coldcast_facts.process_event(clock(), forked=False, late=late))
    sys.meta_path.insert(0, finder)
    recorder.on_retire(lambda: sys.meta_path.remove(finder) if finder in sys.meta_path else None)

    def in_child() -> None:
        finder.local.depth = 0
        recorder.guarded(recorder.after_fork)()

    os.register_at_fork(after_in_child=in_child)
    if late:
        recorder.go_live()
        for name in POINTS:
            if name in sys.modules:
                finder.wrapping.module(sys.modules[name], late=True)
        coldcast_facts.watch_logs(recorder)
        coldcast_facts.watch_death(recorder)
    recorder.spent += time.thread_time() - started
