"""From facts and assembled stages to a measurement that the service takes."""

import json
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.probes import Facts
from agent.report import Failure, build_measurement
from app.schemas.measurement import Measurement
from app.stages import SIX_STAGES

STARTED = datetime(2026, 11, 30, 14, 0, 0, 5000, tzinfo=timezone(timedelta(hours=2)))


@dataclass
class Assembled:
    stages: dict[str, float] = field(default_factory=dict)
    parts: dict[str, float] = field(default_factory=dict)
    engine: dict[str, Any] = field(default_factory=dict)
    cache: dict[str, Any] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    hook_seconds: float = 0.0


def facts(**sections: dict[str, Any]) -> Facts:
    return Facts(
        spec={"model": {"name": "org/name"}, "hardware": {"gpu": "NVIDIA H100 NVL"}, **sections},
        facts={"memory": {"available_bytes": 1}},
        probes={"memory": {"seconds": 0.001, "success": True, "error": None}},
    )


def build(facts: Facts, assembled: Assembled, **arguments: Any) -> dict[str, Any]:
    known = {"id": "m-1", "started_at": STARTED, "total_seconds": 50.0, "outcome": "ready", **arguments}
    return build_measurement(facts, assembled, **known)


def validated(measurement: dict[str, Any]) -> Measurement:
    """Send it through JSON, as the wire does."""
    return Measurement.model_validate(json.loads(json.dumps(measurement, allow_nan=False)))


def test_a_ready_startup_is_a_valid_measurement() -> None:
    six = {stage.value: 1.0 for stage in SIX_STAGES}
    assembled = Assembled(
        stages={**six, "other": 44.0},
        parts={"weight_loading": 0.9, "unaccounted": 0.5},
        engine={"version": "0.24.0", "max_num_seqs": 256},
        cache={"compile": "warm"},
        notes=["hook and log agree"],
        hook_seconds=0.02,
    )
    measurement = build(facts(engine={"max_num_seqs": 8, "max_model_len": 4096}), assembled)
    assert measurement["started_at"] == "2026-11-30T12:00:00.005Z"
    assert measurement["stages"] == six
    assert measurement["parts"] == {"weight_loading": 0.9, "unaccounted": 0.5}
    assert measurement["spec"]["engine"] == {"max_num_seqs": 256, "max_model_len": 4096, "version": "0.24.0"}
    assert measurement["spec"]["cache"] == {"compile": "warm"}
    assert measurement["facts"]["hook_seconds"] == 0.02
    assert measurement["facts"]["notes"] == ["hook and log agree"]
    assert measurement["facts"]["probes"]["memory"]["success"] is True
    stored = validated(measurement)
    assert stored.stage_seconds["other"] == 44.0  # type: ignore[index]
    assert stored.started_at == STARTED.astimezone(UTC)
    assert stored.unknown_fields() == {}


def test_what_the_engine_resolved_wins_and_what_has_no_field_becomes_a_fact() -> None:
    assembled = Assembled(
        engine={"dtype": "bfloat16", "compiled_graph_bytes": 100, "cudagraph_mode": "FULL", "load_format": None},
        cache={"model_inspection": "warm", "aot_loaded": True},
    )
    given = facts(
        model={"name": "org/name", "dtype": "float16"},
        engine={"load_format": "dummy"},
        cache={"model_inspection": "cold", "weights": "disk"},
    )
    measurement = build(given, assembled)
    assert measurement["spec"]["model"] == {"name": "org/name", "dtype": "bfloat16", "compiled_graph_bytes": 100}
    assert measurement["spec"]["engine"] == {"load_format": "dummy"}
    assert measurement["spec"]["cache"] == {"model_inspection": "warm", "weights": "disk"}
    assert measurement["facts"]["engine"] == {"cudagraph_mode": "FULL", "aot_loaded": True}
    assert given.spec["model"]["dtype"] == "float16"


def test_a_failure_is_told_without_secrets_and_people() -> None:
    failure = Failure("model_loading", "OSError: /home/alice/m: token hf_abcdefgh1234\x00was refused\n")
    measurement = build(facts(), Assembled(), outcome="failed", failure=failure)
    assert measurement["facts"]["failed_stage"] == "model_loading"
    assert measurement["facts"]["last_error"] == "OSError: ~/m: token *** was refused "
    assert validated(measurement).outcome == "failed"


def test_where_nothing_could_be_read_it_is_still_a_measurement() -> None:
    measurement = build(Facts(), Assembled(), outcome="timed_out", failure=Failure(None, None))
    assert measurement["spec"]["model"] == {"name": "unknown"}
    assert measurement["spec"]["hardware"] == {"gpu": "unknown"}
    validated(measurement)


def test_an_odd_value_does_not_cost_the_measurement() -> None:
    assembled = Assembled(engine={"max_model_len": -1, "max_num_seqs": 8, "version": "unknown build", "dtype": 7})
    measurement = build(facts(model={"name": "x" * 300}), assembled)
    assert measurement["spec"]["engine"] == {"max_num_seqs": 8}
    assert measurement["spec"]["model"] == {"name": "unknown"}
    assert measurement["facts"]["engine"]["max_model_len"] == -1
    assert measurement["facts"]["engine"]["version"] == "unknown build"
    validated(measurement)


@pytest.mark.parametrize("secret", ["sesame-open", "hf_abcdefgh1234", "/data/alice/cache/x"])
def test_no_secret_and_no_folder_in_any_fact(secret: str) -> None:
    given = Facts(
        facts={"a": [{"api_key": secret}], "b": f"--api-key {secret}"}, probes={"p": {"error": f"at {secret}"}}
    )
    assembled = Assembled(engine={"hf_token": [secret], "tokenizer": "/home/alice/tok"}, notes=[f"token={secret}"])
    sent = json.dumps(build(given, assembled))
    assert "alice" not in sent
    if secret != "sesame-open":
        assert secret not in sent
    assert sent.count("sesame-open") == (secret == "sesame-open")  # Only "at …", where no word announces it.


JSONISH = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=20,
)
FIELDS = st.sampled_from(["max_num_seqs", "version", "dtype", "num_layers", "enforce_eager", "compile", "weights", "x"])


@given(
    st.dictionaries(FIELDS, JSONISH, max_size=4),
    st.dictionaries(FIELDS, JSONISH, max_size=3),
    st.dictionaries(st.text(max_size=8), JSONISH, max_size=3),
    st.text(),
)
def test_whatever_was_found_the_service_takes_it(
    engine: dict[str, Any], cache: dict[str, Any], found: dict[str, Any], error: str
) -> None:
    given = Facts(facts=found)
    validated(build(given, Assembled(engine=engine, cache=cache), outcome="failed", failure=Failure(None, error)))


def test_long_facts_are_cut_to_what_the_service_takes() -> None:
    given = Facts(facts={"small": 1, "large": ["x" * 5000] * 300, "huge": {str(n): "x" * 5000 for n in range(300)}})
    measurement = build(given, Assembled(notes=["short"]))
    assert measurement["facts"]["small"] == 1
    assert measurement["facts"]["notes"] == ["short"]
    assert measurement["facts"]["left_out"] == ["huge", "large"]
    validated(measurement)
