import io

import pytest

from agent.stage_log import parse_lines, read_lines
from agent.stage_log.clock import Moment, elapsed, find_stamp, year_seconds
from agent.stage_log.reading import CHUNK_BYTES, MAX_LINE
from agent.stage_log.startup import Startup
from agent.stage_log.wrappers import open_line
from tests.agent.startup_lines import ENGINE, WRAPPERS, loading, record, serving, startup


@pytest.mark.parametrize("name", WRAPPERS)
def test_a_wrapper_changes_nothing_that_was_printed(name: str) -> None:
    plain, wrapped = parse_lines(startup()), parse_lines(WRAPPERS[name](startup()))
    by_stamps = {"kv_cache_profiling", "server_start"}
    assert wrapped.outcome is plain.outcome
    assert {k: v for k, v in wrapped.parts.items() if k not in by_stamps} == {
        k: v for k, v in plain.parts.items() if k not in by_stamps
    }
    assert wrapped.stages["torch_compile"] == plain.stages["torch_compile"]
    assert wrapped.engine_said == plain.engine_said
    assert [rank.pid for rank in wrapped.ranks] == [22]
    runner = {"model_runner": "v1"}  # Told by a file name, which a JSON formatter leaves out.
    assert wrapped.spec["engine"] | runner == plain.spec["engine"]
    assert wrapped.spec["model"] == plain.spec["model"]


@pytest.mark.parametrize("name", WRAPPERS)
def test_a_wrapper_changes_no_error(name: str) -> None:
    lines = [
        *loading(),
        record(50, "EngineCore failed to start.", level="ERROR"),
        f"{ENGINE} ValueError: no good",
    ]
    assert parse_lines(WRAPPERS[name](lines)).last_error == "ValueError: no good"


@pytest.mark.parametrize(
    ("prefix", "process", "rank"),
    [
        ("", None, None),
        ("(EngineCore_0 pid=5) ", "EngineCore_0", None),
        ("(VllmWorker rank=3 pid=5) ", "VllmWorker", 3),
        ("(VllmWorker TP2 pid=5) ", "VllmWorker TP2", 2),
        ("(Worker_DP1_TP0_EP8 pid=5) ", "Worker_DP1_TP0_EP8", 0),
        ("(APIServer pid=4) (RayWorkerWrapper pid=5, ip=10.0.0.9) ", "RayWorkerWrapper", None),
        ("(APIServer pid=4) (pid=5, ip=10.0.0.9) ", None, None),
    ],
)
def test_the_last_process_in_brackets_wrote_the_line(prefix: str, process: str | None, rank: int | None) -> None:
    line = open_line(f"{prefix}WARNING 03-01 10:00:00 [a/b.py:3] a word (pid=9)")
    assert line.process.name == process
    assert line.process.rank == rank
    assert line.process.pid == (5 if prefix else None)
    assert line.message == "a word (pid=9)"
    assert (line.level, line.file) == ("WARNING", "a/b.py")


def test_a_worker_that_learns_its_rank_stays_one_process() -> None:
    early = [record(10, "Loading weights took 3.00 seconds", process="(Worker pid=7)")]
    late = [record(20, "Dynamo bytecode transform time: 4.00 s", process="(Worker_TP1 pid=7)")]
    ranks = parse_lines([*early, *late]).ranks
    assert [(rank.process, rank.parts) for rank in ranks] == [
        ("Worker_TP1", {"weight_loading": 3.0, "dynamo_transform": 4.0})
    ]


def test_older_heads_are_known() -> None:
    assert open_line("INFO 03-01 10:00:00 llm_engine.py:3] a word").message == "a word"
    assert open_line("2026-03-01T10:00:00Z (EngineCore pid=5) INFO [core.py:3] a word").message == "a word"
    assert open_line("DEBUG 03-01 10:00:00.250 [core.py:3] a word").at.own == year_seconds("3", "1", "10", "0", "0.25")


def test_clocks_of_several_hosts_are_not_mixed() -> None:
    far = "(APIServer pid=4) (DPEngineCoreActor pid=5, ip=10.0.0.9)"
    done = record(80, "init engine (profile, create kv cache, warmup model) took 24.75 seconds", process=far)
    parsed = parse_lines([*loading(), done, *serving()])
    assert "server_start" not in parsed.parts
    assert parsed.log_seconds == 33.0
    assert any("several hosts" in note for note in parsed.notes)
    # A collector's clock is one for all.
    stamped = [f"2026-03-01T10:00:{second:02}Z {line}" for second, line in enumerate([*loading(), done, *serving()])]
    assert parse_lines(stamped).parts["server_start"] == 2.0


def test_stamps_that_count_from_the_start_give_the_total() -> None:
    lines = [f"[{second:9.3f}] {line}" for second, line in enumerate(startup(), 20)]
    parsed = parse_lines(lines)
    assert parsed.total_seconds == 20 + len(lines) - 1
    assert parsed.log_seconds == len(lines) - 1


@pytest.mark.parametrize(
    ("first", "last", "seconds"),
    [
        ("2026-03-01 10:00:00", "2026-03-01 10:00:01.5", 1.5),
        ("2025-12-31 23:59:00", "2026-01-01 00:00:40", 100.0),
        ("2026-01-01 00:00:01", "2025-12-31 23:59:59", -2.0),
        ("2026-02-28 23:59:59", "2026-03-01 00:00:01", 2.0),
        ("2028-02-29 23:59:59", "2028-03-01 00:00:01", 2.0),
        ("2028-02-28 23:59:59", "2028-02-29 00:00:01", 2.0),
        ("Dec 31 23:59:59", "Jan  1 00:00:00", 1.0),
        ("[   1.250] x", "[  61.500] x", 60.25),
    ],
)
def test_seconds_between_stamps(first: str, last: str, seconds: float) -> None:
    assert elapsed(find_stamp(first), find_stamp(last)) == pytest.approx(seconds)


def test_stamps_of_different_clocks_do_not_compare() -> None:
    assert elapsed(Moment(own=1.0), Moment(outer=2.0)) is None
    assert elapsed(Moment(outer=1.0, own=9.0), Moment(outer=2.0, own=99.0)) == 1.0


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_encodings(encoding: str) -> None:
    text = "\r\n".join(startup())
    assert parse_lines(read_lines(io.BytesIO(text.encode(encoding)))) == parse_lines(startup())


def test_a_carriage_return_ends_a_frame_of_a_progress_bar() -> None:
    assert list(read_lines(io.BytesIO(b"one\rtwo\r\nthree"))) == ["one", "two", "three"]


def test_lines_across_chunks_stay_whole_and_endless_ones_are_cut() -> None:
    whole = "x" * (MAX_LINE - 1)
    lines = [whole] * (2 * CHUNK_BYTES // MAX_LINE + 1)
    assert list(read_lines(io.BytesIO("\n".join(lines).encode()))) == lines
    assert [len(line) for line in read_lines(io.BytesIO(b"y" * (3 * CHUNK_BYTES)))] == [MAX_LINE]


def test_only_telling_lines_are_opened_once_the_log_is_known() -> None:
    state = Startup()
    assert state.wants("INFO 03-01 10:00:00 [core.py:7] a word")
    state.take(open_line("INFO 03-01 10:00:00 [core.py:7] a word"))
    assert not state.wants("INFO 03-01 10:00:00 [core.py:7] a word")
    assert all(state.wants(line) for line in startup())
