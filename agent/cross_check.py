"""The stock log lines against the hook's own spans: where both time the same thing, they must agree. Pure."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from agent.critical_path import Chain, seconds_within
from agent.spans import Process
from app.stages import Part

__all__ = ["disagreements", "told_twice"]

_IN_SECONDS = re.compile(r"%\.\d+f s")
_SLACK_SECONDS = 0.1
_SLACK_SHARE = 0.05


def disagreements(chain: Chain) -> list[str]:
    """Return a sentence for each duration that the log and the hook tell differently."""
    return [
        f"{what} took {said:.2f} s by the log of process {process.pid} and {seen:.2f} s by the hook"
        for process in chain.processes
        for what, said, seen in told_twice(process)
        if abs(said - seen) > max(_SLACK_SECONDS, _SLACK_SHARE * said)
    ]


def told_twice(process: Process) -> Iterator[tuple[str, float, float]]:
    """Yield what both the log and the hook time in ``process``, with the seconds by the log and by the hook."""
    for what, text, seen in (
        ("reading the weights", "Loading weights took", _spans(process, "weight_loading")),
        ("Dynamo", "Dynamo bytecode transform time", seconds_within(process).get(Part.DYNAMO_TRANSFORM, 0.0)),
        ("compilation", "Compiling a graph for", _extent(process, "graph")),
        ("loading the graphs", "Directly load the compiled graph", _extent(process, "graph")),
        ("graph capture", "Graph capturing finished", _spans(process, "graph_capture")),
    ):
        if (said := _said(process, text)) is not None:
            yield what, said, seen


def _said(process: Process, text: str) -> float | None:
    """Return the sum of the seconds in the log lines with ``text``; None where there is no such line."""
    seconds = [_seconds(record["format"], record["args"]) for record in process.records if text in _format(record)]
    return sum(seconds) if seconds else None


def _format(record: Mapping[str, Any]) -> str:
    return str(record.get("format", ""))


def _seconds(template: str, args: Sequence[Any]) -> float:
    """Return the argument that a format string prints before its unit of seconds, unrounded."""
    found = _IN_SECONDS.search(template)
    position = template[: found.start()].count("%") if found else 0
    return float(args[position]) if position < len(args) and isinstance(args[position], int | float) else 0.0


def _spans(process: Process, name: str) -> float:
    return sum(span.seconds for span in process.named(name))


def _extent(process: Process, name: str) -> float:
    spans = process.named(name)
    return max(span.end or 0.0 for span in spans) - spans[0].start if spans else 0.0
