"""From spans to seconds: at each moment of a startup, the one part that it waits for. Pure.

A startup is a chain of waiting: the front end waits for the engine, the engine for its workers, all of them for the
slowest rank. So at each moment the deepest process that is busy tells the part, and within it the innermost span.
That makes parts that cannot overlap, whatever the nesting: compilation comes out of KV profiling, where it lies, and
two ranks that load side by side count once.
"""

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from agent.spans import ENGINE, FRONT_END, WORKER, Process, Span
from app.stages import Part

__all__ = ["PART_OF", "Chain", "chain_of", "part_seconds", "seconds_within"]

PART_OF: dict[str, Part] = {
    "arguments": Part.IMPORTS,
    "platform_detection": Part.PLATFORM_DETECTION,
    "engine_config": Part.MODEL_INSPECTION,
    "model_inspection": Part.MODEL_INSPECTION,
    "inspection_subprocess": Part.MODEL_INSPECTION,
    "tokenizer": Part.TOKENIZER_INIT,
    "engine_tokenizer": Part.TOKENIZER_INIT,
    "executor_init": Part.WORKER_INIT,
    "worker_init": Part.WORKER_INIT,
    "device_init": Part.WORKER_INIT,
    "model_loading": Part.MODEL_INIT,
    "runner_load": Part.MODEL_INIT,
    "model_init": Part.MODEL_INIT,
    "weight_loading": Part.WEIGHT_LOADING,
    "weight_postprocess": Part.WEIGHT_POSTPROCESS,
    "kv_profiling": Part.KV_CACHE_PROFILING,
    "profile_run": Part.KV_CACHE_PROFILING,
    "graph_estimate": Part.KV_CACHE_PROFILING,
    "backend": Part.GRAPH_COMPILE,
    "graph": Part.GRAPH_COMPILE,
    "inductor": Part.GRAPH_COMPILE,
    "aot_save": Part.GRAPH_COMPILE,
    "aot_load": Part.GRAPH_LOAD,
    "graph_capture": Part.CUDA_GRAPH_CAPTURE,
    "kv_caches": Part.KV_CACHE_ALLOCATION,
    "kv_allocation": Part.KV_CACHE_ALLOCATION,
    "warm_up": Part.KERNEL_WARMUP,
    "kernel_warmup": Part.KERNEL_WARMUP,
}
"""The part that a span counts for where nothing inside it says otherwise.

Building the command line's parser counts as imports, reading the model's configuration as model inspection, and what
`load_model` does beside weights as model init: each is that step's own work, and has no part of its own.
"""

_BACKGROUND = frozenset({"arguments", "engine_config", "executor_init", "worker_init", "kv_caches"})
"""Spans in which an import still counts as an import; in the others it is the step's own work."""

_STEPS = ("device_init", "model_loading", "kv_profiling", "kv_allocation", "warm_up")
"""What all ranks do together, in order: the next begins when the slowest has ended."""

_BEHIND, _IMPORT, _SPAN, _LOAD, _TRANSFORM = range(5)

_TRANSFORMED = "Dynamo bytecode transform time"
"""The log line at the end of Dynamo's work; what the engine counts for it ends there, not at the backend's entry."""


@dataclass(frozen=True)
class Piece:
    """An interval of ``part``, unless one of higher ``weight`` covers it; of equal weights, the later start."""

    part: Part
    start: float
    end: float
    weight: tuple[int, int]
    """Role of the process, then kind of the piece."""


@dataclass
class Chain:
    """The processes that a startup waited for."""

    front_ends: list[Process]
    engine: Process | None
    workers: list[Process]

    @property
    def processes(self) -> list[Process]:
        """All of them, from the outside in."""
        return [*self.front_ends, *([self.engine] if self.engine else []), *self.workers]


def chain_of(processes: Sequence[Process]) -> Chain:
    """Pick the front ends, the first started first, the engine that was ready last, and that engine's workers."""
    engines = [process for process in processes if process.role == ENGINE]
    engine = max(engines, key=lambda process: _last_end(process, "engine_init", "kv_caches"), default=None)
    workers = [process for process in processes if process.role == WORKER]
    if engine is not None and any(worker.parent == engine.pid for worker in workers):
        workers = [worker for worker in workers if worker.parent == engine.pid]
    front_ends = [process for process in processes if process.role == FRONT_END]
    return Chain(sorted(front_ends, key=lambda process: process.start or 0.0), engine, workers)


def part_seconds(chain: Chain, spawned_at: float, healthy_at: float) -> dict[Part, float]:
    """Return the seconds of each part that took any between the two moments, without what no event bounds."""
    pieces = [piece for process in chain.processes if process.role != WORKER for piece in _pieces(process)]
    pieces += _of_slowest_ranks(chain.workers)
    pieces += _server_start(chain, healthy_at)
    return _swept(pieces, spawned_at, healthy_at)


def seconds_within(process: Process) -> dict[Part, float]:
    """Return the seconds that one process alone spent on each part."""
    return _swept(_pieces(process), float("-inf"), float("inf"))


def _pieces(process: Process) -> Iterator[Piece]:
    level = process.role
    if process.start is not None and process.armed is not None:
        yield Piece(Part.IMPORTS, process.start, process.armed, (level, _IMPORT))
    for span in process.imports:
        if span.end is not None:
            yield Piece(Part.IMPORTS, span.start, span.end, (level, _IMPORT))
    for span in process.spans:
        if span.end is not None:
            yield from _of_span(process, span, span.end)


