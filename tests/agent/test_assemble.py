"""Assembly, on events recorded from real startups and on trees written by hand."""

import itertools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.assemble import Assembled, assemble, read_events
from app.stages import PARTS_OF, Stage
from tests.agent.process_trees import Tree, cold_gpu, warm_gpu

SPANS = Path(__file__).parent / "spans"
SIX = (
    "framework_bootstrap",
    "tokenizer_init",
    "model_loading",
    "torch_compile",
    "kv_cache_profiling",
    "cuda_graph_capture",
)


def recorded(name: str) -> tuple[Assembled, float]:
    folder = SPANS / name
    moments = json.loads((folder / "launcher.json").read_text())
    return assemble(read_events(folder), **moments), moments["healthy_at"] - moments["spawned_at"]


def differences(tree: Tree) -> list[str]:
    return [note for note in tree.assembled().notes if " by the log " in note]


GPU = ["h200_v1_cold", "h200_v2_warm", "h200_v2_eager", "h200_v2_two_ranks"]
RECORDED = ["cpu_first_start", "cpu_second_start", "cpu_two_ranks", "cpu_first_start_0_11", *GPU]


@pytest.mark.parametrize("name", RECORDED)
def test_a_real_startup_is_accounted_for(name: str) -> None:
    assembled, total = recorded(name)
    assert assembled.notes == []
    assert tuple(assembled.stages) == SIX
    assert sum(assembled.parts.values()) == pytest.approx(total, abs=1e-4)
    assert assembled.parts["unaccounted"] < 0.03 * total
    assert 0 < assembled.hook_seconds <= 0.1


@pytest.mark.parametrize("name", RECORDED)
def test_the_parts_of_each_stage_sum_to_it(name: str) -> None:
    assembled, _ = recorded(name)
    for stage, seconds in assembled.stages.items():
        parts = sum(assembled.parts[part.value] for part in PARTS_OF[Stage(stage)])
        assert seconds == pytest.approx(parts, abs=1e-4)


def test_a_first_start_inspects_and_compiles_and_a_second_does_not_inspect() -> None:
    first, second = recorded("cpu_first_start")[0], recorded("cpu_second_start")[0]
    assert first.cache == {"compile": "cold", "model_inspection": "cold"}
    assert second.cache["model_inspection"] == "warm"
    assert second.parts["model_inspection"] < 0.1 * first.parts["model_inspection"]
    assert second.parts["graph_compile"] < 0.5 * first.parts["graph_compile"]
    assert first.stages["cuda_graph_capture"] == 0.0
    assert first.engine["version"] == "0.27.1"
    assert first.engine["max_num_batched_tokens"] == 2048


def test_dynamo_is_bounded_where_the_engine_only_says_that_it_begins() -> None:
    # vLLM to 0.15 without a GPU: Dynamo from the monitor's start (259.58) to Inductor's (261.21), inside the warm-up.
    assembled, _ = recorded("cpu_first_start_0_11")
    assert assembled.engine["version"] == "0.11.2"
    assert assembled.parts["dynamo_transform"] == pytest.approx(1.63, abs=0.01)
    assert assembled.parts["graph_compile"] == pytest.approx(25.38, abs=0.01)
    assert assembled.parts["kernel_warmup"] < 0.2


def test_two_ranks_count_once() -> None:
    assembled, total = recorded("cpu_two_ranks")
    assert assembled.facts["ranks"] == 2
    assert assembled.engine["tensor_parallel_size"] == 2
    loading = assembled.facts["rank_loading_seconds"]
    assert max(loading) - 0.02 <= assembled.stages["model_loading"] < sum(loading)
    assert sum(assembled.stages.values()) < total


def test_a_cold_gpu_startup_by_hand() -> None:
    # The tree of cold_gpu, in its own numbers: see there for each.
    assembled = cold_gpu().assembled()
    assert assembled.parts == pytest.approx(
        {
            "imports": 9.5,  # 5 in the front end, 4 in the engine, 0.5 while the worker starts.
            "platform_detection": 0.5,
            "model_inspection": 3.0,
            "worker_init": 1.5,
            "tokenizer_init": 1.5,  # 1 in the front end, 0.5 in the engine.
            "model_init": 1.0,
            "weight_loading": 6.0,
            "weight_postprocess": 1.0,
            "dynamo_transform": 4.0,
            "graph_compile": 7.0,
            "graph_load": 0.0,
            "kv_cache_profiling": 3.0,  # 14 less 11 of compilation.
            "cuda_graph_capture": 5.0,
            "kv_cache_allocation": 1.0,
            "kernel_warmup": 2.0,
            "server_start": 1.5,
            "unaccounted": 0.5,
        },
        abs=1e-6,
    )
    assert assembled.cache == {"compile": "cold", "model_inspection": "cold"}
    assert assembled.engine["model_runner"] == "v1"
    assert assembled.facts["cudagraph_pieces"] == 86


