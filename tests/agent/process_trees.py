"""Process trees written by hand, as the hook would have recorded them."""

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

from agent.assemble import Assembled, assemble


class Recorded:
    """One process; each call adds an event and returns the process, so that they chain."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.events: list[dict[str, Any]] = []
        self._keys = itertools.count()

    def span(
        self, name: str, start: float, end: float | None, note: dict[str, Any] | None = None, error: str | None = None
    ) -> "Recorded":
        key = next(self._keys)
        self._add("begin", start, key=key, name=name, where=name, main=True)
        if end is not None:
            closing: dict[str, Any] = {"key": key, "note": note or {}}
            self._add("end", end, **closing, **({"error": error} if error else {}))
        return self

    def log(self, template: str, args: Sequence[Any], at: float) -> "Recorded":
        self._add("log", at, format=template, args=list(args))
        return self

    def error(self, text: str, at: float) -> "Recorded":
        self._add("error", at, text=text)
        return self

    def _add(self, event: str, at: float, **fields: Any) -> None:
        self.events.append({"pid": self.pid, "event": event, "at": at, "spent": 0.001, **fields})


class Tree:
    """The processes of one startup, from 0 to `ending`."""

    def __init__(self) -> None:
        self.spawned = 0.0
        self.healthy = 0.0
        self._processes: list[Recorded] = []

    def process(
        self,
        pid: int,
        start: float,
        *,
        parent: int = 0,
        imports: Sequence[tuple[float, float]] = (),
        command: Sequence[str] = (),
        wrapped: Sequence[str] = ("tokenizer", "graph_capture"),
    ) -> Recorded:
        process = Recorded(pid)
        process._add("process", start, parent=parent, command=list(command), **{"from": start})
        for begun, ended in imports:
            process._add("import", ended, name="vllm", nested=False, main=True, **{"from": begun})
        process._add("module", start, name="vllm", wrapped=list(wrapped), missing=[])
        self._processes.append(process)
        return process

    def ending(self, *, healthy: float) -> "Tree":
        self.healthy = healthy
        return self

    @property
    def events(self) -> Iterator[dict[str, Any]]:
        return itertools.chain.from_iterable(process.events for process in self._processes)

    def assembled(self) -> Assembled:
        return assemble(self.events, spawned_at=self.spawned, healthy_at=self.healthy)


def cold_gpu() -> Tree:
    """One GPU with nothing cached, the first runner: front end, inspection subprocess, and the worker in the engine."""
    tree = Tree()
    front = tree.process(1, 0.0, imports=[(0.0, 5.5)])
    front.span("platform_detection", 2.0, 2.5)
    front.span("engine_config", 5.5, 8.5, note={"version": "0.24.0", "enforce_eager": False})
    front.span("model_inspection", 6.0, 8.0).span("inspection_subprocess", 6.0, 8.0)
    front.span("front_end", 8.5, 46.5).span("tokenizer", 8.5, 9.5)
    inspection = ("python", "-m", "vllm.model_executor.models.registry")
    tree.process(2, 6.0, parent=1, imports=[(6.0, 7.9)], command=inspection)
    # What is imported while the worker starts is an import; while the model is built, it is part of the building.
    engine = tree.process(3, 9.5, parent=1, imports=[(9.5, 13.5), (13.5, 14.0), (15.75, 16.25)])
    engine.span("engine_init", 13.5, 46.5).span("executor_init", 13.5, 23.5)
    engine.span("worker_init", 13.5, 14.5).span("device_init", 14.5, 15.5)
    engine.span("model_loading", 15.5, 23.5, note={"runner": "v1"}).span("model_init", 15.5, 16.5)
    engine.span("weight_loading", 16.5, 22.5).span("weight_postprocess", 22.5, 23.5)
    engine.span("kv_caches", 23.5, 45.5).span("kv_profiling", 23.5, 37.5).span("profile_run", 23.5, 36.5)
    engine.span("compile", 24.0, 35.0, note={"with_run": False}).span("backend", 28.0, 34.0)
    engine.span("inductor", 29.0, 33.0).span("aot_save", 34.5, 35.0)
    engine.span("kv_allocation", 37.5, 38.5)
    engine.span("warm_up", 38.5, 45.5).span("kernel_warmup", 38.5, 39.5)
    engine.span("graph_capture", 39.5, 44.5, note={"graphs": 86})
    engine.span("engine_tokenizer", 45.5, 46.0)
    return tree.ending(healthy=48.0)


def warm_gpu() -> Tree:
    """One GPU, the compiled graph cached, the second runner, which captures inside profiling too."""
    tree = Tree()
    front = tree.process(1, 0.0, imports=[(0.0, 5.0)])
    front.span("engine_config", 5.0, 5.5).span("front_end", 5.5, 22.0).span("tokenizer", 5.5, 6.0)
    engine = tree.process(2, 6.0, parent=1, imports=[(6.0, 10.0)])
    engine.span("engine_init", 10.0, 22.0).span("model_loading", 10.0, 13.0, note={"runner": "v2"})
    engine.span("weight_loading", 10.5, 12.5)
    engine.span("kv_caches", 13.0, 21.5).span("kv_profiling", 13.0, 18.0)
    engine.span("aot_load", 13.5, 14.5, note={"hit": True}).span("compile", 13.5, 14.5)
    engine.span("graph_estimate", 15.5, 17.5).span("graph_capture", 15.75, 17.25)
    engine.span("kv_allocation", 18.0, 18.5).span("warm_up", 18.5, 21.5).span("graph_capture", 19.0, 21.0)
    return tree.ending(healthy=23.0)
