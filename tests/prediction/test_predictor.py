import json
import math
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from app.errors import AmbiguousHardware, UnknownModel
from app.prediction.fit import fit
from app.prediction.observation import Observation
from app.prediction.predictor import Predictor
from app.prediction.recipe import Recipe
from app.reference import aliases, load_reference, models
from app.schemas.prediction import Prediction, Rung
from app.schemas.spec import KernelCache, Spec, WeightsState
from app.stages import STAGES, Part, Stage
from bench.corruption import scaled
from tests.prediction.startups import MODEL, STAGE_SECONDS, TOTAL_SECONDS, node, spec, startup

H100_NVL = "NVIDIA H100 NVL"
LLAMA = "deepseek-r1-distill-llama-8b"
SLACK = 1e-9


def assert_is_sound(prediction: Prediction) -> None:
    assert [stage.stage for stage in prediction.stages] == list(STAGES)
    assert math.isclose(sum(stage.seconds for stage in prediction.stages), prediction.total.seconds, abs_tol=SLACK)
    for stage in prediction.stages:
        assert math.isclose(sum(part.seconds for part in stage.parts), stage.seconds, abs_tol=SLACK)
        assert all(part.seconds >= 0 for part in stage.parts)
        assert 0 <= stage.lower_seconds <= stage.seconds + SLACK
        assert stage.seconds <= stage.upper_seconds + SLACK
    total = prediction.total
    assert 0 <= total.lower_seconds <= total.seconds + SLACK
    assert total.seconds <= total.upper_seconds + SLACK
    assert math.isfinite(total.upper_seconds)
    if total.p90_seconds is not None:
        assert total.seconds <= total.p90_seconds + SLACK <= total.upper_seconds + 2 * SLACK
    if total.p99_seconds is not None:
        assert total.upper_seconds <= total.p99_seconds + SLACK


@st.composite
def specs(draw: st.DrawFn) -> Spec:
    optional = lambda values: st.one_of(st.none(), values)  # noqa: E731  # Reads as a word of the strategy below.
    model: dict[str, Any] = {
        "name": draw(st.sampled_from(["some/model", LLAMA, "meta-llama/Llama-3.1-8B", "qwen-4b"])),
        "weight_bytes": draw(st.integers(0, 10**13)),
        "num_layers": draw(optional(st.integers(0, 200))),
        "num_mamba_layers": draw(optional(st.integers(0, 300))),
        "num_experts": draw(optional(st.integers(0, 512))),
        "tokenizer_bytes": draw(optional(st.integers(0, 10**9))),
        "compiled_graph_bytes": draw(optional(st.integers(0, 10**8))),
        "quantization": draw(optional(st.sampled_from(["fp8", "awq"]))),
    }
    hardware = {"gpu": draw(st.sampled_from([H100_NVL, "NVIDIA L40S", "NVIDIA B200"]))}
    engine = {
        "version": draw(optional(st.sampled_from(["0.9", "0.10.1.1", "0.24.0"]))),
        "tensor_parallel_size": draw(optional(st.integers(1, 64))),
        "enforce_eager": draw(optional(st.booleans())),
        "num_cudagraph_sizes": draw(optional(st.integers(0, 500))),
        "max_num_seqs": draw(optional(st.integers(1, 2000))),
    }
    cache = {
        "weights": draw(optional(st.sampled_from(["network", "disk", "page_cache", "gpu"]))),
        "weights_cached_fraction": draw(optional(st.floats(0, 1))),
        "compile": draw(optional(st.sampled_from(["cold", "warm", "disabled"]))),
        "kernels": draw(optional(st.sampled_from(["cold", "partial", "warm"]))),
    }
    return Spec.of(model, hardware, engine=engine, cache=cache)


WIDE = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@WIDE
@given(spec=specs())
def test_every_prediction_is_sound(predictor: Predictor, spec: Spec) -> None:
    assert_is_sound(predictor.predict(spec))


@WIDE
@given(spec=specs(), more=st.floats(1.0, 100.0))
def test_more_bytes_are_never_faster(predictor: Predictor, spec: Spec, more: float) -> None:
    assume(spec.model.weight_bytes is not None)
    heavier = spec.model_copy(
        update={"model": spec.model.model_copy(update={"weight_bytes": int((spec.model.weight_bytes or 0) * more)})}
    )
    light, heavy = predictor.predict(spec).total, predictor.predict(heavier).total
    assert heavy.seconds >= light.seconds - SLACK
    assert heavy.upper_seconds >= light.upper_seconds - SLACK


