"""Features: what each part's seconds are a sum of. Every feature is a quantity that is known before a startup.

``prior`` is the seconds per unit before any measurement, in round numbers from the paper's node n1 (EPYC 9354, H100
NVL, vLLM 0.10.1.1), those of kernels and of tensorizer from own H200s (docs/h200.md); the data move it (see
Recipe.coefficient_deviation).
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from app.prediction.case import TENSORIZER, Case
from app.prediction.engine_rules import DEFAULT_BATCHED_TOKENS
from app.stages import Part

__all__ = ["FEATURES", "Feature", "Kind", "design", "kind_of", "priors", "values"]


@dataclass(frozen=True, slots=True)
class Feature:
    """One term of a part's linear model."""

    name: str
    prior: float
    """Seconds per unit, before any measurement."""
    value: Callable[[Case], float]
    is_bytes: bool = False
    """Whether 1 / coefficient is a bandwidth."""


Kind = str
_GPU_PARTS = frozenset((Part.KV_CACHE_PROFILING, Part.CUDA_GRAPH_CAPTURE, Part.KV_CACHE_ALLOCATION, Part.KERNEL_WARMUP))


def kind_of(part: Part) -> Kind:
    """Return what bounds a part: ``loading``, ``gpu`` or ``cpu``; parts of a kind share a hardware factor."""
    if part is Part.WEIGHT_LOADING:
        return "loading"
    return "gpu" if part in _GPU_PARTS else "cpu"


def _one(_: Case) -> float:
    return 1.0


def _compiled(value: Callable[[Case], float]) -> Callable[[Case], float]:
    return lambda case: value(case) if case.compiled else 0.0


def _cold(value: Callable[[Case], float]) -> Callable[[Case], float]:
    return lambda case: value(case) * case.cold_share if case.compiled else 0.0


def _warm(value: Callable[[Case], float]) -> Callable[[Case], float]:
    return lambda case: value(case) * (1.0 - case.cold_share) if case.compiled else 0.0


def _read(*, tensorized: bool) -> Callable[[Case], float]:
    """The bytes that pass through memory; tensorizer's readers copy side by side, into buffers locked beforehand."""
    return lambda case: case.weight_bytes * case.page_share if tensorized is (case.load_format == TENSORIZER) else 0.0


def _captured(value: Callable[[Case], float]) -> Callable[[Case], float]:
    return lambda case: value(case) if case.captured else 0.0


def _kernels(*, second_runner: bool, further: bool = False) -> Callable[[Case], float]:
    """The share of startups of one runner that build all of its kernels, or some ``further`` ones."""

    def share(case: Case) -> float:
        if case.second_runner is not second_runner:
            return 0.0
        return case.further_kernel_share if further else case.kernel_share

    return share


def _attention(case: Case) -> float:
    return case.attention_layers


def _mamba(case: Case) -> float:
    return case.mamba_layers


def _dense(case: Case) -> float:
    return case.layers - case.moe_layers


def _moe(case: Case) -> float:
    return case.moe_layers


def _graph_bytes(case: Case) -> float:
    return case.graph_bytes


def _rank_bytes(case: Case) -> float:
    return case.weight_bytes / case.tensor_parallel


def _batched_active_bytes(case: Case) -> float:
    """The profiling run's work: weights that a token passes through, for the default batch or in proportion."""
    return case.active_bytes / case.tensor_parallel * case.batched_tokens / DEFAULT_BATCHED_TOKENS


