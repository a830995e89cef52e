import io

import pytest

from agent.stage_log import LogOutcome, NotAVllmLog, parse_lines, read_lines
from tests.agent.startup_lines import API, ENGINE, banner, compiling, finishing, loading, record, serving, startup


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


OTHER_JSON = '{"time": "2026-03-01T10:00:00Z", "level": "info", "msg": "a gateway of another kind"}'


@pytest.mark.parametrize(
    "text", ["", "hello", "vllm serve owl: killed", OTHER_JSON, "INFO:     Application startup complete.\n"]
)
def test_what_is_no_vllm_log_is_a_clear_error(text: str) -> None:
    with pytest.raises(NotAVllmLog, match="give the log of a vLLM engine"):
        parse_lines(read_lines(io.BytesIO(text.encode())))


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
