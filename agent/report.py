"""From what the probes read and the hook observed to a measurement as it crosses the wire.

Nothing that names a person or opens a door is sent: no prompts, no tokens, no environment, of paths the last component.
"""

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import metadata
from typing import Any, Protocol

from pydantic import BaseModel, ValidationError

from agent.masking import MASK, is_secret, mask
from agent.probes import Facts
from app.schemas.base import MAX_JSON_BYTES
from app.schemas.spec import CacheSpec, EngineSpec, HardwareSpec, ModelSpec
from app.stages import SIX_STAGES, Part

__all__ = ["Failure", "Observed", "build_measurement"]

MAX_TEXT = 2000  # An error line that says more than this says it at its beginning.
MAX_ITEMS = 200
MAX_FACTS_BYTES = MAX_JSON_BYTES // 2  # Names and punctuation are not counted, hence the half.
MAX_DEPTH = 8
UNKNOWN = "unknown"
_SECTIONS: dict[str, type[BaseModel]] = {
    "model": ModelSpec,
    "hardware": HardwareSpec,
    "engine": EngineSpec,
    "cache": CacheSpec,
}
_REQUIRED = {"model": {"name": UNKNOWN}, "hardware": {"gpu": UNKNOWN}}


class Observed(Protocol):
    """What the assembly of a startup's events gives: seconds, and what the engine itself resolved."""

    stages: dict[str, float]
    parts: dict[str, float]
    engine: dict[str, Any]
    cache: dict[str, Any]
    notes: list[str]
    hook_seconds: float


@dataclass(frozen=True)
class Failure:
    """Where a startup died (a stage's name, or None where nobody knows) and the last error line."""

    stage: str | None
    last_error: str | None


def build_measurement(
    facts: Facts,
    assembled: Observed,
    *,
    id: str,
    started_at: datetime,
    total_seconds: float,
    outcome: str,
    failure: Failure | None = None,
) -> dict[str, Any]:
    """Return the measurement of one startup, ready for ``POST /measurements``.

    What the engine resolved (``assembled.engine``, ``assembled.cache``) wins over what the command line said; what of
    it the spec has no field for goes to the measurement's facts.
    """
    spec, further = _spec(facts, assembled)
    six = {stage.value for stage in SIX_STAGES}
    return {
        "id": id,
        "started_at": started_at.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "outcome": outcome,
        "total_seconds": round(total_seconds, 6),
        "stages": {stage: round(seconds, 6) for stage, seconds in assembled.stages.items() if stage in six},
        "parts": {part: round(seconds, 6) for part, seconds in assembled.parts.items() if part in set(Part)},
        "spec": spec,
        "source": "agent",
        "agent_version": agent_version(),
        "facts": _bounded(
            _clean(
                {
                    **facts.facts,
                    "engine": further,
                    "probes": facts.probes,
                    "hook_seconds": assembled.hook_seconds,
                    "notes": list(assembled.notes),
                    **_failure(failure),
                }
            )
        ),
    }


def agent_version() -> str | None:
    """Return the version of the installed distribution, or None where the agent runs from a bare checkout."""
    try:
        return metadata.version("coldcast")
    except metadata.PackageNotFoundError:
        return None


def _spec(facts: Facts, assembled: Observed) -> tuple[dict[str, Any], dict[str, Any]]:
    """Merge the spec that the probes read with what the engine resolved; return it and what fits no field of it."""
    spec: dict[str, dict[str, Any]] = {section: dict(facts.spec.get(section, {})) for section in _SECTIONS}
    further: dict[str, Any] = {}
    for name, value in (assembled.engine | assembled.cache).items():
        owners = ("cache",) if name in assembled.cache else ("engine", "model", "hardware")
        section = next((s for s in owners if name in _SECTIONS[s].model_fields and name != "name"), None)
        if section is None:
            further[name] = value
        elif value is not None:
            spec[section][name] = value
    spec = {section: _valid(section, _clean(fields), further) for section, fields in spec.items()}
    spec["model"].setdefault("name", UNKNOWN)
    spec["hardware"].setdefault("gpu", UNKNOWN)
    return spec, further


def _valid(section: str, fields: dict[str, Any], further: dict[str, Any]) -> dict[str, Any]:
    """Move what the service would refuse to ``further``: an odd value of one field should not cost the measurement."""
    try:
        _SECTIONS[section].model_validate({**_REQUIRED.get(section, {}), **fields})
    except ValidationError as error:
        odd = {str(row["loc"][0]) for row in error.errors()}
        further |= {name: fields[name] for name in odd if name in fields}
        return {name: value for name, value in fields.items() if name not in odd}
    return fields


def _bounded(facts: dict[str, Any]) -> dict[str, Any]:
    """Leave out the largest facts until the rest is within what the service takes."""
    sizes = {name: len(json.dumps(value)) for name, value in facts.items()}
    left_out = []
    while sum(sizes.values()) > MAX_FACTS_BYTES:
        left_out.append(max(sizes, key=lambda name: sizes[name]))
        del sizes[left_out[-1]]
    kept = {name: facts[name] for name in sizes}
    return {**kept, "left_out": left_out} if left_out else kept


def _failure(failure: Failure | None) -> dict[str, Any]:
    return {} if failure is None else {"failed_stage": failure.stage, "last_error": failure.last_error}


def _clean(value: Any, depth: int = 0) -> Any:
    """Return ``value`` as JSON that Postgres can store, with secrets masked and paths cut to their last component."""
    match value:
        case None | bool():
            return value
        case int():
            return value if abs(value) < 2**63 else None
        case float():
            return value if math.isfinite(value) else None
        case _ if depth >= MAX_DEPTH:
            return None
        case Mapping():
            items = list(value.items())[:MAX_ITEMS]
            return {_text(str(k)): MASK if is_secret(str(k)) else _clean(item, depth + 1) for k, item in items}
        case Sequence() | set() if not isinstance(value, str | bytes):
            return [_clean(item, depth + 1) for item in list(value)[:MAX_ITEMS]]
    return _text(str(value))


def _text(text: str) -> str:
    """Mask ``text`` and drop what neither Postgres nor a table can hold: control characters and lone surrogates.

    It is cut after the masking, since half a token would not be known for one.
    """
    return mask(re.sub(r"[\x00-\x1f\x7f\ud800-\udfff]+", " ", text[: 10 * MAX_TEXT]))[:MAX_TEXT]