def test_the_second_runner_captures_graphs_inside_profiling_to_measure_them() -> None:
    assembled = warm_gpu().assembled()
    assert assembled.stages["cuda_graph_capture"] == pytest.approx(2.0)
    assert assembled.stages["kv_cache_profiling"] == pytest.approx(4.0)  # 5 less 1 of loading the graph.
    assert assembled.parts["graph_load"] == pytest.approx(1.0)
    assert assembled.parts["dynamo_transform"] == 0.0
    assert assembled.cache["compile"] == "warm"
    assert assembled.engine["model_runner"] == "v2"
    assert assembled.facts["cudagraph_estimate_seconds"] == pytest.approx(2.0)


def test_a_recorded_cold_gpu_startup_tells_what_its_log_tells() -> None:
    assembled, _ = recorded("h200_v1_cold")
    # The arguments of its log records, unrounded.
    assert assembled.parts["weight_loading"] == pytest.approx(0.183745, abs=0.01)
    assert assembled.parts["dynamo_transform"] == pytest.approx(4.261208, abs=0.002)
    assert assembled.stages["torch_compile"] == pytest.approx(15.019157, abs=0.002)
    assert assembled.stages["cuda_graph_capture"] == pytest.approx(3.276480, abs=0.002)
    assert assembled.cache == {"compile": "cold", "model_inspection": "cold"}
    assert assembled.engine["model_runner"] == "v1"
    # 51 sizes, each in 25 pieces (one more than layers) and whole: that is 102 graphs for who captures them.
    assert (assembled.engine["num_cudagraph_sizes"], assembled.facts["cudagraph_pieces"]) == (51, 51 * 26)
    assert "num_cudagraphs" not in assembled.engine


def test_a_recorded_warm_gpu_startup_reads_back_what_dynamo_made_before_it_loads_graphs() -> None:
    assembled, _ = recorded("h200_v2_warm")
    assert assembled.parts["weight_loading"] == pytest.approx(2.640254, abs=0.01)
    assert assembled.parts["dynamo_transform"] == pytest.approx(2.103858, abs=0.002)
    assert assembled.parts["graph_compile"] == 0.0
    assert assembled.stages["torch_compile"] == pytest.approx(3.714363, abs=0.002)
    assert assembled.stages["cuda_graph_capture"] == pytest.approx(4.581653, abs=0.002)
    assert assembled.cache == {"compile": "warm", "model_inspection": "warm"}
    assert assembled.engine["model_runner"] == "v2"


def test_a_rank_that_does_not_log_what_dynamo_took_goes_by_the_one_that_does() -> None:
    assembled, _ = recorded("h200_v2_two_ranks")  # Its second rank ends profiling last, and logs nothing of Dynamo.
    assert assembled.parts["dynamo_transform"] == pytest.approx(2.243754, abs=0.01)
    assert assembled.parts["graph_load"] == pytest.approx(1.14, abs=0.3)
    assert assembled.stages["torch_compile"] == pytest.approx(3.617, abs=0.002)
    assert assembled.engine["tensor_parallel_size"] == assembled.facts["ranks"] == 2


def test_a_recorded_eager_gpu_startup_neither_compiles_nor_captures() -> None:
    assembled, _ = recorded("h200_v2_eager")
    assert (assembled.stages["torch_compile"], assembled.stages["cuda_graph_capture"]) == (0.0, 0.0)
    assert "compile" not in assembled.cache
    assert assembled.engine["enforce_eager"] is True


def dynamo_line(seconds: float, at: float, *, loading: bool) -> dict[str, float]:
    """Return the parts of a startup whose backend runs from 4 to 9, and says at ``at`` what Dynamo took from 2 on."""
    tree = Tree()
    engine = tree.process(1, 0.0).span("engine_init", 0.0, 20.0).span("kv_profiling", 1.0, 15.0)
    if loading:
        engine.span("aot_load", 2.0, 10.0, note={"hit": True})
    engine.span("compile", 2.0, 10.0, note={"with_run": False}).span("backend", 4.0, 9.0)
    engine.log("[backbone] Dynamo bytecode transform time: %.2f s", [seconds], at).span("warm_up", 15.0, 20.0)
    return tree.ending(healthy=20.0).assembled().parts


