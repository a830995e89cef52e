"""Builders of what crosses the wire and of rows: keyword only, with defaults that are valid and mean nothing."""

from collections.abc import Mapping
from itertools import count
from typing import Any

from app.database.engine import Sessions
from app.database.measurements import StoredMeasurement, insert_many
from app.schemas.measurement import Measurement
from app.schemas.records import MeasurementStatus

__all__ = ["SIX", "make_measurement", "make_model", "make_spec", "store"]

_numbers = count(1)
SIX = {
    "framework_bootstrap": 8.0,
    "tokenizer_init": 0.5,
    "model_loading": 6.0,
    "torch_compile": 10.0,
    "kv_cache_profiling": 1.5,
    "cuda_graph_capture": 1.0,
}
"""Seconds of the six stages; they sum to 27."""


def make_model(*, name: str = "test/model", **facts: Any) -> dict[str, Any]:
    """Return a model that can be predicted without anybody having measured it."""
    return {"name": name, "weight_bytes": 8_000_000_000, "num_layers": 32, "hidden_size": 4096, **facts}


def make_spec(
    *,
    model: Any = None,
    hardware: Any = "NVIDIA H100 NVL",
    engine: Mapping[str, Any] | None = None,
    cache: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Return a spec as it crosses the wire."""
    return {
        "model": model or make_model(),
        "hardware": hardware,
        "engine": dict(engine or {"version": "0.10.1.1"}),
        "cache": dict(cache or {"weights": "page_cache", "compile": "warm"}),
    }


def make_measurement(
    *,
    id: str | None = None,
    total_seconds: Any = 30.0,
    stages: Mapping[str, Any] | None = None,
    spec: Any = None,
    outcome: str = "ready",
    started_at: Any = "2026-11-01T12:00:00Z",
    source: str = "test",
    **others: Any,
) -> dict[str, Any]:
    """Return a measurement as it crosses the wire, with an id of its own."""
    return {
        "id": id or f"m{next(_numbers)}",
        "started_at": started_at,
        "outcome": outcome,
        "total_seconds": total_seconds,
        "stages": dict(SIX if stages is None else stages),
        "spec": spec or make_spec(),
        "source": source,
        **others,
    }


def store(
    sessions: Sessions,
    *wires: Mapping[str, Any],
    status: MeasurementStatus = MeasurementStatus.ACCEPTED,
    prediction: dict[str, Any] | None = None,
) -> list[str]:
    """Store measurements, each in a transaction of its own and so with a time of its own; return their ids."""
    for wire in wires:
        measurement = Measurement.model_validate(wire)
        row = StoredMeasurement(measurement, measurement.sent, status=status, prediction=prediction)
        with sessions.begin() as session:
            insert_many(session, [row])
    return [wire["id"] for wire in wires]