def _of_span(process: Process, span: Span, end: float) -> Iterator[Piece]:
    level = process.role
    match span.name:
        case "compile":
            loading = any(holder.name == "aot_load" for holder in process.around(span))
            yield from _of_compile(process, span, end, loading=loading)
        case "compile_start":
            # Without a GPU, Dynamo hands what it transformed to Inductor, with no backend of vLLM's between.
            called = (other for other in process.named("backend", "inductor") if other.start >= span.start)
            if compiler := next(called, None):
                transformed = _transformed(process, span.start, compiler.end or compiler.start) or compiler.start
                yield Piece(Part.DYNAMO_TRANSFORM, span.start, transformed, (level, _TRANSFORM))
        case "backend" | "graph" if _all_found(process, span):
            yield Piece(Part.GRAPH_LOAD, span.start, end, (level, _LOAD))
        case "aot_load":  # Loading has a compile block of its own inside, in which Dynamo does nothing.
            yield Piece(Part.GRAPH_LOAD, span.start, end, (level, _LOAD))
        case "graph_capture" if any(holder.name == "kv_profiling" for holder in process.around(span)):
            # From vLLM 0.20 on, profiling captures some graphs to learn what memory they need.
            yield Piece(Part.KV_CACHE_PROFILING, span.start, end, (level, _SPAN))
        case name if part := PART_OF.get(name):
            yield Piece(part, span.start, end, (level, _BEHIND if name in _BACKGROUND else _SPAN))


def _of_compile(process: Process, span: Span, end: float, *, loading: bool) -> Iterator[Piece]:
    """Split torch.compile's block: Dynamo until it says that it is done, then compilation, where that is all.

    A rank that logs nothing is taken to be done when its backend is first called, some 0.4 s before the line. Where a
    compiled function is loaded, only the line can tell that there was something to transform.
    """
    inner = [other for other in process.named("backend", "inductor", "graph") if span.holds(other)]
    called = None if loading else inner[0].start if inner else end
    transformed = _transformed(process, span.start, end) or called
    if transformed is not None:
        yield Piece(Part.DYNAMO_TRANSFORM, span.start, transformed, (process.role, _TRANSFORM))
    if called is not None and not span.note.get("with_run"):
        yield Piece(Part.GRAPH_COMPILE, called, end, (process.role, _SPAN))


def _transformed(process: Process, start: float, end: float) -> float | None:
    """Return when Dynamo first said that it was done between the two moments; None where it did not."""
    said = (float(record["at"]) for record in _dynamos_lines(process))
    return next((at for at in said if start <= at <= end), None)


def _all_found(process: Process, span: Span) -> bool:
    """Tell whether every graph that was looked up inside ``span`` was found in the cache."""
    hits = [other.note.get("hit") for other in process.named("graph_lookup") if span.holds(other)]
    return bool(hits) and all(hits)


def _of_slowest_ranks(workers: Sequence[Process]) -> Iterator[Piece]:
    """Follow, from step to step, the rank that ends the step last; what comes after all steps, too."""
    workers = _with_dynamos_line(workers)
    for index, step in enumerate(_STEPS):
        reached = [worker for worker in workers if worker.named(step)]
        if reached:
            slowest = max(reached, key=lambda worker: _last_end(worker, step))
            start = _last_end(slowest, *_STEPS[:index])
            yield from _clipped(_pieces(slowest), start, _last_end(slowest, step))
    if workers:
        slowest = max(workers, key=lambda worker: _last_end(worker, *_STEPS))
        yield from _clipped(_pieces(slowest), _last_end(slowest, *_STEPS), float("inf"))


def _with_dynamos_line(workers: Sequence[Process]) -> list[Process]:
    """Give ranks that say nothing of Dynamo the line of one that does: vLLM writes it on the first rank alone.

    All ranks transform the same code at the same time; seen on two ranks, they ended within 0.1 s of each other.
    """
    lines = {worker.pid: _dynamos_lines(worker) for worker in workers}
    said = next(filter(None, lines.values()), [])
    return [w if lines[w.pid] else replace(w, records=[*w.records, *said]) for w in workers]


def _dynamos_lines(process: Process) -> list[Mapping[str, Any]]:
    return [record for record in process.records if _TRANSFORMED in str(record.get("format", ""))]


def _server_start(chain: Chain, healthy_at: float) -> Iterator[Piece]:
    """Bound the last stretch by its own events: the front end has its engine, and the first healthy answer."""
    asking = [*chain.front_ends, *([chain.engine] if chain.engine else [])]
    ready = max((_last_end(process, "front_end") for process in asking), default=float("-inf"))
    if ready == float("-inf") and chain.engine is not None:
        ready = _last_end(chain.engine, "engine_process", "engine_init")
    if ready > float("-inf"):
        yield Piece(Part.SERVER_START, ready, healthy_at, (FRONT_END, _SPAN))


def _last_end(process: Process, *names: str) -> float:
    return max((span.end for span in process.named(*names) if span.end is not None), default=float("-inf"))


def _clipped(pieces: Iterable[Piece], start: float, end: float) -> Iterator[Piece]:
    for piece in pieces:
        low, high = max(piece.start, start), min(piece.end, end)
        if low < high:
            yield Piece(piece.part, low, high, piece.weight)


def _swept(pieces: Iterable[Piece], start: float, end: float) -> dict[Part, float]:
    kept = sorted(_clipped(pieces, start, end), key=lambda piece: piece.start)
    moments = sorted({moment for piece in kept for moment in (piece.start, piece.end)})
    seconds: dict[Part, float] = {}
    active: list[Piece] = []
    upcoming = 0
    for low, high in itertools.pairwise(moments):
        while upcoming < len(kept) and kept[upcoming].start <= low:
            active.append(kept[upcoming])
            upcoming += 1
        active = [piece for piece in active if piece.end > low]
        if active:
            top = max(active, key=lambda piece: (piece.weight, piece.start, -piece.end))
            seconds[top.part] = seconds.get(top.part, 0.0) + high - low
    return seconds
