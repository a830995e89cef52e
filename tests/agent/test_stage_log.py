import csv
import io
from pathlib import Path
from typing import Any

import pytest
from startup_lines import API, ENGINE, banner, compiling, finishing, loading, record, serving, startup

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


def test_a_healthy_startup_gives_its_stages_parts_and_spec() -> None:
    parsed = parse_lines(startup())
    assert parsed.outcome is LogOutcome.READY
    assert parsed.engine_version == "0.24.0"
    assert parsed.stages == {
        "model_loading": 5.5,
        "torch_compile": 15.25,
        "kv_cache_profiling": 4.75,  # 20 s from the loaded model to the free memory, less 15.25 s.
        "cuda_graph_capture": 3.0,
    }
    assert parsed.parts == {
        "weight_loading": 3.25,
        "dynamo_transform": 4.0,
        "graph_compile": 9.5,
        "kv_cache_profiling": 4.75,
        "cuda_graph_capture": 3.0,
        "server_start": 2.0,
    }
    assert parsed.spec["model"] == {"name": "acme/Owl-3B", "dtype": "bfloat16"}
    assert parsed.spec["engine"] == {
        "version": "0.24.0",
        "tensor_parallel_size": 1,
        "pipeline_parallel_size": 1,
        "enforce_eager": False,
        "load_format": "auto",
        "max_model_len": 4096,
        "num_cudagraph_sizes": 4,
        "num_cudagraphs": 7,
        "model_runner": "v1",
    }
    assert parsed.spec["cache"] == {"compile": "cold"}
    assert parsed.engine_said["init_engine_s"] == 24.75
    assert parsed.engine_said["graph_capture_gib"] == 0.75
    assert [rank.process for rank in parsed.ranks] == ["EngineCore"]
    assert parsed.total_seconds is None
    assert parsed.log_seconds == 43.0


def test_the_slowest_of_several_ranks_counts() -> None:
    lines = [
        *loading("(Worker_TP0 pid=31)", weights="3.00", model="6.000000"),
        *loading("(Worker_TP1 pid=32)", weights="4.00", model="5.000000"),
    ]
    parsed = parse_lines(lines)
    assert parsed.parts["weight_loading"] == 4.0
    assert parsed.stages["model_loading"] == 6.0
    assert [(rank.process, rank.pid, rank.parts["weight_loading"]) for rank in parsed.ranks] == [
        ("Worker_TP0", 31, 3.0),
        ("Worker_TP1", 32, 4.0),
    ]
    assert parsed.spec["engine"]["tensor_parallel_size"] == 2


def test_a_compilation_that_only_the_engine_prints_counts() -> None:
    slower = record(41, "init engine (profile, create kv cache, warmup model) took 30.00 s (compilation: 19.00 s)")
    assert parse_lines([*loading(), *compiling(), slower]).stages["torch_compile"] == 19.0


def test_a_stage_holds_all_of_its_parts_where_two_ranks_share_the_lead() -> None:
    lines = [
        record(20, "Dynamo bytecode transform time: 5.00 s", process="(Worker_TP0 pid=1)"),
        record(30, "Compiling a graph for dynamic shape takes 8.00 s", process="(Worker_TP0 pid=1)"),
        record(20, "Dynamo bytecode transform time: 6.00 s", process="(Worker_TP1 pid=2)"),
        record(30, "Compiling a graph for dynamic shape takes 7.50 s", process="(Worker_TP1 pid=2)"),
    ]
    assert parse_lines(lines).stages["torch_compile"] == 14.0


def test_a_drafter_compiles_too_but_its_weights_are_not_the_models() -> None:
    lines = [
        *loading()[:2],
        record(15, "Loading drafter model..."),
        record(15, "Loading weights took 9.00 seconds"),
        record(16, "Model loading took 6.10 GiB memory and 15.000000 seconds"),
        *compiling(),
        record(36, "Dynamo bytecode transform time: 1.00 s"),
        record(37, "Compiling a graph for compile range (1, 8192) takes 2.00 s"),
        record(38, "torch.compile took 3.75 s in total"),
    ]
    parsed = parse_lines(lines)
    assert parsed.parts["weight_loading"] == 3.25
    assert parsed.parts["dynamo_transform"] == 5.0
    assert parsed.parts["graph_compile"] == 11.5
    assert parsed.stages["torch_compile"] == 19.0
    assert any("drafter" in note for note in parsed.notes)


def test_a_drafters_weights_alone_are_no_weight_loading() -> None:
    lines = [record(15, "Loading drafter model..."), record(15, "Loading weights took 9.00 seconds")]
    assert "weight_loading" not in parse_lines(lines).parts


