"""From what was gathered of a startup to what its log tells: stages, parts, the outcome, and what to know of them."""

from collections.abc import Hashable, Iterable, Iterator
from typing import TypeVar

from agent.stage_log.clock import elapsed
from agent.stage_log.result import LogOutcome, NotAVllmLog, ParsedLog, ParsedRank
from agent.stage_log.startup import Startup
from app.stages import PARTS_OF, Part, Stage

__all__ = ["conclude"]

_Key = TypeVar("_Key", bound=Hashable)
_NOT_SAID = frozenset(part.value for part in Part) | {"model_loading_s"}


def conclude(startup: Startup) -> ParsedLog:
    """Return what the lines of ``startup`` told; raises :class:`NotAVllmLog` where none was vLLM's."""
    if not startup.is_vllm:
        raise NotAVllmLog()
    outcome, spec = _outcome(startup), startup.facts.spec()
    stages, parts = _seconds(startup, eager=spec["engine"].get("enforce_eager") is True)
    has_failed = outcome is LogOutcome.FAILED
    return ParsedLog(
        outcome=outcome,
        engine_version=spec["engine"].get("version"),
        total_seconds=startup.last.since_start if startup.is_ready else None,
        log_seconds=_log_seconds(startup),
        stages=_ordered(stages, Stage),
        parts=_ordered(parts, Part),
        spec=spec,
        engine_said=_said(startup),
        ranks=_ranks(startup),
        failed_stage=_stage_reached(startup.seen.keys()).value if has_failed else None,
        last_error=startup.failure.last_error() if has_failed else None,
        notes=list(dict.fromkeys(_notes(startup))),
    )


def _outcome(startup: Startup) -> LogOutcome:
    if startup.is_ready:
        return LogOutcome.READY
    return LogOutcome.FAILED if startup.failure.happened else LogOutcome.INCOMPLETE


def _seconds(startup: Startup, *, eager: bool) -> tuple[dict[Stage, float], dict[Part, float]]:
    """Seconds by stage and part; of several ranks, the slowest counts."""
    parts = _slowest(rank.parts() for rank in startup.ranks.values())
    stages = _slowest(rank.stages() for rank in startup.ranks.values())
    if (seconds := _server_start(startup)) is not None:
        parts[Part.SERVER_START] = seconds
    # Often only one rank prints its parts; the engine's own line has the slowest one's compilation.
    if compilation := _said(startup).get("init_engine_compilation_s"):
        stages[Stage.TORCH_COMPILE] = max(compilation, stages.get(Stage.TORCH_COMPILE, 0.0))
    # Where one rank is slowest in one part and another in the next, the stage must still hold both.
    stages = {stage: max(s, sum(parts.get(part, 0.0) for part in PARTS_OF[stage])) for stage, s in stages.items()}
    off = {
        Stage.TORCH_COMPILE: eager or "compile_off" in startup.seen,
        Stage.CUDA_GRAPH_CAPTURE: eager or "capture_off" in startup.seen,
    }
    return {stage: 0.0 for stage, is_off in off.items() if is_off} | stages, parts


def _server_start(startup: Startup) -> float | None:
    """From the engine being ready to the server's ready line."""
    if not startup.is_ready or "engine_ready" not in startup.seen:
        return None
    seconds = elapsed(startup.seen["engine_ready"], startup.last)
    return None if seconds is None or seconds < 0 else seconds


def _log_seconds(startup: Startup) -> float | None:
    seconds = elapsed(startup.first, startup.last) if startup.first else None
    return None if seconds is None or seconds < 0 else _rounded(seconds)


def _said(startup: Startup) -> dict[str, float]:
    """What the engine printed beside stages and parts; of several ranks the most, but the least free memory."""
    said = [rank.said for rank in startup.ranks.values()]
    most = _slowest({name: value for name, value in one.items() if name not in _NOT_SAID} for one in said)
    free = [one["kv_available_gib"] for one in said if "kv_available_gib" in one]
    return most | ({"kv_available_gib": min(free)} if free else {})


def _ranks(startup: Startup) -> list[ParsedRank]:
    ranks = [
        ParsedRank(*rank.process[:2], rank.process.ip, _ordered(rank.stages(), Stage), _ordered(rank.parts(), Part))
        for rank in startup.ranks.values()
    ]
    return [rank for rank in ranks if rank.stages or rank.parts]


def _stage_reached(seen: Iterable[str]) -> Stage:
    """The stage that the startup was in: the first one whose end was not seen."""
    passed = frozenset(seen)
    if "engine_ready" in passed:
        return Stage.OTHER
    if passed & {"kv_available", "kv_skipped", "kv_sized"}:
        is_capturing = "capture_start" in passed and "captured" not in passed
        return Stage.CUDA_GRAPH_CAPTURE if is_capturing else Stage.OTHER
    if "loaded" in passed:
        is_compiling = passed & {"compile_start", "dynamo"} and not passed & {"compile_end", "compile_and_run"}
        return Stage.TORCH_COMPILE if is_compiling else Stage.KV_CACHE_PROFILING
    return Stage.MODEL_LOADING if passed & {"load_start", "weights"} else Stage.FRAMEWORK_BOOTSTRAP


def _notes(startup: Startup) -> Iterator[str]:
    """What a reader of the numbers must know."""
    for rank in startup.ranks.values():
        yield from rank.notes()
    if startup.is_ready and startup.last.since_start is None:
        yield "total_seconds is not known: no stamp counts from the start of the process"
    elif startup.is_ready:
        yield "total_seconds counts from the zero of the stamps before the lines"
    if startup.is_ready and "ready" not in startup.seen:
        yield "the ready line is missing: a served request shows that the server was up"
    if not startup.is_ready and "waiting" in startup.seen:
        yield "processes of the engine waited for one another for a minute or more"
    if any(rank.process.ip for rank in startup.ranks.values()):
        yield "the processes run on several hosts, whose clocks may differ: stamps are compared within one host only"


def _slowest(found: Iterable[dict[_Key, float]]) -> dict[_Key, float]:
    slowest: dict[_Key, float] = {}
    for seconds in found:
        slowest |= {key: max(value, slowest.get(key, value)) for key, value in seconds.items()}
    return slowest


def _ordered(seconds: dict[_Key, float], order: Iterable[_Key]) -> dict[str, float]:
    """Return ``seconds`` under plain names, in the order of the vocabulary."""
    return {str(key): _rounded(seconds[key]) for key in order if key in seconds}


def _rounded(seconds: float) -> float:
    """Cut what binary fractions add: no log prints finer than a microsecond."""
    return round(seconds, 6)
