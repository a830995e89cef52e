"""The shipped files: every row is a sound measurement, and the figures are those of the publication."""

from collections import Counter

import pytest

from app.reference import aliases, load_reference
from app.schemas.measurement import Measurement
from app.stages import PARTS_OF, SIX_STAGES, STAGES, Part, Stage

MEASUREMENTS = load_reference()
MODELS_OF_THE_PAPER = 25


def select(model: str, **facts: str) -> list[Measurement]:
    return [m for m in MEASUREMENTS if m.spec.model.name == model and facts.items() <= m.facts.items()]


def one(model: str, **facts: str) -> Measurement:
    (found,) = select(model, **facts)
    return found


def describe(measurement: Measurement) -> str:
    return f"{measurement.facts['source']} {measurement.spec.model.name}"


def test_ids_are_unique_and_the_same_in_every_load() -> None:
    assert len({m.id for m in MEASUREMENTS}) == len(MEASUREMENTS)
    assert [m.id for m in load_reference()] == [m.id for m in MEASUREMENTS]


def test_no_row_of_the_publication_stands_twice() -> None:
    assert len({(m.facts["source"], m.facts["label"]) for m in MEASUREMENTS}) == len(MEASUREMENTS)
    same_figures = Counter((m.total_seconds, tuple(m.part_seconds.items())) for m in MEASUREMENTS)
    assert max(same_figures.values()) == 1


def test_seven_stages_sum_to_the_wall_clock() -> None:
    whole = [m for m in MEASUREMENTS if set(m.stage_seconds) == set(STAGES)]
    assert len(whole) > 500
    for measurement in whole:
        stages = sum(measurement.stage_seconds.values())
        assert stages == pytest.approx(measurement.total_seconds, abs=1e-6), describe(measurement)


def test_parts_sum_to_their_stage_except_where_loading_holds_more() -> None:
    for measurement in MEASUREMENTS:
        for stage in set(SIX_STAGES) & set(measurement.stage_seconds):
            parts = sum(measurement.part_seconds.get(part, 0.0) for part in PARTS_OF[stage])
            rest = measurement.stage_seconds[stage] - parts
            assert -0.006 < rest < (2 if stage is Stage.MODEL_LOADING else 1e-5), (describe(measurement), stage)


def test_every_row_names_its_machine_engine_and_origin() -> None:
    for measurement in MEASUREMENTS:
        spec, facts = measurement.spec, measurement.facts
        assert not measurement.unknown_fields(), describe(measurement)
        assert spec.hardware.node.split("/")[0] == facts["machine"]
        assert spec.hardware.cpu
        assert spec.hardware.cpu_cores
        assert spec.engine.version
        assert {"experiment", "iteration", "table", "label", "source"} <= facts.keys()
        assert measurement.source == "reference"


def test_compile_state_agrees_with_the_parts() -> None:
    for measurement in MEASUREMENTS:
        state, parts = measurement.spec.cache.compile, measurement.part_seconds
        # An agent that finds nothing in the cache has still looked: 0.1 ms of loading.
        assert (parts.get(Part.GRAPH_COMPILE, 0.0) > 0.01) == (state in ("cold", "disabled")), describe(measurement)
        assert (parts.get(Part.GRAPH_LOAD, 0.0) > 0.01) == (state == "warm"), describe(measurement)


def test_weights_state_agrees_with_the_bandwidth() -> None:
    for measurement in MEASUREMENTS:
        seconds, size = measurement.parts.weight_loading, measurement.spec.model.weight_bytes
        state, machine = measurement.spec.cache.weights, measurement.facts["machine"]
        if seconds and size and state == "disk" and machine == "n1":
            assert size / seconds < 1e9, describe(measurement)
        if machine == "h200":  # It reads from page cache and disk at 1.7 to 6.9 GB/s: see docs/h200.md.
            continue
        if seconds and size and state == "page_cache" and measurement.facts.get("value") != "bitsandbytes":
            assert size / seconds >= 5e9 or measurement.facts["table"] == "load_formats", describe(measurement)


