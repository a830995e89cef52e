"""Probes: one fact of the machine a file. A probe that fails costs its own facts only.

Each reads in one function and parses in another, and gives raw facts; no probe starts a process, imports the engine, or
needs root.
"""

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from agent.probes import (
    compile_cache,
    cpu,
    cpu_limits,
    engine_arguments,
    gpu_amd,
    gpu_nvidia,
    inspection_cache,
    kernel_caches,
    load,
    memory,
    model,
    node,
    page_cache,
    storage,
    tokenizer,
    versions,
)
from agent.probes.base import Context, Found, NoData
from agent.probes.command_line import EngineArguments, parse_command, read_config
from agent.probes.model_files import ModelFiles, find_model_files

__all__ = ["Facts", "probe_all"]

logger = logging.getLogger(__name__)
Result = TypeVar("Result")

# In this order; where two find the same field, the later one's counts. The page cache comes before all that reads files
# of the model, and the load last, so that the probes' own work is over when it looks.
_PROBES: dict[str, Callable[[Context], Found]] = {
    "page_cache": page_cache.probe,
    "node": node.probe,
    "gpu_amd": gpu_amd.probe,
    "gpu_nvidia": gpu_nvidia.probe,
    "cpu": cpu.probe,
    "cpu_limits": cpu_limits.probe,
    "memory": memory.probe,
    "storage": storage.probe,
    "versions": versions.probe,
    "model": model.probe,
    "tokenizer": tokenizer.probe,
    "engine_arguments": engine_arguments.probe,
    "compile_cache": compile_cache.probe,
    "inspection_cache": inspection_cache.probe,
    "kernel_caches": kernel_caches.probe,
    "load": load.probe,
}


@dataclass
class Facts:
    """What all probes found: the spec by section, raw facts by probe, and of each probe its seconds and success."""

    spec: dict[str, dict[str, Any]] = field(default_factory=dict)
    facts: dict[str, Any] = field(default_factory=dict)
    probes: dict[str, dict[str, Any]] = field(default_factory=dict)


def probe_all(
    command: Sequence[str],
    environment: Mapping[str, str],
    *,
    root: Path = Path("/"),
    pause: Callable[[float], None] = time.sleep,
) -> Facts:
    """Read the facts of this machine and of the engine that ``command`` will start. Never raises.

    To be called before the start: afterwards the engine itself fills the caches whose state is asked for.
    """
    facts = Facts()
    arguments = _timed(facts, "command_line", EngineArguments(), lambda: parse_command(command, environment))
    arguments = _timed(facts, "config_file", arguments, lambda: read_config(arguments))
    files = _timed(facts, "model_files", ModelFiles(), lambda: find_model_files(arguments, environment))
    context = Context(root, tuple(command), environment, arguments, files, pause)
    for name, probe in _PROBES.items():
        _add(facts, name, _timed(facts, name, Found(), partial(probe, context)))
    return facts


def _timed(facts: Facts, name: str, without: Result, read: Callable[[], Result]) -> Result:
    """Return what ``read`` gives, or ``without`` where it fails; record seconds, success and the error."""
    started, error = time.perf_counter(), None
    try:
        return read()
    except NoData as reason:
        error = f"no data: {reason}"
        logger.debug("probe_no_data probe=%s", name)
    except Exception as reason:
        error = f"{type(reason).__name__}: {reason}"
        logger.info("probe_failed probe=%s error=%s", name, type(reason).__name__)
    finally:
        seconds = round(time.perf_counter() - started, 6)
        facts.probes[name] = {"seconds": seconds, "success": error is None, "error": error}
    return without


def _add(facts: Facts, name: str, found: Found) -> None:
    for section, fields in found.spec.items():
        facts.spec.setdefault(section, {}).update(fields)
    if known := {fact: value for fact, value in found.facts.items() if value is not None}:
        facts.facts[name] = known
