"""From a spec and the facts of its model to a case: engine rules and cache states turned into numbers. Pure."""

import math
from dataclasses import replace

from app.prediction.case import TENSORIZER, Case, HardwareKey
from app.prediction.engine_rules import (
    DEFAULT_BATCHED_TOKENS,
    builds_kernels,
    capture_sizes,
    graphs_captured,
    has_second_runner,
)
from app.prediction.imputation import Facts
from app.prediction.model_bytes import active_bytes, loaded_bytes, page_locked_bytes
from app.prediction.spec_facts import is_compiled, states_of
from app.schemas.spec import ModelRunner, Spec

__all__ = ["case_of", "with_states"]

REDUCTION_BLOCK = 4096
STANDARD_FORMATS = frozenset(("auto", "safetensors", "hf", "pt"))


def case_of(
    spec: Spec, facts: Facts, model: str, key: HardwareKey, version: tuple[int, ...], assumed: list[str]
) -> Case:
    """Return the case of a spec whose model has these ``facts``, on the hardware ``key``, in the spec's own states."""
    engine = spec.engine
    tensor_parallel = engine.tensor_parallel_size or 1
    compiled = is_compiled(engine)
    usual = len(capture_sizes(version, engine.max_num_seqs, engine.max_num_batched_tokens))
    sizes = usual if engine.num_cudagraph_sizes is None else engine.num_cudagraph_sizes
    graphs = engine.num_cudagraphs
    if graphs is None:
        graphs = graphs_captured(version, sizes, engine.max_num_seqs, engine.optimization_level)
    load_format = (engine.load_format or "auto").lower()
    case = Case(
        model=model,
        hardware=key,
        loading=key,
        own=True,
        weight_bytes=loaded_bytes(facts),
        layers=float(facts["num_layers"]),
        attention_layers=float(facts["num_attention_layers"]),
        mamba_layers=float(facts["num_mamba_layers"]),
        moe_layers=float(min(facts.get("num_moe_layers") or 0, facts["num_layers"])),
        experts=float(facts.get("num_experts") or 0),
        tokenizer_bytes=float(facts["tokenizer_bytes"]),
        graph_bytes=float(facts["compiled_graph_bytes"]),
        quantization=facts["quantization"] or "",
        architecture=facts.get("architecture") or "",
        version=version,
        ranks=float(tensor_parallel * (engine.pipeline_parallel_size or 1)),
        tensor_parallel=float(tensor_parallel),
        compiled=compiled,
        captured=not engine.enforce_eager and graphs > 0,
        capture_sizes=float(sizes),
        graphs=float(graphs),
        batched_tokens=float(engine.max_num_batched_tokens or DEFAULT_BATCHED_TOKENS),
        load_format="auto" if load_format in STANDARD_FORMATS else load_format,
        weights="",
        compile="",
        inspection="",
        kernels="",
        second_runner=_second_runner(spec, facts, version),
        disk_share=0.0,
        network_share=0.0,
        page_share=1.0,
        cold_share=0.0,
        inspection_share=1.0,
        kernel_share=0.0,
        further_kernel_share=0.0,
        busy=spec.hardware.cpu_busy_fraction or 0.0,
        quota=spec.hardware.cpu_quota_cores or 0.0,
        asked_sizes=sizes != usual,
        active_bytes=active_bytes(facts),
        page_locked_bytes=page_locked_bytes(facts, tensor_parallel) if load_format == TENSORIZER else 0.0,
        further_blocks=float(max(0, math.ceil((facts.get("hidden_size") or 0) / REDUCTION_BLOCK) - 1)),
        assumed=assumed,
    )
    return with_states(case, states_of(spec), spec.cache.weights_cached_fraction)


def _second_runner(spec: Spec, facts: Facts, version: tuple[int, ...]) -> bool:
    if spec.engine.model_runner is not None:
        return spec.engine.model_runner is ModelRunner.V2
    dense = not facts.get("num_experts") and not facts["num_mamba_layers"]
    return has_second_runner(version, facts.get("architecture") or "", dense=dense)


def with_states(case: Case, states: tuple[str, ...], cached_fraction: float | None = None) -> Case:
    """Return the case with the states of weights, compile, inspection and kernel cache filled in."""
    weights, compile_cache, inspection, kernels = states
    if case.compiled and compile_cache in ("cold", "disabled"):
        kernels = "cold"  # A new compile cache brings a kernel cache of its own.
    if not builds_kernels(case.version):
        kernels = ""
    inspected_always = case.version < (0, 11)  # The model-inspection cache came with 0.11.
    uncached = 1.0 - (cached_fraction or 0.0)
    return replace(
        case,
        weights=weights,
        compile=compile_cache if case.compiled else "off",
        inspection="always" if inspected_always else inspection,
        kernels=kernels,
        disk_share={"disk": uncached, "unknown": 0.5}.get(weights, 0.0),
        network_share=uncached if weights == "network" else 0.0,
        page_share=0.0 if weights == "gpu" or case.load_format == "dummy" else 1.0,
        cold_share={"cold": 1.0, "disabled": 1.0, "unknown": 0.5}.get(compile_cache, 0.0),
        inspection_share=1.0 if inspected_always else {"warm": 0.0, "unknown": 0.5}.get(inspection, 1.0),
        kernel_share={"cold": 1.0, "unknown": 0.5}.get(kernels, 0.0),
        further_kernel_share=float(kernels == "partial"),
    )