def test_torch_compile_comes_out_of_the_printed_profiling() -> None:
    profiled = record(36, "Memory profiling takes 21.00 seconds. Total non KV cache memory: 7.00GiB", level="DEBUG")
    assert parse_lines([*loading(), *compiling(), profiled]).stages["kv_cache_profiling"] == 5.75


def test_the_cached_load_counts_though_the_printed_total_leaves_it_out() -> None:
    lines = [
        record(20, "Dynamo bytecode transform time: 2.00 s"),
        record(23, "Directly load the compiled graph(s) for dynamic shape from the cache, took 1.500 s"),
        record(24, "torch.compile takes 2.00 s in total"),
    ]
    parsed = parse_lines(lines)
    assert parsed.stages["torch_compile"] == 3.5
    assert parsed.spec["cache"] == {"compile": "warm"}


def test_a_compiled_artifact_that_is_loaded_whole_is_graph_load() -> None:
    lines = [
        record(20, "Directly load AOT compilation from path /cache/rank_0_0/model"),
        record(20, "torch.compile took 0.40 s in total"),
    ]
    parsed = parse_lines(lines)
    assert parsed.parts == {"graph_load": 0.4}
    assert parsed.spec["cache"] == {"compile": "warm"}


def test_a_capture_for_the_memory_estimate_is_profiling() -> None:
    estimate = record(35, "Graph capturing finished in 9 secs, took 0.50 GiB")
    assert parse_lines([*loading(), *compiling(), estimate, *finishing()]).stages["cuda_graph_capture"] == 3.0
    kv_available = finishing()[0]
    assert "cuda_graph_capture" not in parse_lines([*loading(), *compiling(), estimate, kv_available]).stages


def test_stages_that_eager_mode_leaves_out_are_zero() -> None:
    eager = record(41, "Cudagraph is disabled under eager mode")
    parsed = parse_lines([*loading(), eager])
    assert parsed.stages == {"model_loading": 5.5, "torch_compile": 0.0, "cuda_graph_capture": 0.0}
    assert parsed.spec["engine"]["enforce_eager"] is True


def test_what_follows_the_ready_line_is_not_the_startup() -> None:
    later = [
        record(90, "Loading weights took 99.00 seconds"),
        record(91, "EngineCore hit an exception: Traceback", level="ERROR"),
    ]
    assert parse_lines([*startup(), *later]) == parse_lines(startup())


def test_another_programs_ready_line_is_not_the_engines() -> None:
    other = "gateway  | INFO:     Application startup complete."
    assert parse_lines([*banner(), other, *loading()]).outcome is LogOutcome.INCOMPLETE


def test_another_programs_trouble_is_not_the_engines() -> None:
    engine = [f"owl-1  | {line}" for line in startup()[:4]]
    other = [
        "gateway  | Traceback (most recent call last):",
        "gateway  | httpx.ConnectError: all connection attempts failed",
        "gateway  | INFO:     Application startup complete.",
    ]
    assert parse_lines([*engine, *other]).outcome is LogOutcome.INCOMPLETE
    same = [line.replace("gateway", "owl-1") for line in other[:2]]
    assert parse_lines([*engine, *same]).last_error == "httpx.ConnectError: all connection attempts failed"


def test_a_failure_before_the_first_record_is_one() -> None:
    importing = [
        "Traceback (most recent call last):",
        '  File "/opt/venv/lib/python3.12/site-packages/vllm/entrypoints/cli/main.py", line 3, in <module>',
        "    import torch",
        "ModuleNotFoundError: No module named 'torch'",
    ]
    parsed = parse_lines(importing)
    assert (parsed.outcome, parsed.failed_stage) == (LogOutcome.FAILED, "framework_bootstrap")
    assert parsed.last_error == "ModuleNotFoundError: No module named 'torch'"
    arguments = parse_lines(
        ["usage: vllm serve [model_tag] [options]", "vllm serve: error: unrecognized arguments: -x"]
    )
    assert arguments.last_error == "vllm serve: error: unrecognized arguments: -x"


def test_a_warning_that_names_an_exception_is_no_failure() -> None:
    warning = record(12, "ImportError: a kernel is not there", level="WARNING")
    assert parse_lines([*loading()[:1], warning]).outcome is LogOutcome.INCOMPLETE


