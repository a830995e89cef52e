"""Which columns a measurement is looked up by: its model, its hardware, its engine's minor version."""

from app.hardware_names import cpu_key, gpu_key
from app.schemas.measurement import Measurement
from app.schemas.spec import HardwareSpec, ModelSpec

__all__ = ["SEPARATOR", "engine_minor", "hardware_key", "model_key", "reporter_of"]

SEPARATOR = "\x1f"  # Names hold no control characters, so this one cannot stand inside a name.


def model_key(model: ModelSpec) -> str:
    """Return the identity of a model: name, revision, dtype and quantization."""
    parts = (model.name, model.revision, model.dtype, model.quantization)
    return SEPARATOR.join((part or "").lower() for part in parts)


def hardware_key(hardware: HardwareSpec) -> str:
    """Return the identity of hardware: GPU, count, CPU, physical cores, storage and node label."""
    parts = (
        gpu_key(hardware.gpu),
        hardware.gpu_count or 1,
        cpu_key(hardware.cpu) if hardware.cpu else "",
        hardware.cpu_cores or "",
        hardware.storage or "",
        hardware.node or "",
    )
    return SEPARATOR.join(str(part) for part in parts)


def engine_minor(version: str | None) -> str:
    """Return the minor version that coefficients belong to: ``0.10.1.1`` → ``0.10``; unknown is the empty string."""
    return ".".join((version or "").split(".")[:2])


def reporter_of(measurement: Measurement) -> str:
    """Return who vouches for a measurement: its source on its node."""
    return f"{measurement.source}@{measurement.spec.hardware.node or ''}"
