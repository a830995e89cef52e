"""Real logs, where the folder with them lies beside the checkout."""

import csv
from pathlib import Path
from typing import Any

import pytest

from agent.stage_log import LogOutcome, NotAVllmLog, ParsedLog, parse_lines, read_lines
from app.schemas.spec import CacheSpec, EngineSpec

SHARED = Path(__file__).resolve().parents[3] / "shared"
# Columns of the table of right answers, and where the parser puts what they hold.
PLACE_OF = {
    "load_weights_s": ("parts", "weight_loading"),
    "model_loading_s": ("stages", "model_loading"),
    "dynamo_s": ("parts", "dynamo_transform"),
    "compile_s": ("parts", "graph_compile"),
    "compile_cached_load_s": ("parts", "graph_load"),
    "graph_capture_s": ("stages", "cuda_graph_capture"),
    "model_memory_gib": ("engine_said", "model_memory_gib"),
    "graph_capture_gib": ("engine_said", "graph_capture_gib"),
    "init_engine_s": ("engine_said", "init_engine_s"),
}
NO_LOG = "b03-harness-tp2-no-vllm-lines.log"
MARKERS = {
    "weights_s": ("parts", "weight_loading"),
    "model_loading_s": ("stages", "model_loading"),
    "dynamo_s": ("parts", "dynamo_transform"),
    "compile_s": ("parts", "graph_compile"),
    "graph_load_s": ("parts", "graph_load"),
    "torch_compile_s": ("stages", "torch_compile"),
    "warmup_run_s": ("engine_said", "warmup_run_s"),
    "capture_s": ("stages", "cuda_graph_capture"),
    "init_engine_s": ("engine_said", "init_engine_s"),
}


def parse_file(path: Path) -> ParsedLog:
    with path.open("rb") as stream:
        return parse_lines(read_lines(stream))


def rows(table: Path, key: str) -> list[Any]:
    """The rows of a table as parameters; one that skips where the folder is missing."""
    if not table.exists():
        return [pytest.param(None, id="no table")]
    with table.open() as stream:
        return [pytest.param(row, id=row[key]) for row in csv.DictReader(stream)]


def found(parsed: ParsedLog, place: tuple[str, str]) -> float | None:
    section, name = place
    return parsed.as_json()[section].get(name)


@pytest.mark.parametrize("row", rows(SHARED / "cases/logs/expected.csv", "file"))
def test_a_real_log_comes_out_right(row: dict[str, str], shared: Path) -> None:
    log = shared / "cases/logs" / row["file"]
    if row["file"] == NO_LOG:
        with pytest.raises(NotAVllmLog):
            parse_file(log)
        return
    parsed = parse_file(log)
    for column, place in PLACE_OF.items():
        if row[column]:
            slowest = max(float(value) for value in row[column].split(";"))
            assert found(parsed, place) == pytest.approx(slowest, abs=1e-6), column
    if row["kv_profiling_s"]:
        without_compile = float(row["kv_profiling_s"]) - parsed.stages["torch_compile"]
        assert parsed.stages["kv_cache_profiling"] == pytest.approx(without_compile, abs=0.01)
    assert (parsed.outcome is LogOutcome.READY) == (row["ready"] == "true")
    if row["complete"] == "true" and row["ready"] == "false":
        assert parsed.outcome is LogOutcome.INCOMPLETE
    if row["complete"] == "false":
        assert parsed.outcome is LogOutcome.FAILED
        assert parsed.last_error
    assert parsed.engine_version in (row["vllm_version"], None)
    assert parsed.spec["model"].get("name") in (row["model"], None)
    if tp := parsed.spec["engine"].get("tensor_parallel_size"):
        assert tp == int(row["tp"])
    EngineSpec.model_validate(parsed.spec["engine"])
    CacheSpec.model_validate(parsed.spec["cache"])


@pytest.mark.parametrize(
    ("log", "stage", "words"),
    [
        ("c14-rocm-lora-inproc-eager-fail-in-profile.log", "kv_cache_profiling", "lora_expand"),
        ("c17-ascend-tp2-kv-alloc-fail.log", "other", "507013"),
        ("c20-v0.13.0nv-pooling-free-memory-fail.log", "framework_bootstrap", "Free memory on device"),
        ("c22-journald-grep-n-free-memory-fail.log", "framework_bootstrap", "Free memory on device"),
        ("r02-v0.8.1-boxed-by-terminal-viewer-oom.log", "kv_cache_profiling", "CUDA out of memory"),
        ("r04-v0.11-tp4-killed-while-loading-shards.log", "model_loading", "died unexpectedly"),
    ],
)
def test_a_real_failure_is_located(log: str, stage: str, words: str, shared: Path) -> None:
    parsed = parse_file(shared / "cases/logs" / log)
    assert parsed.failed_stage == stage
    assert parsed.last_error is not None
    assert words in parsed.last_error


@pytest.mark.parametrize(
    ("log", "seconds"),
    [
        ("d04-new-year-crossing-from-c09.log", 100.0),  # From 31 December 23:59:00 to 1 January 00:00:40.
        ("c10-v0.11.0-ray-dp2-t4-clock-skew.log", 62.0),  # Without the other host, whose clock is 40 s ahead.
        ("c03-nvfp4-moe-wsl-loki-tz-prefix-cold.log", 183.396),  # By the collector's clock alone.
    ],
)
def test_stamps_of_real_logs_are_told_apart(log: str, seconds: float, shared: Path) -> None:
    assert parse_file(shared / "cases/logs" / log).log_seconds == pytest.approx(seconds, abs=0.001)


@pytest.mark.parametrize("row", rows(SHARED / "data/h200/markers.csv", "log"))
def test_printed_durations_of_own_startups_are_found(row: dict[str, str], shared: Path) -> None:
    parsed = parse_file(shared / "data/h200" / row["log"])
    assert parsed.outcome is LogOutcome.READY
    for column, place in MARKERS.items():
        assert found(parsed, place) == (float(row[column]) if row[column] else None), column
    assert parsed.total_seconds == float(row["ready_at"])
    assert parsed.parts["server_start"] == pytest.approx(float(row["ready_at"]) - float(row["init_engine_at"]))
    profiling = float(row["kv_available_at"]) - float(row["loaded_at"]) - float(row["torch_compile_s"])
    assert parsed.stages["kv_cache_profiling"] == pytest.approx(profiling)
