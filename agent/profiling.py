"""Measuring startups one after the other: start an engine, wait until it is healthy, stop it."""

import shlex
import socket
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from agent.child import Child
from agent.cold import evict_weights, fresh_caches
from agent.health import HealthCheck
from agent.startup import Startup, clock

__all__ = ["Interrupted", "Plan", "Profiled", "measure", "read_matrix"]

POLL_SECONDS = 0.05
STOP_SECONDS = 60.0  # vLLM takes seconds to end its workers; one that hangs must not hold the GPU for good.


class Interrupted(Exception):
    """Somebody asked the profiling to stop."""


@dataclass(frozen=True)
class Plan:
    """One startup to measure."""

    model: str
    engine_args: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Conditions:
    """What all startups of one profiling share: the engine's command as far as ``serve``, and where logs go."""

    executable: tuple[str, ...]
    cold: bool
    timeout_seconds: float
    logs: Path


@dataclass(frozen=True)
class Profiled:
    """What came of one startup."""

    plan: Plan
    measurement: dict[str, Any]
    eviction: str | None
    """What became of the weights in the page cache, where the startup was to be cold."""


def read_matrix(path: Path, models: Sequence[str], engine_args: Sequence[str]) -> list[Plan]:
    """Return the plans of a YAML or JSON list of rows: ``model``, ``engine_args`` (text or list), ``environment``.

    A row without a model counts for each of ``models``; ``engine_args`` come before every row's own. Raises
    ``ValueError`` for a file that holds anything else.
    """
    try:
        rows = yaml.safe_load(path.read_text())
    except yaml.YAMLError as error:
        raise ValueError(f"{path} is no YAML: {error}") from error
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise ValueError(f"{path} must hold a list of rows such as: - engine_args: --enforce-eager")
    return [plan for row in rows for plan in _plans(row, models, engine_args)]


def _plans(row: dict[str, Any], models: Sequence[str], engine_args: Sequence[str]) -> list[Plan]:
    if unknown := row.keys() - {"model", "engine_args", "environment"}:
        raise ValueError(
            f"a row of the matrix has model, engine_args and environment, not {', '.join(sorted(unknown))}"
        )
    own = row.get("engine_args") or []
    words = shlex.split(own) if isinstance(own, str) else [str(word) for word in own]
    environment = {str(name): str(value) for name, value in (row.get("environment") or {}).items()}
    named = [str(row["model"])] if row.get("model") else list(models)
    if not named:
        raise ValueError("a row of the matrix names no model, and neither does the command line")
    return [Plan(model, (*engine_args, *words), environment) for model in named]


def measure(plan: Plan, environment: Mapping[str, str], conditions: Conditions, *, number: int = 0) -> Profiled:
    """Measure one startup and stop the engine again. What it prints goes to ``<number>.log``.

    Raises ``OSError`` where the engine cannot be started, and `Interrupted` where somebody asked for the end.
    """
    port = _free_port()
    place = ("--host", "127.0.0.1", "--port", str(port))
    command = [*conditions.executable, "serve", plan.model, *place, *plan.engine_args]
    variables = {**environment, **plan.environment}
    with tempfile.TemporaryDirectory(prefix="coldcast-caches-", ignore_cleanup_errors=True) as caches:
        eviction = None
        if conditions.cold:
            variables |= fresh_caches(Path(caches))
            eviction = evict_weights(command, variables)
        log = conditions.logs / f"{number}.log"
        measurement = _measured(command, variables, HealthCheck("127.0.0.1", port), conditions.timeout_seconds, log)
    return Profiled(plan, measurement, eviction)


def _measured(
    command: Sequence[str], environment: Mapping[str, str], health: HealthCheck, timeout_seconds: float, log: Path
) -> dict[str, Any]:
    startup = Startup.prepare(command, environment)
    try:
        startup.spawned()
        child = Child.start(command, startup.environment, log=log)
        try:
            outcome = _outcome(child, health, startup.spawned_at + timeout_seconds)
            measurement = startup.measurement(outcome, clock(), child.status)
        finally:
            child.stop(STOP_SECONDS)
    finally:
        startup.discard()
    if child.stopped:
        raise Interrupted("somebody asked for the end")
    if measurement is None:
        raise OSError(f"{command[0]} ended with {child.status} and was no engine; see {log}")
    return measurement


def _outcome(child: Child, health: HealthCheck, deadline: float) -> str:
    while child.wait(POLL_SECONDS) is None:
        if health.passes():
            return "ready"
        if clock() > deadline:
            return "timed_out"
    return "failed"


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