def test_a_served_request_shows_that_the_server_is_up() -> None:
    lines = [*startup()[:-1], f'{API} INFO:     127.0.0.1:5 - "POST /v1/completions HTTP/1.1" 200 OK']
    parsed = parse_lines(lines)
    assert parsed.outcome is LogOutcome.READY
    assert any("ready line is missing" in note for note in parsed.notes)


@pytest.mark.parametrize("length", range(1, len(startup())))
def test_a_log_that_ends_early_is_incomplete(length: int) -> None:
    assert parse_lines(startup()[:length]).outcome is LogOutcome.INCOMPLETE


@pytest.mark.parametrize(
    ("lines", "stage"),
    [
        (banner(), "framework_bootstrap"),
        (loading()[:1], "model_loading"),
        (loading(), "kv_cache_profiling"),
        ([*loading(), *compiling()[:2]], "torch_compile"),
        ([*loading(), *compiling()], "kv_cache_profiling"),
        ([*loading(), *compiling(), *finishing()[:2]], "other"),
        ([*loading(), *compiling(), *finishing()[:3]], "cuda_graph_capture"),
        ([*loading(), *compiling(), *finishing()[:5]], "other"),
        ([*loading(), *compiling(), *finishing()], "other"),
    ],
)
def test_a_failure_is_located_by_what_was_passed(lines: list[str], stage: str) -> None:
    failure = [
        record(50, "EngineCore failed to start.", level="ERROR"),
        record(50, "Traceback (most recent call last):", level="ERROR"),
        record(50, "    raise ValueError(reason)", level="ERROR"),
        record(50, "ValueError: no good with token hf_abcdefghijklmnop", level="ERROR"),
        f"{API} RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {{}}",
    ]
    parsed = parse_lines([*lines, *failure])
    assert parsed.outcome is LogOutcome.FAILED
    assert parsed.failed_stage == stage
    assert parsed.last_error == "ValueError: no good with token ***"


@pytest.mark.parametrize(
    ("line", "error"),
    [
        ("[rank0]: torch.OutOfMemoryError: no memory is left", "torch.OutOfMemoryError: no memory is left"),
        ("*** SIGSEGV received at time=17 on cpu 3 ***", "*** SIGSEGV received at time=17 on cpu 3 ***"),
        ("HW Exception by GPU node-4: GPU Hang", "HW Exception by GPU node-4: GPU Hang"),
        ("Killed", "Killed"),
        ("Aborted (core dumped)", "Aborted (core dumped)"),
        (
            record(9, "Process RustFrontend (PID: 5) died with exit code 1", level="ERROR"),
            "Process RustFrontend (PID: 5) died with exit code 1",
        ),
        ("KeyboardInterrupt", "KeyboardInterrupt"),
    ],
)
def test_an_end_without_vllms_own_words_is_a_failure(line: str, error: str) -> None:
    parsed = parse_lines([*loading()[:1], line])
    assert parsed.outcome is LogOutcome.FAILED
    assert parsed.last_error == error


def test_trouble_that_the_startup_survives_is_no_failure() -> None:
    trouble = [
        record(12, "Error retrieving a file list", level="ERROR"),
        f"{ENGINE} Traceback (most recent call last):",
        f"{ENGINE} OSError: not on the hub",
    ]
    parsed = parse_lines([*loading()[:1], *trouble, *loading()[1:]])
    assert parsed.outcome is LogOutcome.INCOMPLETE
    assert parsed.last_error is None


def test_an_engine_that_hangs_is_incomplete_and_says_so() -> None:
    waiting = record(99, "No available shared memory broadcast block found in 60 seconds.")
    parsed = parse_lines([*loading(), waiting])
    assert parsed.outcome is LogOutcome.INCOMPLETE
    assert any("waited for one another" in note for note in parsed.notes)


def test_after_a_failure_the_next_startup_counts() -> None:
    args = record(0, "non-default args: {'model': 'acme/Owl-3B', 'max_num_seqs': 16}", process=API)
    failed = [*loading(weights="8.00"), record(20, "EngineCore failed to start.", level="ERROR")]
    parsed = parse_lines([*failed, args, *loading(), *serving()])
    assert parsed.outcome is LogOutcome.READY
    assert parsed.parts["weight_loading"] == 3.25
    assert parsed.spec["engine"]["max_num_seqs"] == 16


@pytest.mark.parametrize("text", ["", "hello", "vllm serve owl: killed", "INFO:     Application startup complete.\n"])
def test_what_is_no_vllm_log_is_a_clear_error(text: str) -> None:
    with pytest.raises(NotAVllmLog, match="give the log of a vLLM engine"):
        parse_lines(read_lines(io.BytesIO(text.encode())))
