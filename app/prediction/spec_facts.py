"""What a spec says of itself: the identity of its model and hardware, its facts and its states. Pure functions."""

from typing import Any

from app.hardware_names import cpu_key, gpu_key
from app.hf_config import model_facts
from app.prediction.case import HardwareKey
from app.schemas.spec import EngineSpec, ModelSpec, Spec, Storage, WeightsState

__all__ = ["Identity", "facts_of", "hardware_key", "identity_of", "is_compiled", "states_of"]

Identity = tuple[str | None, str | None, str | None]
"""Revision, data type and quantization of a model; None where nobody said."""
_FACTS = tuple(
    name for name in ModelSpec.model_fields if name not in {"name", "config", "revision", "dtype", "quantization"}
)


def identity_of(model: ModelSpec) -> Identity:
    """Return revision, data type and quantization, as far as they are given."""
    told = model_facts(model.config) if model.config else {}
    return model.revision, model.dtype or told.get("dtype"), model.quantization or told.get("quantization")


def facts_of(model: ModelSpec) -> dict[str, Any]:
    """Return the facts that a model spec states; single fields win over its config."""
    facts = model_facts(model.config) if model.config else {}
    facts |= {name: value for name in _FACTS if (value := getattr(model, name)) is not None}
    return {name: value for name, value in facts.items() if name in _FACTS}


def hardware_key(spec: Spec) -> HardwareKey:
    """Return the identity of a spec's hardware, as far as it is given."""
    hardware, engine = spec.hardware, spec.engine
    ranks = (engine.tensor_parallel_size or 1) * (engine.pipeline_parallel_size or 1)
    return HardwareKey(
        gpu=gpu_key(hardware.gpu),
        gpu_count=hardware.gpu_count or ranks,
        cpu=cpu_key(hardware.cpu) if hardware.cpu else None,
        cpu_cores=hardware.cpu_cores,
        storage=hardware.storage.value if hardware.storage else None,
        node=hardware.node,
    )


def states_of(spec: Spec) -> tuple[str, str, str, str]:
    """Return the states of weights, compile, inspection and kernel cache; ``unknown`` where nobody said.

    The kernel cache does not count beside a cold compile cache, which brings its own.
    """
    cache, storage = spec.cache, spec.hardware.storage
    weights = cache.weights.value if cache.weights else "unknown"
    if storage is Storage.TMPFS and cache.weights in (None, WeightsState.DISK):
        weights = WeightsState.PAGE_CACHE.value  # Files on tmpfs lie in memory.
    elif cache.weights is None and cache.weights_cached_fraction is not None:
        weights = WeightsState.DISK.value if cache.weights_cached_fraction < 1 else WeightsState.PAGE_CACHE.value
    compile_cache = cache.compile.value if cache.compile else "unknown"
    inspection = cache.model_inspection.value if cache.model_inspection else "unknown"
    own = is_compiled(spec.engine) and compile_cache in ("cold", "disabled")
    kernels = cache.kernels.value if cache.kernels and not own else "unknown"
    return weights, compile_cache, inspection, kernels


def is_compiled(engine: EngineSpec) -> bool:
    """Whether torch.compile is on."""
    return not engine.enforce_eager and engine.optimization_level != 0
