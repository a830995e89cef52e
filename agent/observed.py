"""What a startup showed besides its seconds: which parts were observed at all, caches, resolved arguments. Pure."""

from collections.abc import Iterable, Mapping
from typing import Any

from agent.critical_path import Chain
from agent.spans import Process, Span
from app.stages import PARTS_OF, Part, Stage

__all__ = ["cache_state", "engine_facts", "observed_parts", "other_facts"]

_ENGINE_FIELDS = (
    "version",
    "tensor_parallel_size",
    "pipeline_parallel_size",
    "enforce_eager",
    "load_format",
    "max_num_seqs",
    "max_num_batched_tokens",
    "max_model_len",
)
_RESOLVED = (
    "dtype",
    "quantization",
    "data_parallel_size",
    "executor",
    "compilation_mode",
    "cudagraph_mode",
    "startup_plan",
)
_LOADING = (Part.WEIGHT_LOADING, Part.MODEL_INIT)


def observed_parts(chain: Chain, seconds: Mapping[Part, float]) -> dict[Part, float]:
    """Return the parts of the six stages that were observed; 0.0 for what was watched and did not happen.

    Where weights came in by a loader that the hook does not know, they cannot be told from the rest of the loading:
    only that stage's post-processing is observed, and the stage as a whole.
    """
    observed = {}
    for stage in _observed_stages(chain):
        for part in PARTS_OF[stage]:
            observed[part] = seconds.get(part, 0.0)
    if Part.WEIGHT_LOADING in observed and Part.WEIGHT_LOADING not in seconds:
        for part in _LOADING:
            del observed[part]
    return observed


def _observed_stages(chain: Chain) -> list[Stage]:
    ended = {span.name for process in chain.processes for span in process.spans if span.end is not None}
    wrapped = {event for process in chain.processes for event in process.wrapped}
    stages = []
    if "engine_config" in ended:
        stages.append(Stage.FRAMEWORK_BOOTSTRAP)
        if "tokenizer" in wrapped and ended & {"tokenizer", "front_end", "engine_init"}:
            stages.append(Stage.TOKENIZER_INIT)
    if "model_loading" in ended:
        stages.append(Stage.MODEL_LOADING)
    if "warm_up" in ended:
        stages += [Stage.TORCH_COMPILE, Stage.KV_CACHE_PROFILING]
        if "graph_capture" in wrapped:
            stages.append(Stage.CUDA_GRAPH_CAPTURE)
    return stages


def engine_facts(chain: Chain) -> dict[str, Any]:
    """Return the engine arguments as resolved, named as in a spec."""
    config = _note(chain, "engine_config")
    facts = {name: config[name] for name in _ENGINE_FIELDS if name in config}
    if isinstance(level := config.get("optimization_level"), int):
        facts["optimization_level"] = level
    elif str(level).startswith("O") and str(level)[1:].isdigit():
        facts["optimization_level"] = int(str(level)[1:])
    sizes = _note(chain, "warm_up").get("cudagraph_sizes", config.get("cudagraph_sizes"))
    if isinstance(sizes, list):
        facts["num_cudagraph_sizes"] = len(sizes)
    if runner := _note(chain, "model_loading").get("runner"):
        facts["model_runner"] = runner
    return facts


def cache_state(chain: Chain) -> dict[str, str]:
    """Return the state of the compile cache and of the model-inspection cache, where the startup showed it."""
    state = {}
    spans = [span for process in chain.processes for span in process.spans]
    if compile_state := _compile_state(spans, _note(chain, "engine_config")):
        state["compile"] = compile_state
    if any(span.name == "inspection_subprocess" for span in spans):
        state["model_inspection"] = "cold"
    elif any(span.name == "model_inspection" for span in spans):
        state["model_inspection"] = "warm"
    return state


def _compile_state(spans: Iterable[Span], config: Mapping[str, Any]) -> str | None:
    compiled = [span for span in spans if span.name in ("compile", "compile_start", "backend", "aot_load", "inductor")]
    if not compiled:
        return None
    if config.get("compile_cache_disabled"):
        return "disabled"
    if any(span.name == "aot_load" and span.note.get("hit") for span in compiled):
        return "warm"
    lookups = [span.note.get("hit") for span in spans if span.name == "graph_lookup"]
    return "warm" if lookups and all(lookups) else "cold"


def other_facts(chain: Chain, processes: Iterable[Process]) -> dict[str, Any]:
    """Return what is worth keeping beside the spec: detail of the stages, and the model as the engine resolved it."""
    config = _note(chain, "engine_config")
    facts: dict[str, Any] = {
        "resolved": {name: config[name] for name in _RESOLVED if name in config},
        "ranks": len(chain.workers) or None,
        "engine_tokenizer_seconds": _total(chain, "engine_tokenizer"),
        "cudagraph_estimate_seconds": _total(chain, "graph_estimate"),
        # Each piece of a model that is captured piecewise counts here, so this is not the spec's num_cudagraphs.
        "cudagraph_pieces": _note(chain, "graph_capture").get("graphs"),
        "rank_loading_seconds": [round(_sum(worker, "model_loading"), 3) for worker in chain.workers],
        "import_seconds": _import_seconds(chain),
        "upstream_spans": _upstream(processes),
    }
    return {name: value for name, value in facts.items() if value}


def _import_seconds(chain: Chain) -> dict[str, float]:
    front = [span for process in chain.front_ends[:1] for span in (*process.imports, *process.inner_imports)]
    return {span.where: round(span.seconds, 3) for span in front if span.where in ("torch", "transformers", "vllm")}


def _upstream(processes: Iterable[Process]) -> dict[str, float]:
    """Return the longest span of each of upstream's own names: with several ranks, the slowest."""
    longest: dict[str, float] = {}
    for process in processes:
        for span in process.named("upstream"):
            longest[span.where] = max(longest.get(span.where, 0.0), round(span.seconds, 3))
    return longest


def _total(chain: Chain, name: str) -> float | None:
    return round(max((_sum(process, name) for process in chain.processes), default=0.0), 3) or None


def _sum(process: Process, name: str) -> float:
    return sum(span.seconds for span in process.named(name))


def _note(chain: Chain, name: str) -> Mapping[str, Any]:
    """Return the note of the last span of this name that has one, from the outside in."""
    notes = [span.note for process in chain.processes for span in process.named(name) if span.note]
    return notes[-1] if notes else {}