@WIDE
@given(spec=specs())
def test_disk_is_never_faster_than_page_cache(predictor: Predictor, spec: Spec) -> None:
    def told(weights: WeightsState) -> float:
        cache = spec.cache.model_copy(update={"weights": weights, "weights_cached_fraction": None})
        return predictor.predict(spec.model_copy(update={"cache": cache})).total.seconds

    assert told(WeightsState.DISK) >= told(WeightsState.PAGE_CACHE) - SLACK
    assert told(WeightsState.NETWORK) >= told(WeightsState.PAGE_CACHE) - SLACK


@WIDE
@given(spec=specs(), own_h200=st.booleans())
def test_building_more_kernels_is_never_faster(predictor: Predictor, spec: Spec, own_h200: bool) -> None:
    if own_h200:
        spec = spec.model_copy(update={"hardware": spec.hardware.model_copy(update={"gpu": "NVIDIA H200"})})

    def told(kernels: KernelCache) -> float:
        cache = spec.cache.model_copy(update={"kernels": kernels})
        return predictor.predict(spec.model_copy(update={"cache": cache})).total.seconds

    assert told(KernelCache.WARM) <= told(KernelCache.PARTIAL) + SLACK
    assert told(KernelCache.PARTIAL) <= told(KernelCache.COLD) + SLACK


@WIDE
@given(spec=specs())
def test_explained_terms_sum_to_the_answer(predictor: Predictor, spec: Spec) -> None:
    plain, explained = predictor.predict(spec), predictor.predict(spec, explain=True)
    assert plain.total == explained.total
    for stage in explained.stages:
        for part in stage.parts:
            assert part.terms is not None
            assert math.isclose(sum(term.seconds for term in part.terms), part.seconds, abs_tol=SLACK)
            assert all(
                math.isclose(t.value * t.coefficient, t.seconds, rel_tol=1e-9, abs_tol=SLACK) for t in part.terms
            )


def test_the_cache_state_is_told_apart_where_it_is_known(predictor: Predictor) -> None:
    disk = predictor.predict(Spec.of(LLAMA, H100_NVL, cache={"weights": "disk", "compile": "warm"}))
    page = predictor.predict(Spec.of(LLAMA, H100_NVL, cache={"weights": "page_cache", "compile": "warm"}))
    unknown = predictor.predict(Spec.of(LLAMA, H100_NVL))
    assert disk.total.seconds == pytest.approx(53.2, rel=0.1)  # The paper's node n1, figure-rest.
    assert page.total.seconds < disk.total.seconds - 15
    assert unknown.total.lower_seconds <= page.total.seconds
    assert unknown.total.upper_seconds >= disk.total.seconds
    assert any(told.startswith("cache.weights") for told in unknown.basis.assumed)
    assert not any(told.startswith("cache.weights") for told in disk.basis.assumed)
    assert {disk.basis.rung, unknown.basis.rung} == {Rung.REFERENCE}


@pytest.mark.parametrize(
    ("model", "part"), [("llama3.1-8b", Part.KERNEL_WARMUP), ("qwen2.5-0.5b", Part.KV_CACHE_PROFILING)]
)
def test_kernels_are_built_where_the_model_runner_builds_them(predictor: Predictor, model: str, part: Part) -> None:
    def seconds(compile_cache: str, kernels: str | None, version: str = "0.24.0") -> dict[Part, float]:
        cache = {"weights": "page_cache", "compile": compile_cache, "model_inspection": "warm", "kernels": kernels}
        answer = predictor.predict(Spec.of(model, "NVIDIA H200", engine={"version": version}, cache=cache))
        return {Part(p.part): p.seconds for stage in answer.stages for p in stage.parts}

    cold, partial, warm, unknown = (seconds("warm", state) for state in ("cold", "partial", "warm", None))
    assert min(cold[part], partial[part]) > warm[part] + 4
    assert warm[part] < unknown[part] < cold[part]
    assert all(cold[other] == warm[other] for other in Part if other is not part)
    assert seconds("cold", "warm") == seconds("cold", "cold")  # A cold compile cache brings its own.
    assert seconds("warm", "cold", "0.10.1.1") == seconds("warm", "warm", "0.10.1.1")  # It builds none.


@pytest.mark.parametrize("name", ["meta-llama/Llama-3.1-8B", "META-LLAMA/llama-3.1-8b-instruct", "llama-3.1-8b"])
def test_hub_ids_name_reference_models(predictor: Predictor, name: str) -> None:
    prediction = predictor.predict(Spec.of(name, "H100 NVL", cache={"weights": "page_cache", "compile": "warm"}))
    assert prediction.total.seconds == pytest.approx(25.4, rel=0.1)  # The same shape as its distillation on n1.