def test_dynamo_ends_where_the_engine_says_so() -> None:
    cold, warm = dynamo_line(2.5, 4.5, loading=False), dynamo_line(2.5, 4.5, loading=True)
    assert (cold["dynamo_transform"], cold["graph_compile"], cold["graph_load"]) == (2.5, 5.5, 0.0)
    assert (warm["dynamo_transform"], warm["graph_compile"], warm["graph_load"]) == (2.5, 0.0, 5.5)
    assert cold["kv_cache_profiling"] == warm["kv_cache_profiling"] == 14.0 - 8.0


def test_a_line_from_outside_the_block_says_nothing_of_it() -> None:
    assert dynamo_line(9.0, 11.0, loading=False)["dynamo_transform"] == 2.0
    assert dynamo_line(9.0, 11.0, loading=True)["dynamo_transform"] == 0.0


def two_ranks() -> Tree:
    """Two workers: rank 0 is slow to load, rank 1 to profile."""
    tree = Tree()
    front = tree.process(1, 0.0, imports=[(0.0, 2.0)])
    front.span("engine_config", 2.0, 3.0).span("front_end", 3.0, 20.0)
    engine = tree.process(2, 3.0, parent=1, imports=[(3.0, 5.0)])
    engine.span("engine_init", 5.0, 20.0).span("executor_init", 5.0, 13.0)
    for rank, loaded, profiled in ((0, 13.0, 15.0), (1, 10.0, 18.0)):
        worker = tree.process(10 + rank, 5.0, parent=2, imports=[(5.0, 7.0)])
        worker.span("worker_init", 7.0, 7.5, note={"rank": rank}).span("device_init", 7.5, 8.0)
        worker.span("model_loading", 8.0, loaded).span("weight_loading", 8.5, loaded)
        worker.span("weight_postprocess", loaded - 1.0, loaded)
        worker.span("kv_profiling", 13.0, profiled).span("warm_up", 18.0, 19.0)
    return tree.ending(healthy=21.0)


def test_of_several_ranks_the_slowest_counts_in_each_step() -> None:
    parts = two_ranks().assembled().parts
    # Rank 1 repacks while rank 0 still reads, which nobody waits for.
    assert parts["weight_loading"] == pytest.approx(3.5)
    assert parts["weight_postprocess"] == pytest.approx(1.0)
    assert parts["kv_cache_profiling"] == pytest.approx(5.0)
    assert parts["imports"] == pytest.approx(2.0 + 2.0 + 2.0)
    assert parts["worker_init"] == pytest.approx(1.0)
    assert parts["unaccounted"] == pytest.approx(1.0)  # The engine, between its last worker and its end.


def test_ranks_of_another_engine_are_not_waited_for_twice() -> None:
    tree = two_ranks()
    other = tree.process(3, 3.0, parent=1, imports=[(3.0, 5.0)])
    other.span("engine_init", 5.0, 19.0)
    worker = tree.process(30, 5.0, parent=3, imports=[(5.0, 6.0)])
    worker.span("model_loading", 6.0, 17.0).span("weight_loading", 6.0, 17.0)
    assert tree.assembled().parts == two_ranks().assembled().parts


def test_a_graph_from_the_cache_is_loaded_and_a_mixture_is_told_graph_by_graph() -> None:
    def compiled(*hits: bool) -> dict[str, float]:
        tree = Tree()
        worker = tree.process(1, 0.0)
        worker.span("engine_init", 0.0, 20.0).span("model_loading", 0.0, 1.0).span("kv_profiling", 1.0, 15.0)
        worker.span("compile", 2.0, 10.0, note={"with_run": True}).span("backend", 4.0, 9.0)
        for number, hit in enumerate(hits):
            worker.span("graph", 5.0 + number, 6.0 + number).span(
                "graph_lookup", 5.0 + number, 5.5 + number, {"hit": hit}
            )
        worker.span("warm_up", 15.0, 20.0)
        return tree.ending(healthy=20.0).assembled().parts

    assert (compiled(True, True)["graph_load"], compiled(True, True)["graph_compile"]) == (5.0, 0.0)
    assert (compiled(False, False)["graph_load"], compiled(False, False)["graph_compile"]) == (0.0, 5.0)
    assert (compiled(True, False)["graph_load"], compiled(True, False)["graph_compile"]) == (1.0, 4.0)
    assert compiled(True)["dynamo_transform"] == 2.0
    # What the block holds beside is the first run, which belongs to profiling.
    assert compiled(True)["kv_cache_profiling"] == 14.0 - 7.0


