"""Probe: whether vLLM has inspected this model's class before (0.11 and later keep the result in a file)."""

from agent.probes.base import Context, Found
from agent.probes.folders import cache_root
from agent.probes.model import read_config_json
from app.schemas.spec import InspectionCache

__all__ = ["probe"]


def probe(context: Context) -> Found:
    """Look for the file of the model's architecture.

    Files are named after the class that runs it, which for some architectures is another one; so a file of this name
    means warm, an empty folder cold, and anything else is unknown until the hook has seen what happened.
    """
    files = sorted((cache_root(context.environment) / "modelinfos").glob("*.json"))
    architectures = (read_config_json(context.files).get("architectures") or [None]) if context.files.folder else [None]
    state = None
    if not files:
        state = InspectionCache.COLD
    elif any(path.stem.endswith(f"-{architectures[0]}") for path in files):
        state = InspectionCache.WARM
    return Found({"cache": {"model_inspection": state}} if state else {}, {"files": len(files)})
