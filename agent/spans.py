"""What the hook wrote, as spans by process: the first step of assembly. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

__all__ = ["ENGINE", "FRONT_END", "HELPER", "WORKER", "Process", "Span", "processes_of"]

HELPER, FRONT_END, ENGINE, WORKER = range(4)
"""Roles, from the outside in: while one of a deeper role is busy, those above only wait for it."""

_ENGINE_EVENTS = frozenset({"engine_process", "engine_init", "executor_init", "kv_caches"})
_WORKER_EVENTS = frozenset({"worker_init", "device_init", "model_loading", "kv_profiling", "warm_up"})
_FRONT_END_EVENTS = frozenset({"arguments", "engine_config", "front_end"})


@dataclass(frozen=True)
class Span:
    """Something that began and, unless the process died in it, ended; seconds since boot."""

    name: str
    start: float
    end: float | None = None
    where: str = ""
    note: Mapping[str, Any] = field(default_factory=dict)
    error: str | None = None

    @property
    def seconds(self) -> float:
        """How long it took; 0 for one that never ended."""
        return 0.0 if self.end is None else self.end - self.start

    def holds(self, other: "Span") -> bool:
        """Tell whether ``other`` lies inside this span."""
        return self.start <= other.start and (self.end is None or (other.end is not None and other.end <= self.end))


@dataclass
class Process:
    """One process of the engine, with what its hook wrote."""

    pid: int
    parent: int | None = None
    start: float | None = None
    armed: float | None = None
    command: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    spans: list[Span] = field(default_factory=list)
    imports: list[Span] = field(default_factory=list)
    """Outermost imports: none lies inside another."""
    inner_imports: list[Span] = field(default_factory=list)
    records: list[Mapping[str, Any]] = field(default_factory=list)
    """Log records that carry durations, and errors."""
    missing: set[str] = field(default_factory=set)
    wrapped: set[str] = field(default_factory=set)
    hook_seconds: float = 0.0
    hook_error: str | None = None

    @cached_property
    def role(self) -> int:
        """Tell what this process is from what it did; a process that did everything itself is an engine."""
        names = {span.name for span in self.spans}
        if any("models.registry" in argument for argument in self.command):
            return HELPER  # The subprocess that inspects a model class: its parent's span holds its time.
        if names & _ENGINE_EVENTS:
            return ENGINE
        if names & _WORKER_EVENTS:
            return WORKER
        return FRONT_END if names & _FRONT_END_EVENTS else HELPER

    def named(self, *names: str) -> list[Span]:
        """Return the spans of these names, in the order in which they began."""
        return [span for span in self.spans if span.name in names]

    def around(self, span: Span) -> list[Span]:
        """Return the spans that hold ``span``, innermost first."""
        holders = [other for other in self.spans if other is not span and other.holds(span)]
        return sorted(holders, key=lambda other: other.start, reverse=True)


def processes_of(events: Iterable[Mapping[str, Any]]) -> list[Process]:
    """Group ``events``, each with the ``pid`` of its file, into processes with their spans.

    A pid that was given twice makes two processes. What the main thread did not do is left out: no startup waits for
    it. Events that a newer or older hook wrote and this version does not know are passed over.
    """
    done: list[Process] = []
    current: dict[int, Process] = {}
    begun: dict[tuple[int, Any], Mapping[str, Any]] = {}
    for event in events:
        pid = int(event["pid"])
        if event["event"] == "process" and pid in current:
            done.append(_closed(current.pop(pid), begun))
        process = current.setdefault(pid, Process(pid))
        process.hook_seconds = max(process.hook_seconds, float(event.get("spent", 0.0)))
        _take(process, event, begun)
    done.extend(_closed(process, begun) for process in current.values())
    return done


def _take(process: Process, event: Mapping[str, Any], begun: dict[tuple[int, Any], Mapping[str, Any]]) -> None:
    match event["event"]:
        case "process":
            process.parent, process.command = event.get("parent"), tuple(event.get("command", ()))
            process.start, process.armed = event["from"], event["at"]
            process.labels = tuple(label for label in ("forked", "late", "ray") if event.get(label))
        case "begin":
            begun[process.pid, event["key"]] = event
        case "end" if opening := begun.pop((process.pid, event["key"]), None):
            if opening.get("main", True):
                process.spans.append(_span(opening, event))
        case "import" if event.get("main", True):
            place = process.inner_imports if event.get("nested") else process.imports
            place.append(Span("import", event["from"], event["at"], event["name"]))
        case "module":
            process.missing.update(event.get("missing", ()))
            process.wrapped.update(event.get("wrapped", ()))
        case "log" | "error":
            process.records.append(event)
        case "hook_failed":
            process.hook_error = event.get("error")


def _span(opening: Mapping[str, Any], closing: Mapping[str, Any]) -> Span:
    return Span(
        name=opening["name"],
        start=opening["at"],
        end=closing.get("at"),
        where=opening.get("where", ""),
        note=closing.get("note", {}),
        error=closing.get("error"),
    )


def _closed(process: Process, begun: dict[tuple[int, Any], Mapping[str, Any]]) -> Process:
    """Add the spans that never ended, and put all in the order in which they began."""
    for key in [key for key in begun if key[0] == process.pid]:
        opening = begun.pop(key)
        if opening.get("main", True):
            process.spans.append(_span(opening, {}))
    process.spans.sort(key=lambda span: span.start)
    return process
