"""Assembly: the events of all processes of one startup → seconds of its stages and parts, and what was seen besides.

Pure: `read_events` aside, nothing here touches a file. Every part lies between its own events; only ``unaccounted`` is
a remainder.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agent.critical_path import Chain, chain_of, part_seconds
from agent.cross_check import disagreements
from agent.died_in import died_in
from agent.observed import cache_state, engine_facts, observed_parts, other_facts
from agent.spans import Process, processes_of
from app.stages import PARTS_OF, SIX_STAGES, Part, Stage

__all__ = ["Assembled", "assemble", "read_events"]

_LABELS = {
    "late": "was armed after it had started, so its imports are not known",
    "ray": "is a worker of Ray, which may have started it before it was needed",
}


@dataclass
class Assembled:
    """What the hook saw of one startup."""

    stages: dict[str, float] = field(default_factory=dict)
    """Seconds of the observed ones of the six stages; 0.0 where one did not happen."""
    parts: dict[str, float] = field(default_factory=dict)
    """Seconds of the observed parts; with all six stages observed, the parts sum to the total."""
    engine: dict[str, Any] = field(default_factory=dict)
    """Engine arguments as the engine resolved them, named as in a spec."""
    cache: dict[str, str] = field(default_factory=dict)
    """States of the caches as the startup showed them, named as in a spec."""
    facts: dict[str, Any] = field(default_factory=dict)
    """What else was seen; kept with the measurement, never fitted."""
    notes: list[str] = field(default_factory=list)
    """What makes this measurement less than whole, a sentence each."""
    hook_seconds: float = 0.0
    """What the hook itself took of the startup, over the processes of the critical path."""
    failed_in: str | None = None
    """The stage that the startup was in at its end; of interest where that was none too good."""
    last_error: str | None = None
    """The last error, unmasked."""


def read_events(folder: Path) -> Iterator[dict[str, Any]]:
    """Yield the events of all files in ``folder``, each with the ``pid`` that its file is named for.

    A line that a dying process left unfinished is passed over.
    """
    for path in sorted(folder.glob("*.jsonl")):
        for line in path.read_bytes().splitlines():
            try:
                event = json.loads(line)
            except ValueError:
                continue
            yield {"pid": int(path.stem), **event}


def assemble(events: Iterable[Mapping[str, Any]], *, spawned_at: float, healthy_at: float) -> Assembled:
    """Assemble the events of one startup.

    ``spawned_at`` and ``healthy_at`` are seconds since boot, of the launcher's clock: the moment before the engine was
    started, and its first healthy answer (or its end, where it never gave one).
    """
    processes = processes_of(events)
    chain = chain_of(processes)
    assembled = Assembled(notes=_notes(processes, chain), hook_seconds=_hook_seconds(chain))
    seconds = part_seconds(chain, spawned_at, healthy_at)
    parts = observed_parts(chain, seconds)
    assembled.stages = _stages(seconds, parts)
    if len(assembled.stages) == len(SIX_STAGES):
        parts |= {part: seconds.get(part, 0.0) for part in PARTS_OF[Stage.OTHER]}
        parts[Part.UNACCOUNTED] = max(0.0, healthy_at - spawned_at - sum(seconds.values()))
    assembled.parts = {part.value: round(parts[part], 6) for part in Part if part in parts}
    assembled.engine, assembled.cache = engine_facts(chain), cache_state(chain)
    assembled.facts = other_facts(chain, processes)
    assembled.failed_in, assembled.last_error = died_in(chain)
    return assembled


def _stages(seconds: Mapping[Part, float], observed: Mapping[Part, float]) -> dict[str, float]:
    """Sum the seconds of every stage of which a part was observed, or its whole where its parts could not be told."""
    return {
        stage.value: round(sum(seconds.get(part, 0.0) for part in PARTS_OF[stage]), 6)
        for stage in SIX_STAGES
        if any(part in observed for part in PARTS_OF[stage])
    }


def _hook_seconds(chain: Chain) -> float:
    outside = [process.hook_seconds for process in (*chain.front_ends[:1], *([chain.engine] if chain.engine else []))]
    return round(sum(outside) + max((worker.hook_seconds for worker in chain.workers), default=0.0), 6)


def _notes(processes: Iterable[Process], chain: Chain) -> list[str]:
    notes = []
    if not chain.processes:
        notes.append("the hook ran in no process of the engine, so only the total is known")
    elif not chain.front_ends and chain.engine is not None and not chain.engine.named("front_end"):
        notes.append("no front end in Python was seen, so bootstrap and tokenizer are not known")
    if chain.engine is not None and not chain.workers and not chain.engine.named("worker_init", "model_loading"):
        notes.append("no worker was seen, as on other nodes, so what workers do is not known")
    for process in processes:
        if process.hook_error:
            notes.append(f"the hook gave up in process {process.pid}: {process.hook_error}")
        notes += [f"process {process.pid} {_LABELS[label]}" for label in process.labels if label in _LABELS]
        if process in chain.processes and (lost := sorted(process.missing - process.wrapped)):
            notes.append(f"this vLLM lacks, in process {process.pid}: {', '.join(lost)}")
    return notes + disagreements(chain)
