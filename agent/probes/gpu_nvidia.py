"""Probe: NVIDIA GPUs, through NVML: no process is started and no CUDA context made."""

from collections.abc import Sequence
from typing import Any

import pynvml

from agent.probes.base import Context, Found, NoData

__all__ = ["probe", "visible_devices"]


def probe(context: Context) -> Found:
    """Read name, memory and driver of the GPUs that the engine will see."""
    try:
        pynvml.nvmlInit()
    except (pynvml.NVMLError_LibraryNotFound, pynvml.NVMLError_DriverNotLoaded) as error:
        raise NoData("no NVIDIA driver is loaded here") from error
    try:
        return _found(_driver(), _visible(context.environment.get("CUDA_VISIBLE_DEVICES")))
    finally:
        pynvml.nvmlShutdown()


def visible_devices(variable: str | None, uuids: Sequence[str]) -> list[int | str]:
    """Return the devices that ``CUDA_VISIBLE_DEVICES`` leaves, in its order: indices, or the UUIDs of MIG slices.

    As CUDA has it: unset leaves all, and the first entry that names nothing hides itself and all after it.
    """
    if variable is None:
        return list(range(len(uuids)))
    devices: list[int | str] = []
    for entry in variable.split(","):
        entry = entry.strip()
        if entry.startswith("MIG-"):
            devices.append(entry)
            continue
        index = int(entry) if entry.isascii() and entry.isdigit() else _by_uuid(entry, uuids)
        if index is None or index >= len(uuids):
            break
        devices.append(index)
    return devices


def _by_uuid(entry: str, uuids: Sequence[str]) -> int | None:
    """A UUID may be cut short as long as it names one device."""
    fits = [index for index, uuid in enumerate(uuids) if entry.startswith("GPU-") and uuid.startswith(entry)]
    return fits[0] if len(fits) == 1 else None


def _visible(variable: str | None) -> list[tuple[str, int | None]]:
    handles = [pynvml.nvmlDeviceGetHandleByIndex(index) for index in range(pynvml.nvmlDeviceGetCount())]
    devices = visible_devices(variable, [_text(pynvml.nvmlDeviceGetUUID(handle)) for handle in handles])
    chosen = []
    for device in devices:
        try:
            chosen.append(handles[device] if isinstance(device, int) else pynvml.nvmlDeviceGetHandleByUUID(device))
        except pynvml.NVMLError_NotFound:
            break  # A slice that is gone, which CUDA will not find either.
    return [(_text(pynvml.nvmlDeviceGetName(handle)), _memory(handle)) for handle in chosen]


def _found(driver: dict[str, Any], gpus: Sequence[tuple[str, int | None]]) -> Found:
    if not gpus:
        raise NoData("NVML lists no GPU that the engine may see")
    name, memory = gpus[0]
    hardware: dict[str, Any] = {"gpu": name, **({"gpu_memory_bytes": memory} if memory else {})}
    return Found({"hardware": hardware}, {**driver, "visible": len(gpus), "kinds": sorted({name for name, _ in gpus})})


def _driver() -> dict[str, Any]:
    return {
        "driver": _text(pynvml.nvmlSystemGetDriverVersion()),
        "cuda_driver": pynvml.nvmlSystemGetCudaDriverVersion(),
    }


def _memory(handle: Any) -> int | None:
    """Where a GPU shares the CPU's memory, NVML has no figure of its own."""
    try:
        return int(pynvml.nvmlDeviceGetMemoryInfo(handle).total)
    except pynvml.NVMLError_NotSupported:
        return None


def _text(value: str | bytes) -> str:
    """Return text; older bindings give bytes."""
    return value.decode(errors="replace") if isinstance(value, bytes) else value