def test_a_known_run() -> None:
    run = one("deepseek-r1-distill-llama-8b", experiment="figures/figure-rest", iteration="1")
    assert run.total_seconds == 53.144
    assert run.spec.hardware.gpu == "NVIDIA H100 NVL"
    assert run.spec.cache.model_dump(exclude_none=True) == {
        "weights": "disk",
        "compile": "warm",
        "model_inspection": "cold",
    }
    assert run.stage_seconds == pytest.approx(
        {
            Stage.FRAMEWORK_BOOTSTRAP: 7.999,
            Stage.TOKENIZER_INIT: 0.37,
            Stage.MODEL_LOADING: 29.960516,
            Stage.TORCH_COMPILE: 5.61 + 4.833,
            Stage.KV_CACHE_PROFILING: 1.577,
            Stage.CUDA_GRAPH_CAPTURE: 1.21,
            Stage.OTHER: 53.144 - (7.999 + 0.37 + 29.960516 + 5.61 + 4.833 + 1.577 + 1.21),
        }
    )


def test_a_compiling_first_run() -> None:
    run = one("qwen-7b", experiment="experiments/node7/examples/model_size2", iteration="uncached")
    assert run.spec.cache.compile == "cold"
    assert run.parts.graph_compile == 14.28
    assert run.stages.torch_compile == pytest.approx(5.36 + 14.28)
    assert run.spec.cache.weights is None  # Partly cold: 15.44 GB in 8.13 s.


def test_compilation_switched_off_is_an_engine_field() -> None:
    run = one("llama2-7b-hf", experiment="node5/kv_cache_profiling")
    assert run.spec.engine.optimization_level == 0
    assert run.stages.torch_compile == 0.0
    assert run.stages.cuda_graph_capture == 2.13
    assert run.spec.cache.compile is None


def test_factors_become_fields() -> None:
    busy = one("qwen-4b", experiment="node7/cpu_load", value="75")
    assert busy.spec.hardware.cpu_busy_fraction == 0.75
    assert one("llama3-3b", factor="tmpfs", value="tmpfs").spec.hardware.storage == "tmpfs"
    streamed = one(
        "yi-6b", run="avg", experiment="figure-14", label="output_model_yi-6b_load-format_runai_streamer.txt"
    )
    assert streamed.spec.engine.load_format == "runai_streamer"
    captured = {m.spec.engine.num_cudagraph_sizes for m in MEASUREMENTS if m.facts["experiment"] == "figures/figure-9"}
    assert captured == {3, 10, 20, 30, 40, 50, 60}
    assert one("qwen-14b", experiment="figure-10/gpu1", iteration="2").spec.engine.max_model_len == 16752
    assert one("llama2-7b-hf-awq").spec.model.weight_bytes is None
    assert one("llama2-7b-hf", value="bitsandbytes").spec.model.quantization == "bitsandbytes"


def test_a_listed_capture_is_counted() -> None:
    runs = select("gpt-oss-20b", experiment="figures/figure-rest")
    assert {m.spec.engine.num_cudagraph_sizes for m in runs} == {35}
    assert {m.spec.model.quantization for m in runs} == {"mxfp4"}


def test_sizes_are_in_bytes() -> None:
    model = one("falcon-11b", experiment="figures/figure-rest", iteration="1").spec.model
    assert model.tokenizer_bytes == round(2.7 * 2**20)
    assert model.compiled_graph_bytes == 1716 * 1024
    assert model.weight_bytes == 22_200_000_000


def test_other_versions_hold_only_what_was_observed() -> None:
    old = one("opt-6.7b", source="figures/figure-1/iterations/output_0.3.1.txt")
    assert (old.spec.engine.version, old.total_seconds) == ("0.3.1", 8.17)
    assert old.stage_seconds == {Stage.CUDA_GRAPH_CAPTURE: 2.0}
    new = one("opt-6.7b", source="figures/figure-1/iterations/output_0.11.0.txt")
    assert new.spec.cache.model_inspection == "warm"
    assert new.stages.torch_compile == pytest.approx(1.93 + 1.47)


def test_early_campaigns_have_no_bootstrap() -> None:
    early = [m for m in MEASUREMENTS if m.spec.hardware.node.endswith("/early")]
    assert early
    assert all(m.stages.framework_bootstrap is None and m.parts.imports is None for m in early)


def test_every_model_of_the_paper_has_hub_ids() -> None:
    names = aliases()
    assert len(set(names.values())) == MODELS_OF_THE_PAPER + 1  # And the one model measured on other versions.
    assert all(hub_id == hub_id.lower() and hub_id.count("/") == 1 for hub_id in names)
    assert names["meta-llama/llama-3.1-8b"] == names["meta-llama/llama-3.1-8b-instruct"] == "llama3.1-8b-instruct"
    measured = {m.spec.model.name for m in MEASUREMENTS}
    assert set(names.values()) - measured <= {"mpt-7b", "olmoe-7b"}  # Described by the paper, timed nowhere public.
