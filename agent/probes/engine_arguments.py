"""Probe: the engine's arguments as fields of the spec."""

import math
import re
from collections.abc import Mapping
from typing import Any

from agent.probes.base import Context, Found
from agent.probes.command_line import EngineArguments

__all__ = ["engine_spec", "gpu_count", "probe"]

_SCALE = {"k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}
_SAME = {"half": "float16", "float": "float32"}
_WHOLE = ("tensor_parallel_size", "pipeline_parallel_size", "max_num_seqs", "max_num_batched_tokens", "max_model_len")


def probe(context: Context) -> Found:
    """Read the command line that starts the engine."""
    arguments = context.arguments
    engine = engine_spec(arguments)
    if runner := {"0": "v1", "1": "v2"}.get(context.environment.get("VLLM_USE_V2_MODEL_RUNNER", "")):
        engine["model_runner"] = runner
    named = {name: _named(arguments.options.get(name)) for name in ("dtype", "quantization", "revision")}
    model = {name: value for name, value in named.items() if value}
    # Which options were given tells kinds of startups apart later; their values may be secrets and stay here.
    facts = {"options": sorted(name for name in arguments.options if re.fullmatch(r"\w{1,64}", name))}
    return Found({"engine": engine, "model": model, "hardware": {"gpu_count": gpu_count(arguments)}}, facts)


def engine_spec(arguments: EngineArguments) -> dict[str, Any]:
    """Return the engine's fields that ``arguments`` give; a malformed one is left out: the engine will refuse it."""
    options = arguments.options
    spec: dict[str, Any] = {name: whole for name in _WHOLE if (whole := _whole(options.get(name))) is not None}
    compilation = options.get("compilation_config")
    level = compilation if not isinstance(compilation, dict) else compilation.get("level")
    if (level := _whole(options.get("optimization_level", level), least=0)) is not None and level <= 3:
        spec["optimization_level"] = level
    if (eager := options.get("enforce_eager")) is not None:
        spec["enforce_eager"] = str(eager).lower() in ("true", "1")
    if load_format := _named(options.get("load_format")):
        spec["load_format"] = load_format
    if (sizes := _capture_sizes(options)) is not None:
        spec["num_cudagraph_sizes"] = sizes
    return spec


def gpu_count(arguments: EngineArguments) -> int:
    """Return the GPUs of this node that an engine with ``arguments`` uses."""
    local = arguments.options.get("data_parallel_size_local", arguments.options.get("data_parallel_size"))
    sizes = (arguments.options.get("tensor_parallel_size"), arguments.options.get("pipeline_parallel_size"), local)
    return min(1024, math.prod(_whole(size) or 1 for size in sizes))


def _capture_sizes(options: Mapping[str, Any]) -> int | None:
    """Return how many batch sizes are captured, where they are listed; the version's rule decides otherwise."""
    compilation = options.get("compilation_config")
    listed = compilation.get("cudagraph_capture_sizes") if isinstance(compilation, dict) else None
    listed = options.get("cudagraph_capture_sizes", listed)
    if listed is None and isinstance(old := options.get("cuda_graph_sizes"), list) and len(old) > 1:
        listed = old  # One number is an upper bound there, several are the list itself.
    return len(set(map(str, listed))) if isinstance(listed, list) else None


def _whole(value: Any, *, least: int = 1) -> int | None:
    """Read a whole number as vLLM does: 4096, 4k (4000), 4K (4096), 1.5k."""
    match = re.fullmatch(r"(\d{1,12}(?:\.\d{1,6})?)([kmgtKMGT]?)", str(value).strip(), re.ASCII)
    if isinstance(value, bool) or not match:
        return None
    number = float(match[1]) * _SCALE.get(match[2], 1)
    return int(number) if number == int(number) and least <= number <= 10**8 else None


def _named(value: Any) -> str | None:
    """Return a short plain word; ``auto`` and ``none`` say nothing."""
    if not isinstance(value, str) or not re.fullmatch(r"[\w.+-]{1,64}", value, re.ASCII):
        return None
    return None if value.lower() in ("auto", "none") else _SAME.get(value, value)
