"""What the hook reads in passing: facts of the process, of resolved configurations and results, and log records."""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Callable
from typing import Any

from coldcast_points import LOG_LINES, READY_LINE


def clock() -> float:
    """Return the seconds since boot, on the clock that every process of a machine shares."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def process_event(now: float, forked: bool, late: bool = False) -> dict[str, Any]:
    """Return the event that opens a process's file: who it is, and when it was started.

    A forked child starts now. Field 22 of /proc/self/stat is in ticks of 10 ms since boot; where a sandbox or a time
    namespace makes nonsense of it, the process counts from its arming.
    """
    started = now
    if not forked:
        try:
            with open("/proc/self/stat", "rb") as stat:
                ticks = int(stat.read().rpartition(b")")[2].split()[19])
            read = ticks / os.sysconf("SC_CLK_TCK")
            if late or now - 60.0 <= read <= now:
                started = read
        except (OSError, ValueError, IndexError):
            started = now
    command = list(getattr(sys, "orig_argv", sys.argv))
    return {
        "event": "process",
        "pid": os.getpid(),
        "parent": os.getppid(),
        "command": [argument[:200] for argument in command[:8]],
        "forked": forked,
        "late": late,
        "ray": any("ray::" in argument or "default_worker.py" in argument for argument in command),
        "from": started,
        "at": now,
    }


def watch_logs(recorder: Any) -> None:
    """Record the log lines that carry durations, unrounded, and errors; retire when the server says it is up."""
    import logging

    previous = logging.getLogRecordFactory()
    wanted = re.compile(LOG_LINES)

    def look(record: logging.LogRecord) -> None:
        if record.levelno >= logging.ERROR:
            recorder.write({"event": "error", "at": clock(), "logger": record.name, "text": _error_text(record)})
        elif isinstance(record.msg, str) and wanted.match(record.msg):
            args = record.args if isinstance(record.args, tuple) else ()
            recorder.write({"event": "log", "at": clock(), "format": record.msg, "args": [_plain(arg) for arg in args]})

    guarded = recorder.guarded(look)

    def factory(*args: Any, **kwargs: Any) -> logging.LogRecord:
        record = previous(*args, **kwargs)
        if recorder.active:
            if record.name.startswith("vllm"):
                guarded(record)
            elif record.name == "uvicorn.error" and record.msg == READY_LINE:
                recorder.guarded(recorder.retire)()
        return record

    def restore() -> None:
        if logging.getLogRecordFactory() is factory:
            logging.setLogRecordFactory(previous)

    logging.setLogRecordFactory(factory)
    recorder.on_retire(restore)


def watch_death(recorder: Any) -> None:
    """Record the exception that ends the process, before it is printed as ever."""
    previous = sys.excepthook
    write = recorder.guarded(recorder.write)

    def record(kind: type[BaseException], error: BaseException, trace: Any) -> None:
        write({"event": "error", "at": clock(), "logger": "", "text": f"{kind.__name__}: {error}"[:2000]})
        previous(kind, error, trace)

    def restore() -> None:
        if sys.excepthook is record:
            sys.excepthook = previous

    sys.excepthook = record
    recorder.on_retire(restore)


def _error_text(record: Any) -> str:
    text = record.getMessage()
    if record.exc_info and record.exc_info[1] is not None:
        error = record.exc_info[1]
        text += f" {type(error).__name__}: {error}"
    return str(text)[:2000]


def _plain(value: Any) -> Any:
    return value if isinstance(value, (int, float)) else str(value)[:200]


def note(name: str, args: Any, result: Any) -> dict[str, Any]:
    """Return what the end of event ``name`` tells beyond its time; what this vLLM does not have is left out."""
    reader = _READERS.get(name)
    return {} if reader is None else {key: value for key, value in reader(args, result).items() if value is not None}


def _get(value: Any, path: str) -> Any:
    """Return the attribute at a dotted ``path`` as plain JSON, or None where there is none."""
    for attribute in path.split("."):
        value = getattr(value, attribute, None)
    if value is None or isinstance(value, (bool, int, float)):
        return value
    if isinstance(value, (list, tuple)):
        return list(value)
    return str(getattr(value, "name", value))


_CONFIG = {
    "model": "model_config.model",
    "served_name": "model_config.served_model_name",
    "dtype": "model_config.dtype",
    "quantization": "model_config.quantization",
    "revision": "model_config.revision",
    "max_model_len": "model_config.max_model_len",
    "enforce_eager": "model_config.enforce_eager",
    "max_num_seqs": "scheduler_config.max_num_seqs",
    "max_num_batched_tokens": "scheduler_config.max_num_batched_tokens",
    "tensor_parallel_size": "parallel_config.tensor_parallel_size",
    "pipeline_parallel_size": "parallel_config.pipeline_parallel_size",
    "data_parallel_size": "parallel_config.data_parallel_size",
    "executor": "parallel_config.distributed_executor_backend",
    "load_format": "load_config.load_format",
    "optimization_level": "optimization_level",
    "compilation_mode": "compilation_config.mode",
    "compilation_level": "compilation_config.level",
    "cudagraph_mode": "compilation_config.cudagraph_mode",
    "cudagraph_sizes": "compilation_config.cudagraph_capture_sizes",
}


def _of_config(_args: Any, config: Any) -> dict[str, Any]:
    facts = {name: _get(config, path) for name, path in _CONFIG.items()}
    facts["version"] = getattr(sys.modules.get("vllm"), "__version__", None)
    facts["compile_cache_disabled"] = os.environ.get("VLLM_DISABLE_COMPILE_CACHE", "0") not in ("", "0")
    return facts


def _of_worker(args: Any, _result: Any) -> dict[str, Any]:
    wrapper = args[0]
    rank = getattr(wrapper, "global_rank", None)
    return {"rank": getattr(wrapper, "rpc_rank", None) if rank is None else rank}


def _of_runner(args: Any, _result: Any) -> dict[str, Any]:
    module = type(getattr(args[0], "model_runner", None)).__module__
    return {"runner": "v2" if module.endswith((".gpu.model_runner", ".cpu.model_runner")) else "v1"}


def _of_compile(args: Any, _result: Any) -> dict[str, Any]:
    """Inductor's own count of what it found in its cache; also whether the block holds the first run too."""
    message = next((argument for argument in args if isinstance(argument, str)), "")
    utils = sys.modules.get("torch._dynamo.utils")
    inductor = utils.counters["inductor"] if utils is not None and hasattr(utils, "counters") else {}
    return {
        "with_run": "run together" in message,
        "inductor_hits": inductor.get("fxgraph_cache_hit", 0),
        "inductor_misses": inductor.get("fxgraph_cache_miss", 0),
    }


def _of_capture(_args: Any, result: Any) -> dict[str, Any]:
    module = sys.modules.get("vllm.compilation.counter")
    captured = getattr(getattr(module, "compilation_counter", None), "num_cudagraph_captured", None)
    return {"graphs": captured or None, "graph_bytes": result if isinstance(result, int) else None}


def _of_warm_up(args: Any, _result: Any) -> dict[str, Any]:
    return {"cudagraph_sizes": _get(args[0], "vllm_config.compilation_config.cudagraph_capture_sizes")}


def _of_lookup(_args: Any, result: Any) -> dict[str, Any]:
    return {"hit": result is not None}


_READERS: dict[str, Callable[[Any, Any], dict[str, Any]]] = {
    "engine_config": _of_config,
    "worker_init": _of_worker,
    "model_loading": _of_runner,
    "compile": _of_compile,
    "backend": _of_compile,
    "graph_capture": _of_capture,
    "warm_up": _of_warm_up,
    "graph_lookup": _of_lookup,
    "aot_load": _of_lookup,
}