def test_a_model_that_nobody_knows_needs_facts(predictor: Predictor) -> None:
    with pytest.raises(UnknownModel):
        predictor.predict(Spec.of("nobody/knows-me", H100_NVL))
    assert_is_sound(predictor.predict(Spec.of({"name": "nobody/knows-me", "num_parameters": 10**9}, H100_NVL)))
    config = {"num_hidden_layers": 16, "hidden_size": 2048, "vocab_size": 128256}
    assert_is_sound(predictor.predict(Spec.of({"name": "nobody/knows-me", "config": config}, H100_NVL)))


def test_a_model_of_which_only_facts_are_known_has_the_bounds_of_an_unknown_one() -> None:
    shipped = next(model for model in models() if model.name == "mpt-7b")
    observations = [Observation.of(m, reference=True) for m in load_reference()]
    fitted = Predictor(fit(observations, aliases=aliases(), known_models=models()))
    facts = shipped.model_dump(exclude_none=True)
    cache = {"weights": "page_cache", "compile": "warm"}
    known, new = (fitted.predict(Spec.of({**facts, "name": n}, H100_NVL, cache=cache)) for n in ("mpt-7b", "a/new"))
    assert width(known) == pytest.approx(width(new))


def test_an_ambiguous_name_lists_its_candidates(predictor: Predictor) -> None:
    with pytest.raises(AmbiguousHardware) as raised:
        predictor.predict(Spec.of(LLAMA, "NVIDIA"))
    assert len(raised.value.candidates) > 1


def test_an_unknown_gpu_is_answered_with_wider_bounds(predictor: Predictor) -> None:
    known, unknown = (
        predictor.predict(Spec.of(LLAMA, gpu, cache={"weights": "page_cache", "compile": "warm"}))
        for gpu in (H100_NVL, "NVIDIA B200")
    )
    assert width(unknown) > width(known)
    assert any(told.startswith("hardware.gpu") for told in unknown.basis.assumed)


def test_more_ranks_than_measured_are_extrapolated(predictor: Predictor) -> None:
    cache = {"weights": "page_cache", "compile": "warm"}
    one = predictor.predict(Spec.of(LLAMA, H100_NVL, cache=cache))
    eight = predictor.predict(Spec.of(LLAMA, H100_NVL, cache=cache, engine={"tensor_parallel_size": 8}))
    assert not one.basis.extrapolated
    assert any(told.startswith("engine.tensor_parallel_size") for told in eight.basis.extrapolated)
    assert width(eight) > width(one)


def width(prediction: Prediction) -> float:
    return (prediction.total.upper_seconds - prediction.total.lower_seconds) / prediction.total.seconds


@pytest.mark.parametrize("weights", ["page_cache", "disk"])
def test_history_without_a_node_is_as_sure_as_what_shows_that_state(predictor: Predictor, weights: str) -> None:
    # Disk starts of this model were measured under one label of the node only, and repeat there to a hundredth.
    answer = predictor.predict(Spec.of(LLAMA, H100_NVL, cache={"weights": weights, "compile": "warm"}))
    assert width(answer) < 0.15


@pytest.mark.parametrize("factor", [0.4, 3.0, 12.0])
def test_twenty_startups_make_a_new_node_its_own(some_reference: list[Observation], factor: float) -> None:
    own = node(factor, of=spec())
    predictor = Predictor(fit([*some_reference, *own], aliases=aliases()))
    for asked in (spec(), spec(MODEL["name"]), Spec.of(MODEL["name"], "Zeta 900")):
        prediction = predictor.predict(asked)
        assert prediction.total.seconds == pytest.approx(factor * TOTAL_SECONDS, rel=0.02)
        assert prediction.basis.rung is Rung.HISTORY
        assert prediction.basis.measurements == len(own)
    other = predictor.predict(spec({"name": "another", "weight_bytes": 8_000_000_000, "num_layers": 32}))
    assert other.basis.rung is Rung.HARDWARE
    elsewhere = predictor.predict(spec(hardware="NVIDIA B200"))
    assert elsewhere.basis.rung is Rung.POOLED


def test_a_model_measured_by_name_alone_is_answered(some_reference: list[Observation]) -> None:
    named = spec("some-name", "Foo GPU 7")
    own = [startup(f"agent/{i}", of=named, total_seconds=78.0) for i in range(20)]
    predictor = Predictor(fit([*some_reference, *own], aliases=aliases()))
    assert predictor.predict(named).total.seconds == pytest.approx(78.0, rel=0.05)


