"""The lines that tell how a startup goes: what vLLM 0.3 to 0.33 prints, and what each number on a line is.

A named group is a quantity. Those named as a part of ``app.stages`` are that part's seconds; the others are kept under
``engine_said``, by their name. File names and line numbers move with every release and are not matched.
"""

import re
from collections.abc import Iterator
from enum import Enum, auto
from typing import NamedTuple

__all__ = ["EVENTS", "Event", "Keep", "find_events"]

_N = r"\d{1,8}(?:\.\d{1,9})?"
_AUTOTUNE = r"Autotun(?:ing|e) process"


class Keep(Enum):
    """Which of several values that one process prints for a quantity counts."""

    FIRST = auto()
    LAST = auto()
    SUM = auto()


class Event(NamedTuple):
    """One kind of line. ``literal`` stands in every such line, so that other lines are passed over cheaply."""

    name: str
    literal: str
    pattern: re.Pattern[str]
    keep: Keep


def _event(name: str, literal: str, pattern: str | None = None, keep: Keep = Keep.LAST) -> Event:
    return Event(name, literal, re.compile(pattern or re.escape(literal)), keep)


EVENTS: tuple[Event, ...] = (
    # The start.
    _event("engine_init", " LLM engine ", r"Initializing an? (?:V\d )?LLM engine "),
    _event("args", "non-default args:"),
    _event("tokenizer", "okenizer took ", rf"Init(?:ializing)? [Tt]okenizer took (?P<tokenizer_init>{_N}) s"),
    # Loading. A drafter's weights are printed after the model's; the first ones of a process are the model's.
    _event("load_start", "Starting to load model "),
    _event("load_start", "Loading model from scratch"),
    _event("drafter", "Loading drafter model"),
    _event("download", "downloading weights", rf"downloading weights for .{{1,300}}: (?P<download_s>{_N}) s"),
    _event("prefetch", "page cache finished", rf"page cache finished in (?P<prefetch_s>{_N})s"),
    _event("model_init", "odel took ", rf"Initializing [Mm]odel took (?P<model_init>{_N}) s", Keep.FIRST),
    _event("weights", "Loading weights took ", rf"Loading weights took (?P<weight_loading>{_N}) s", Keep.FIRST),
    _event("deserialized", "Deserialized ", rf"Deserialized {_N} \wB in (?P<deserialize_s>{_N})s"),
    _event(
        "loaded",
        "Model loading took ",
        rf"Model loading took (?P<model_memory_gib>{_N}) Gi?B(?: memory)? and (?P<model_loading_s>{_N}) s",
    ),
    _event("loaded", "model weights took ", rf"Loading model weights took (?P<model_memory_gib>{_N}) Gi?B"),
    # torch.compile. A drafter compiles too, and so does each range of sizes: the seconds of one process add up.
    _event("compile_start", "Starting torch.compile"),
    _event("compile_start", "Start compiling function"),
    _event("compile_start", " for vLLM's torch.compile", r"Using cache directory: .* for vLLM's torch\.compile"),
    _event("cache_off", "torch.compile cache is disabled"),
    _event("dynamo", "transform time: ", rf"bytecode transform time: (?P<dynamo_transform>{_N}) s", Keep.SUM),
    _event("cache_filled", "Cache the graph"),
    _event("compiled", "Compiling a ", rf"Compiling a graph for .{{1,80}}? takes (?P<graph_compile>{_N}) s", Keep.SUM),
    _event(
        "graph_loaded",
        "Directly load the compiled graph",
        rf"Directly load the compiled graph.{{1,80}}? from the cache(?:, took (?P<graph_load>{_N}) s)?",
        Keep.SUM,
    ),
    _event("aot_loaded", "Directly load AOT compilation"),
    _event(
        "compile_end",
        " in total",
        rf"torch\.compile (?:took|takes) (?P<torch_compile_total_s>{_N}) s in total",
        Keep.SUM,
    ),
    # Profiling and the KV cache.
    _event("warmup_run", "warmup run took ", rf"profiling/warmup run took (?P<warmup_run_s>{_N}) s", Keep.SUM),
    _event(
        "compile_and_run",
        "warmup run together",
        rf"profiling/warmup run together took (?P<compile_and_warmup_run_s>{_N}) s",
        Keep.SUM,
    ),
    _event("profiled", "rofiling takes ", rf"Memory profiling takes (?P<memory_profiling_s>{_N}) s"),
    _event("kv_available", "KV cache memory", rf"Available KV cache memory: (?P<kv_available_gib>-?{_N}) GiB"),
    _event("kv_available", "vailable memory: ", r"Available memory: \d+, total memory: \d+"),
    _event("kv_available", " GPU blocks: ", r"# (?:GPU|cuda) blocks: \d+"),
    _event("kv_available", "# cuda blocks: "),
    _event("kv_skipped", "skipped memory profiling"),
    _event("kv_sized", "KV cache size: ", r"KV cache size: [\d,]+ tokens"),
    _event("autotune_start", "process starts", rf"{_AUTOTUNE} starts"),
    _event("autotune_end", "process ends", rf"{_AUTOTUNE} ends"),
    # Graph capture. Where the memory estimate prints this line too, it prints it first.
    _event("capture_start", "Capturing ", r"Capturing (?:the model for CUDA graphs|CUDA graph|cudagraphs|a cudagraph)"),
    _event(
        "captured",
        "Graph capturing finished",
        rf"Graph capturing finished in (?P<cuda_graph_capture>{_N}) secs?"
        rf"(?:, took (?P<graph_capture_gib>-?{_N}) GiB)?",
    ),
    # The engine and the server.
    _event(
        "engine_ready",
        "init engine (",
        rf"init engine \([^)]*\) took (?P<init_engine_s>{_N}) s(?:econds)?"
        rf"(?: \(compilation: (?P<init_engine_compilation_s>{_N}) s)?",
    ),
    _event("tasks", "upported", r"Supported[ _]tasks: "),
    _event("mm_warmup", "warmup completed in", rf"Multi-modal warmup completed in (?P<mm_warmup_s>{_N})s"),
    _event("server_start", "Starting vLLM ", r"Starting vLLM (?:API )?server"),
    _event("compile_off", "<CompilationMode.NONE"),
    _event("capture_off", "<CUDAGraphMode.NONE"),
    # The end. A served request proves it where the ready line was lost.
    _event("ready", "Application startup complete"),
    _event("served", "Avg prompt throughput: "),
    _event("served", ' HTTP/1.1" 200'),
    # Hangs and failures. What is no failure by itself becomes one if nothing follows it.
    _event("waiting", "No available shared memory broadcast block"),
    _event("failed", "EngineCore failed to start"),
    _event("failed", "EngineCore hit an exception"),
    _event("failed", "WorkerProc hit an exception"),
    _event("failed", "Engine core initialization failed"),
    _event("failed", "WorkerProc initialization failed"),
    _event("failed", " died ", r"Worker proc \S+ died unexpectedly|Process \w+ \(PID: \d+\) died with exit code"),
    _event("frame", "/vllm/", r"File \"[^\"]*/vllm/[^\"]*\.py\", line \d"),
    _event("failed", ": error: ", r"\bvllm(?: \w+)?: error: "),
    _event("trouble", "Traceback (most recent call last)"),
    _event("trouble", "Killed", r"(?:^|\s)Killed\b"),
    _event("trouble", "(core dumped)"),
    _event("trouble", " received", r"\*{3} SIG[A-Z]+ received"),
    _event("trouble", "HW Exception by GPU"),
    _event("trouble", "Segmentation fault"),
    _event("trouble", "Fatal Python error"),
    _event("trouble", "OOMKilled"),
)


def find_events(text: str) -> Iterator[tuple[Event, re.Match[str]]]:
    """Yield what a line tells. It may be several things: writers share a line where one of them lost its line end."""
    for event in EVENTS:
        if event.literal in text and (match := event.pattern.search(text)):
            yield event, match
