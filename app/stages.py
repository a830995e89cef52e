"""The stages of a startup and the parts they are made of: one vocabulary for tables, wire, agent and code."""

from collections.abc import Mapping
from enum import StrEnum

__all__ = ["PARTS_OF", "SIX_STAGES", "STAGES", "Part", "Stage", "observed_stages", "stage_of"]


class Stage(StrEnum):
    """One of the six parts of a startup that the paper names, or ``other``. The seven sum to the total."""

    FRAMEWORK_BOOTSTRAP = "framework_bootstrap"
    TOKENIZER_INIT = "tokenizer_init"
    MODEL_LOADING = "model_loading"
    TORCH_COMPILE = "torch_compile"
    KV_CACHE_PROFILING = "kv_cache_profiling"
    CUDA_GRAPH_CAPTURE = "cuda_graph_capture"
    OTHER = "other"


class Part(StrEnum):
    """A finer piece of a stage, fitted by its own linear model."""

    IMPORTS = "imports"
    PLATFORM_DETECTION = "platform_detection"
    MODEL_INSPECTION = "model_inspection"
    WORKER_INIT = "worker_init"
    TOKENIZER_INIT = "tokenizer_init"
    MODEL_INIT = "model_init"
    WEIGHT_LOADING = "weight_loading"
    WEIGHT_POSTPROCESS = "weight_postprocess"
    DYNAMO_TRANSFORM = "dynamo_transform"
    GRAPH_COMPILE = "graph_compile"
    GRAPH_LOAD = "graph_load"
    KV_CACHE_PROFILING = "kv_cache_profiling"
    CUDA_GRAPH_CAPTURE = "cuda_graph_capture"
    KV_CACHE_ALLOCATION = "kv_cache_allocation"
    KERNEL_WARMUP = "kernel_warmup"
    SERVER_START = "server_start"
    UNACCOUNTED = "unaccounted"


PARTS_OF: dict[Stage, tuple[Part, ...]] = {
    Stage.FRAMEWORK_BOOTSTRAP: (Part.IMPORTS, Part.PLATFORM_DETECTION, Part.MODEL_INSPECTION, Part.WORKER_INIT),
    Stage.TOKENIZER_INIT: (Part.TOKENIZER_INIT,),
    Stage.MODEL_LOADING: (Part.MODEL_INIT, Part.WEIGHT_LOADING, Part.WEIGHT_POSTPROCESS),
    Stage.TORCH_COMPILE: (Part.DYNAMO_TRANSFORM, Part.GRAPH_COMPILE, Part.GRAPH_LOAD),
    Stage.KV_CACHE_PROFILING: (Part.KV_CACHE_PROFILING,),
    Stage.CUDA_GRAPH_CAPTURE: (Part.CUDA_GRAPH_CAPTURE,),
    Stage.OTHER: (Part.KV_CACHE_ALLOCATION, Part.KERNEL_WARMUP, Part.SERVER_START, Part.UNACCOUNTED),
}

STAGES: tuple[Stage, ...] = tuple(Stage)
SIX_STAGES: tuple[Stage, ...] = tuple(stage for stage in Stage if stage is not Stage.OTHER)

_STAGE_OF = {part: stage for stage, parts in PARTS_OF.items() for part in parts}


def observed_stages(stages: Mapping[str, float | None], total_seconds: float) -> dict[Stage, float]:
    """Return the seconds of the observed ones of the six stages, and of ``other`` where all six were observed."""
    six = {stage: seconds for stage in SIX_STAGES if (seconds := stages.get(stage)) is not None}
    if len(six) == len(SIX_STAGES):
        six[Stage.OTHER] = max(0.0, total_seconds - sum(six.values()))
    return six


def stage_of(part: Part) -> Stage:
    """Return the stage that ``part`` belongs to."""
    return _STAGE_OF[part]