def test_a_stage_that_was_not_watched_is_absent_and_one_that_did_not_happen_is_zero() -> None:
    eager = Tree()
    process = eager.process(1, 0.0, wrapped=["tokenizer", "graph_capture"])
    process.span("engine_config", 0.0, 1.0).span("engine_init", 1.0, 9.0).span("model_loading", 2.0, 3.0)
    process.span("weight_loading", 2.0, 3.0).span("kv_profiling", 3.0, 4.0).span("warm_up", 4.0, 5.0)
    assert {stage: s for stage, s in eager.ending(healthy=9.0).assembled().stages.items() if s == 0.0} == {
        "tokenizer_init": 0.0,
        "torch_compile": 0.0,
        "cuda_graph_capture": 0.0,
    }
    unseen = Tree()
    unseen.process(1, 0.0).span("engine_config", 0.0, 1.0)
    assembled = unseen.ending(healthy=9.0).assembled()
    assert list(assembled.stages) == ["framework_bootstrap"]
    assert "unaccounted" not in assembled.parts


def test_workers_out_of_sight_are_noted() -> None:
    tree = Tree()
    tree.process(1, 0.0).span("engine_config", 0.0, 1.0).span("front_end", 1.0, 8.0)
    tree.process(2, 1.0).span("engine_init", 2.0, 8.0).span("executor_init", 2.0, 7.0)
    assembled = tree.ending(healthy=9.0).assembled()
    assert assembled.notes == ["no worker was seen, as on other nodes, so what workers do is not known"]
    assert "model_loading" not in assembled.stages


def test_weights_that_came_by_an_unknown_loader_are_not_called_model_init() -> None:
    tree = Tree()
    tree.process(1, 0.0).span("engine_init", 0.0, 9.0).span("model_loading", 1.0, 8.0).span("model_init", 1.0, 2.0)
    assembled = tree.ending(healthy=9.0).assembled()
    assert assembled.stages["model_loading"] == pytest.approx(7.0)
    assert "weight_loading" not in assembled.parts
    assert "model_init" not in assembled.parts


def test_log_and_hook_that_disagree_are_noted() -> None:
    def notes(seconds: float) -> list[str]:
        tree = Tree()
        process = tree.process(7, 0.0).span("engine_init", 0.0, 9.0).span("weight_loading", 1.0, 4.0)
        process.log("Loading weights took %.2f seconds", [seconds], 4.0)
        return differences(tree.ending(healthy=9.0))

    assert notes(2.95) == []
    assert notes(2.0) == ["reading the weights took 2.00 s by the log of process 7 and 3.00 s by the hook"]


@pytest.mark.parametrize(
    ("template", "args"),
    [
        ("Compiling a graph for dynamic shape takes %.2f s", [3.0]),
        ("Compiling a graph for compile range %s takes %.2f s", ["(1, 8192)", 3.0]),
        ("[backbone] Compiling a graph for compile range %s takes %.2f s", ["(1, 8192)", 3.0]),
    ],
)
def test_the_seconds_of_a_log_line_are_told_from_its_other_arguments(template: str, args: list[Any]) -> None:
    tree = Tree()
    process = tree.process(7, 0.0).span("engine_init", 0.0, 9.0).span("graph", 1.0, 4.0)
    process.log(template, args, 4.0)
    assert differences(tree.ending(healthy=9.0)) == []


def failing(build: Callable[[Tree], None]) -> tuple[str | None, str | None]:
    tree = Tree()
    build(tree)
    assembled = tree.ending(healthy=30.0).assembled()
    return assembled.failed_in, assembled.last_error


def test_the_deepest_error_is_the_cause() -> None:
    def build(tree: Tree) -> None:
        front = tree.process(1, 0.0).span("engine_config", 0.0, 1.0)
        front.span("front_end", 1.0, 9.0, error="RuntimeError: Engine core initialization failed")
        engine = tree.process(2, 1.0, parent=1)
        engine.span("engine_init", 2.0, 8.0, error="RuntimeError: worker died")
        worker = tree.process(3, 2.0, parent=2)
        worker.span("model_loading", 3.0, 7.0, error="OutOfMemoryError: CUDA out of memory")
        worker.span("weight_loading", 4.0, 6.9, error="OutOfMemoryError: CUDA out of memory")

    assert failing(build) == ("model_loading", "OutOfMemoryError: CUDA out of memory")


