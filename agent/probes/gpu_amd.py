"""Probe: AMD GPUs, from what the amdgpu driver shows below ``/sys``.

Asking torch would cost its import, seconds that the engine's start would wait for; the driver tells the same.
"""

from pathlib import Path

from agent.probes.base import Context, Found, NoData
from agent.probes.gpu_nvidia import visible_devices

__all__ = ["probe"]

_AMD = "0x1002"
_VISIBLE = ("ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES")


def probe(context: Context) -> Found:
    """Read name and memory of the GPUs that the engine will see."""
    cards = sorted((context.root / "sys/class/drm").glob("card[0-9]*"), key=lambda path: (len(path.name), path.name))
    devices = [card / "device" for card in cards if "-" not in card.name and _line(card / "device/vendor") == _AMD]
    variable = next((context.environment[name] for name in _VISIBLE if name in context.environment), None)
    visible = [devices[index] for index in visible_devices(variable, [""] * len(devices)) if isinstance(index, int)]
    if not visible:
        raise NoData("/sys/class/drm lists no AMD GPU that the engine may see")
    memory = _line(visible[0] / "mem_info_vram_total")
    hardware = {"gpu": _line(visible[0] / "product_name") or f"AMD GPU {_line(visible[0] / 'device')}"}
    sizes = {"gpu_memory_bytes": int(memory)} if memory.isdigit() else {}
    return Found({"hardware": {**hardware, **sizes}}, {"visible": len(visible), "driver": _driver(context)})


def _line(path: Path) -> str:
    """Return the content of ``path``, empty where it is not there: not every card has every attribute."""
    try:
        return path.read_text().strip()
    except OSError:
        return ""


def _driver(context: Context) -> str | None:
    return _line(context.root / "sys/module/amdgpu/version") or None
