"""Where a startup that did not end well died, and of what. Pure."""

from collections.abc import Iterable

from agent.critical_path import PART_OF, Chain
from agent.spans import Process, Span
from app.stages import Stage, stage_of

__all__ = ["died_in"]

_COMPILING = frozenset({"compile", "compile_start"})


def died_in(chain: Chain) -> tuple[str | None, str | None]:
    """Return the stage that the startup died in, or had come to when it was given up, and the last error.

    The deepest process knows best: what a worker dies of, the engine and the front end only report. Among the ranks,
    one with an error comes before one that was merely stopped in the middle of something. Of a startup that ended well
    this tells nothing.
    """
    groups = (chain.workers, [chain.engine] if chain.engine else [], chain.front_ends)
    logged = next((text for group in groups if (text := _logged(group))), None)
    for group in groups:
        fatal = [(span.end or 0.0, span, process) for process in group for span in _fatal(process)]
        if fatal:
            _, span, process = min(fatal, key=lambda entry: entry[0])
            return _stage(process, span), span.error
        left_open = [(span.start, span, process) for process in group for span in process.spans if span.end is None]
        if left_open:
            _, span, process = max(left_open, key=lambda entry: entry[0])
            return _stage(process, span), logged
    return (_reached(chain.processes) if chain.processes else None), logged


def _fatal(process: Process) -> list[Span]:
    """Return the spans whose error nobody around them handled."""
    failed = [span for span in process.spans if span.error is not None]
    return [
        span
        for span in failed
        if all(holder.error is not None or holder.end is None for holder in process.around(span))
    ]


def _stage(process: Process, span: Span) -> str:
    """Return the stage of the innermost span around that has one; before the model, that is the bootstrap."""
    for around in (span, *process.around(span)):
        if around.name in _COMPILING:
            return Stage.TORCH_COMPILE.value
        if part := PART_OF.get(around.name):
            return stage_of(part).value
    return _reached([process])


def _reached(processes: Iterable[Process]) -> str:
    """Return the stage of what has no span of its own: beside the model there is only before it and after it."""
    warm = any(process.named("kv_caches", "warm_up") for process in processes)
    return (Stage.OTHER if warm else Stage.FRAMEWORK_BOOTSTRAP).value


def _logged(processes: Iterable[Process]) -> str | None:
    errors = [record for process in processes for record in process.records if record["event"] == "error"]
    return max(errors, key=lambda record: float(record["at"]))["text"] if errors else None