def test_totals_alone_scale_what_was_never_observed(some_reference: list[Observation]) -> None:
    bare = spec()
    own = [startup(f"agent/{i}", of=bare, stages={}, total_seconds=200.0) for i in range(20)]
    predictor = Predictor(fit([*some_reference, *own], aliases=aliases()))
    assert predictor.predict(bare).total.seconds == pytest.approx(200.0, rel=0.05)
    partial = [
        startup(f"agent/{i}", of=bare, stages={Stage.MODEL_LOADING: 100.0}, total_seconds=200.0) for i in range(20)
    ]
    answer = Predictor(fit([*some_reference, *partial], aliases=aliases())).predict(bare)
    assert answer.total.seconds == pytest.approx(200.0, rel=0.05)
    assert answer.stages[2].seconds == pytest.approx(100.0, rel=0.05)


def test_own_measurements_outweigh_the_reference_on_the_same_hardware(some_reference: list[Observation]) -> None:
    n1 = {"gpu": H100_NVL, "gpu_count": 1, "cpu": "AMD EPYC 9354", "cpu_cores": 32, "node": "n1"}
    asked = Spec.of(LLAMA, n1, engine={"version": "0.10.1.1"}, cache={"weights": "page_cache", "compile": "warm"})
    doubled = {stage: 2 * seconds for stage, seconds in STAGE_SECONDS.items()}
    own = [startup(f"agent/{i}", of=asked, stages=doubled, total_seconds=52.0) for i in range(3)]
    answer = Predictor(fit([*some_reference, *own], aliases=aliases())).predict(asked)
    assert answer.basis.rung is Rung.HISTORY
    assert answer.total.seconds == pytest.approx(52.0, rel=0.05)


def test_a_state_that_known_hardware_has_not_shown_is_as_unsure_as_new_hardware(
    some_reference: list[Observation],
) -> None:
    def relative_width(observations: list[Observation], compile_cache: str) -> float:
        asked = spec(cache={"weights": "page_cache", "compile": compile_cache})
        answer = Predictor(fit([*some_reference, *observations], aliases=aliases())).predict(asked)
        stage = answer.stages[list(STAGES).index(Stage.TORCH_COMPILE)]
        return (stage.upper_seconds - stage.lower_seconds) / stage.seconds

    own = node(1.0, of=spec())
    assert relative_width(own, "cold") > 0.5
    assert relative_width(own, "warm") < 0.2


def test_a_wild_node_does_not_drag_the_others(some_reference: list[Observation]) -> None:
    asked = Spec.of(LLAMA, H100_NVL, cache={"weights": "page_cache", "compile": "warm"})
    without, with_wild = (
        Predictor(fit([*some_reference, *wild], aliases=aliases())).predict(asked).total.seconds
        for wild in ([], node(10.0, of=spec()))
    )
    assert with_wild == pytest.approx(without, rel=0.01)


def test_a_model_wrong_throughout_does_not_drag_its_architecture(reference: list[Observation]) -> None:
    # All that is left of Falcon is falcon-7b, and all its startups are wrong by three.
    known = [o for o in reference if o.spec.model.name != "falcon-11b"]
    asked = next(o.spec for o in reference if o.spec.model.name == "falcon-11b")
    right, wrong = (
        Predictor(fit(observations, recipe=Recipe(folds=0), aliases=aliases())).predict(asked).total.seconds
        for observations in (known, [scaled(o, 3.0) if o.spec.model.name == "falcon-7b" else o for o in known])
    )
    assert wrong == pytest.approx(right, rel=0.2)


def test_the_smallest_model_wrong_throughout_bends_no_line(reference: list[Observation]) -> None:
    asked = next(o.spec for o in reference if o.spec.model.name == "granite4.0-h-32b")
    known = [o for o in reference if o.spec.model.name != "granite4.0-h-32b"]
    right, wrong = (
        Predictor(fit(observations, recipe=Recipe(folds=0), aliases=aliases())).predict(asked).stages[2].seconds
        for observations in (known, [scaled(o, 3.0) if o.spec.model.name == "qwen-0.5b" else o for o in known])
    )
    assert wrong == pytest.approx(right, rel=0.05)


def test_predictions_survive_the_round_trip(reference_fit: Any, predictor: Predictor) -> None:
    again = Predictor(type(reference_fit).from_json(json.loads(json.dumps(reference_fit.to_json()))))
    asked = Spec.of(LLAMA, H100_NVL)
    assert again.predict(asked) == predictor.predict(asked)


def test_a_shipped_model_that_nobody_measured_is_answered_by_its_name() -> None:
    observations = [Observation.of(m, reference=True) for m in load_reference()[:40]]
    fitted = fit(observations, aliases=aliases(), known_models=models())
    answer = Predictor(fitted).predict(Spec.of("mosaicml/mpt-7b", "NVIDIA H100 NVL"))
    assert answer.total.seconds > 0
    with pytest.raises(UnknownModel):
        Predictor(fit(observations, aliases=aliases())).predict(Spec.of("mosaicml/mpt-7b", "NVIDIA H100 NVL"))