FEATURES: dict[Part, tuple[Feature, ...]] = {
    Part.IMPORTS: (Feature("processes", 0.7, lambda c: 2.0 + (c.ranks > 1)),),
    Part.PLATFORM_DETECTION: (Feature("constant", 0.02, _one),),
    Part.MODEL_INSPECTION: (
        Feature("inspected", 4.9, lambda c: c.inspection_share),
        Feature("inspection_cached", 0.5, lambda c: 1.0 - c.inspection_share),
    ),
    Part.WORKER_INIT: (
        Feature("constant", 1.7, _one),
        Feature("further_ranks", 0.5, lambda c: c.ranks - 1.0),
    ),
    Part.TOKENIZER_INIT: (
        Feature("constant", 0.02, _one),
        Feature("tokenizer_bytes", 4e-8, lambda c: c.tokenizer_bytes),
    ),
    Part.MODEL_INIT: (
        Feature("constant", 0.06, _one),
        Feature("layers", 2e-3, lambda c: c.layers),
    ),
    Part.WEIGHT_LOADING: (
        Feature("constant", 0.1, _one),
        Feature("weight_bytes", 1.4e-10, _read(tensorized=False), is_bytes=True),
        Feature("tensorized_bytes", 5e-11, _read(tensorized=True), is_bytes=True),
        Feature("page_locked_bytes", 4e-10, lambda c: c.page_locked_bytes * c.page_share, is_bytes=True),
        Feature("weight_bytes_from_disk", 1e-9, lambda c: c.weight_bytes * c.disk_share, is_bytes=True),
        Feature("weight_bytes_from_network", 3e-9, lambda c: c.weight_bytes * c.network_share, is_bytes=True),
    ),
    Part.WEIGHT_POSTPROCESS: (
        Feature("constant", 0.01, _one),
        Feature("quantized_bytes", 1e-10, lambda c: c.weight_bytes * bool(c.quantization), is_bytes=True),
    ),
    Part.DYNAMO_TRANSFORM: (
        Feature("constant", 0.5, _compiled(_one)),
        Feature("attention_layers", 0.07, _compiled(_attention)),
        Feature("mamba_layers", 0.05, _compiled(_mamba)),
        Feature("dense_layers", 0.03, _compiled(_dense)),
        Feature("moe_layers", 0.03, _compiled(_moe)),
        Feature("graph_bytes", 1e-6, _compiled(_graph_bytes)),
    ),
    Part.GRAPH_COMPILE: (
        Feature("constant", 3.0, _cold(_one)),
        Feature("layers", 0.1, _cold(lambda c: c.layers)),
        Feature("graph_bytes", 8e-6, _cold(_graph_bytes)),
    ),
    Part.GRAPH_LOAD: (
        Feature("constant", 0.2, _warm(_one)),
        Feature("layers", 0.01, _warm(lambda c: c.layers)),
        Feature("graph_bytes", 4e-6, _warm(_graph_bytes)),
    ),
    Part.KV_CACHE_PROFILING: (
        Feature("constant", 0.6, _one),
        Feature("batched_active_bytes", 4e-11, _batched_active_bytes, is_bytes=True),
        Feature("compiled_layers", 0.01, _compiled(lambda c: c.layers)),
        Feature("moe_layers", 0.01, _moe),
        Feature("further_blocks", 0.3, lambda c: c.further_blocks),
        Feature("compiling", 2.0, _cold(_one)),
        Feature("first_runner_kernels", 8.0, _kernels(second_runner=False)),
        Feature("first_runner_further_kernels", 7.0, _kernels(second_runner=False, further=True)),
    ),
    Part.CUDA_GRAPH_CAPTURE: (
        Feature("constant", 0.1, _captured(_one)),
        Feature("graphs", 2e-3, _captured(lambda c: c.graphs)),
        Feature("graphs_x_layers", 3e-4, _captured(lambda c: c.graphs * c.layers)),
        Feature("graphs_x_moe_layers", 3e-4, _captured(lambda c: c.graphs * c.moe_layers)),
        Feature("graphs_x_mamba_layers", 3e-4, _captured(lambda c: c.graphs * c.mamba_layers)),
        Feature("graphs_x_rank_weight_bytes", 2e-13, _captured(lambda c: c.graphs * _rank_bytes(c))),
    ),
    Part.KV_CACHE_ALLOCATION: (Feature("constant", 0.02, _one),),
    Part.KERNEL_WARMUP: (
        Feature("constant", 0.02, _one),
        Feature("second_runner_kernels", 12.0, _kernels(second_runner=True)),
        Feature("second_runner_further_kernels", 7.0, _kernels(second_runner=True, further=True)),
    ),
    Part.SERVER_START: (Feature("constant", 0.2, _one),),
    Part.UNACCOUNTED: (
        Feature("constant", 0.5, _one),
        Feature("tokenizer_bytes", 3e-8, lambda c: c.tokenizer_bytes),
    ),
}


def values(part: Part, case: Case) -> list[float]:
    """Return the values of the part's features for one case, in the table's order."""
    return [feature.value(case) for feature in FEATURES[part]]


def design(part: Part, cases: list[Case]) -> np.ndarray:
    """Return the values of the part's features: shape (cases, features)."""
    return np.array([values(part, case) for case in cases], dtype=float).reshape(len(cases), len(FEATURES[part]))


def priors(part: Part) -> np.ndarray:
    """Return the prior coefficients of the part's features, seconds per unit: shape (features,)."""
    return np.array([feature.prior for feature in FEATURES[part]])