def test_a_killed_worker_died_in_what_it_left_open() -> None:
    def build(tree: Tree) -> None:
        tree.process(1, 0.0).span("engine_config", 0.0, 1.0).span("front_end", 1.0, 9.0, error="RuntimeError: x")
        engine = tree.process(2, 1.0, parent=1).span("engine_init", 2.0, 8.0, error="RuntimeError: x")
        engine.error("WorkerProc died", 7.5)
        worker = tree.process(3, 2.0, parent=2)
        worker.span("kv_profiling", 3.0, None).span("compile", 4.0, None)

    assert failing(build) == ("torch_compile", "WorkerProc died")


def test_an_error_that_was_handled_is_no_cause() -> None:
    def build(tree: Tree) -> None:
        process = tree.process(1, 0.0).span("engine_init", 0.0, 9.0, error="ValueError: no room for the KV cache")
        process.span("kv_profiling", 1.0, 5.0).span("compile", 2.0, 3.0, error="AttributeError: handled")
        process.span("kv_caches", 6.0, 8.0, error="ValueError: no room for the KV cache")

    assert failing(build) == ("other", "ValueError: no room for the KV cache")


def test_an_exception_between_two_spans_died_in_the_stage_that_was_reached() -> None:
    def before(tree: Tree) -> None:
        tree.process(1, 0.0).span("arguments", 0.0, 1.0).error("OSError: no such model", 2.0)

    def after(tree: Tree) -> None:
        tree.process(1, 0.0).span("engine_init", 0.0, 9.0).span("kv_caches", 1.0, 8.0).error("OSError: port taken", 9.5)

    assert failing(before) == ("framework_bootstrap", "OSError: no such model")
    assert failing(after) == ("other", "OSError: port taken")


def test_no_event_at_all_leaves_only_the_total() -> None:
    assembled = assemble([], spawned_at=1.0, healthy_at=2.0)
    assert assembled.stages == {}
    assert assembled.parts == {}
    assert "the hook ran in no process" in assembled.notes[0]


def test_a_line_cut_off_by_death_is_passed_over(tmp_path: Path) -> None:
    (tmp_path / "5.jsonl").write_bytes(b'{"event": "process", "from": 0.0, "at": 0.1}\n{"event": "begi')
    assert [event["pid"] for event in read_events(tmp_path)] == [5]


moment = st.floats(0.0, 100.0)
events = st.lists(
    st.tuples(
        st.sampled_from([1, 2, 3]),
        st.sampled_from(
            ["engine_config", "tokenizer", "engine_init", "model_loading", "compile", "backend", "warm_up"]
        ),
        moment,
        moment,
    ),
    max_size=12,
)


def tree_of(spans: list[tuple[int, str, float, float]]) -> Tree:
    tree = Tree()
    processes = {pid: tree.process(pid, 0.0) for pid in (1, 2, 3)}
    for pid, name, one, other in spans:
        processes[pid].span(name, min(one, other), max(one, other))
    return tree


@given(spans=events, start=moment, end=moment)
def test_whatever_overlaps_the_parts_never_exceed_the_total(
    spans: list[tuple[int, str, float, float]], start: float, end: float
) -> None:
    start, end = min(start, end), max(start, end)
    tree = tree_of(spans)
    tree.spawned, tree.healthy = start, end
    assembled = tree.assembled()
    assert all(seconds >= 0 for seconds in assembled.parts.values())
    assert sum(assembled.stages.values()) <= end - start + 1e-4
    if "unaccounted" in assembled.parts:
        other = sum(assembled.parts[part.value] for part in PARTS_OF[Stage.OTHER])
        assert sum(assembled.stages.values()) + other == pytest.approx(end - start, abs=1e-4)


@given(spans=events, seed=st.randoms(use_true_random=False))
def test_the_order_of_the_files_does_not_matter(spans: list[tuple[int, str, float, float]], seed: Any) -> None:
    tree = tree_of(spans).ending(healthy=100.0)
    by_file = [list(group) for _, group in itertools.groupby(tree.events, key=lambda event: event["pid"])]
    seed.shuffle(by_file)
    shuffled = assemble(itertools.chain(*by_file), spawned_at=0.0, healthy_at=100.0)
    assert shuffled.parts == pytest.approx(tree.assembled().parts)


def test_a_startup_plan_that_skips_stages_is_told() -> None:
    tree = Tree()
    front = tree.process(1, 0.0, imports=[(0.0, 5.5)])
    front.span("engine_config", 5.5, 8.5, note={"version": "0.27.1", "startup_plan": "1", "dtype": "bfloat16"})
    assert tree.assembled().facts["resolved"] == {"dtype": "bfloat16", "startup_plan": "1"}
