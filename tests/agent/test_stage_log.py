import pytest

from agent.stage_log import LogOutcome, parse_lines
from tests.agent.startup_lines import compiling, finishing, loading, record, startup


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


@pytest.mark.parametrize(
    ("mode", "stage"), [("CompilationMode", "torch_compile"), ("CUDAGraphMode", "cuda_graph_capture")]
)
def test_stages_that_the_configuration_leaves_out_are_zero(mode: str, stage: str) -> None:
    engine = record(8, f"Initializing a V1 LLM engine (v0.24.0) with config: model='m', mode: <{mode}.NONE: 0>")
    assert parse_lines([engine]).stages == {stage: 0.0}


def test_what_follows_the_ready_line_is_not_the_startup() -> None:
    later = [
        record(90, "Loading weights took 99.00 seconds"),
        record(91, "EngineCore hit an exception: Traceback", level="ERROR"),
    ]
    assert parse_lines([*startup(), *later]) == parse_lines(startup())
