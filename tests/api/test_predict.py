"""POST /predict: the answer of the design, for specs as people write them."""

import math
from typing import Any

import pytest
from fastapi.testclient import TestClient
from hypothesis import given, settings
from hypothesis import strategies as st

from app.schemas.spec import CompileCache, InspectionCache, Storage, WeightsState
from app.stages import PARTS_OF, STAGES
from tests.factories import make_model, make_spec
from tests.problems import assert_problem

DISTILL = "deepseek-r1-distill-llama-8b"
H100 = "NVIDIA H100 NVL"


def predict(client: TestClient, spec: dict[str, Any], **query: Any) -> dict[str, Any]:
    response = client.post("/predict", json=spec, params=query)
    assert response.status_code == 200, response.text
    prediction: dict[str, Any] = response.json()
    check_sums(prediction)
    return prediction


def check_sums(prediction: dict[str, Any]) -> None:
    total, stages = prediction["total"], prediction["stages"]
    assert [s["stage"] for s in stages] == [stage.value for stage in STAGES]
    assert math.isclose(sum(s["seconds"] for s in stages), total["seconds"], rel_tol=1e-9, abs_tol=1e-9)
    for stage in stages:
        known = {part.value for part in PARTS_OF[stage["stage"]]}
        assert {p["part"] for p in stage["parts"]} <= known
        assert math.isclose(sum(p["seconds"] for p in stage["parts"]), stage["seconds"], rel_tol=1e-9, abs_tol=1e-9)
    for row in [total, *stages]:
        assert 0 <= row["lower_seconds"] <= row["seconds"] <= row["upper_seconds"] < math.inf
    quantiles = [total["lower_seconds"], total["p90_seconds"], total["p99_seconds"]]
    assert sorted(q for q in quantiles if q is not None) == [q for q in quantiles if q is not None]


def test_a_fresh_install_answers_from_the_reference(client: TestClient) -> None:
    basis = predict(client, {"model": DISTILL, "hardware": H100})["basis"]
    assert basis["rung"] == "reference"
    assert basis["measurements"] > 0
    assert basis["fit_id"] >= 1
    assert basis["fitted_at"].endswith("Z")


def test_known_figures_of_the_reference(client: TestClient) -> None:
    def total(**cache: str) -> dict[str, Any]:
        return predict(client, {"model": DISTILL, "hardware": H100, "cache": cache})["total"]

    disk, page_cache = total(weights="disk", compile="warm"), total(weights="page_cache", compile="warm")
    assert disk["seconds"] == pytest.approx(53.2, rel=0.10)  # Measured in the paper.
    assert page_cache["seconds"] < disk["seconds"] - 15
    unknown = predict(client, {"model": DISTILL, "hardware": H100, "cache": {"compile": "warm"}})
    assert unknown["total"]["lower_seconds"] <= page_cache["seconds"]
    assert unknown["total"]["upper_seconds"] >= disk["seconds"]
    assert any(sentence.startswith("cache.weights") for sentence in unknown["basis"]["assumed"])


@pytest.mark.parametrize("gpu", ["H100 NVL", "NVIDIA H100 NVL", "nvidia h100 nvl", "h100-nvl"])
@pytest.mark.parametrize("cpu", ["AMD EPYC 9354", "AMD EPYC 9354 32-Core Processor", "epyc 9354"])
def test_hardware_as_people_and_machines_write_it(client: TestClient, gpu: str, cpu: str) -> None:
    expected = predict(client, {"model": DISTILL, "hardware": {"gpu": H100, "cpu": "AMD EPYC 9354"}})
    assert predict(client, {"model": DISTILL, "hardware": {"gpu": gpu, "cpu": cpu}}) == expected


def test_short_forms_are_the_long_ones(client: TestClient) -> None:
    short = predict(client, {"model": DISTILL, "hardware": H100})
    long = {"model": {"name": DISTILL}, "hardware": {"gpu": H100}, "engine": None, "cache": None}
    assert predict(client, long) == short
    assert predict(client, {**long, "engine": {}, "cache": {"weights": None}}) == short


@pytest.mark.parametrize("name", ["meta-llama/Llama-3.1-8B", "meta-llama/Llama-3.1-8B-Instruct"])
def test_hub_ids_mean_the_reference_models(client: TestClient, name: str) -> None:
    prediction = predict(client, {"model": name, "hardware": H100})
    assert prediction["basis"]["rung"] == "reference"
    assert prediction["stages"] == predict(client, {"model": name.upper(), "hardware": H100})["stages"]


def test_a_missing_cpu_is_assumed_and_listed(client: TestClient) -> None:
    assumed = predict(client, {"model": DISTILL, "hardware": H100})["basis"]["assumed"]
    assert any(sentence.startswith("hardware.cpu") and "EPYC 9354" in sentence for sentence in assumed)
    given_cpu = predict(client, {"model": DISTILL, "hardware": {"gpu": H100, "cpu": "AMD EPYC 9354"}})
    assert not any(sentence.startswith("hardware.cpu:") for sentence in given_cpu["basis"]["assumed"])


def test_an_ambiguous_name_lists_the_candidates(client: TestClient) -> None:
    response = client.post("/predict", json={"model": DISTILL, "hardware": "NVIDIA"})
    problem = assert_problem(response, 422, "ambiguous-hardware", "/hardware/gpu")
    assert len(problem["candidates"]) > 1
    for candidate in problem["candidates"]:
        predict(client, {"model": DISTILL, "hardware": candidate})


def test_a_config_in_place_of_fields(client: TestClient) -> None:
    config = {
        "architectures": ["LlamaForCausalLM"],
        "hidden_size": 4096,
        "intermediate_size": 14336,
        "num_hidden_layers": 32,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "vocab_size": 128256,
        "torch_dtype": "bfloat16",
    }
    by_config = predict(client, {"model": {"name": "my/model", "config": config}, "hardware": H100})
    twice = {**config, "num_hidden_layers": 64}
    assert (
        predict(client, {"model": {"name": "my/model", "config": twice}, "hardware": H100})["total"]["seconds"]
        > by_config["total"]["seconds"]
    )


def test_facts_in_the_request_win(client: TestClient) -> None:
    cache = {"weights": "disk", "compile": "warm"}
    known = predict(client, {"model": DISTILL, "hardware": H100, "cache": cache})
    heavier = {"name": DISTILL, "weight_bytes": 64_000_000_000}
    assert (
        predict(client, {"model": heavier, "hardware": H100, "cache": cache})["total"]["seconds"]
        > known["total"]["seconds"] + 10
    )


def test_explain_adds_terms_that_sum_to_their_part(client: TestClient) -> None:
    spec = make_spec(cache={"weights": "disk", "compile": "warm"})
    plain, explained = predict(client, spec), predict(client, spec, explain="true")
    assert all(part["terms"] is None for stage in plain["stages"] for part in stage["parts"])
    bandwidths = []
    for stage in explained["stages"]:
        for part in stage["parts"]:
            assert math.isclose(sum(t["seconds"] for t in part["terms"]), part["seconds"], rel_tol=1e-6, abs_tol=1e-9)
            bandwidths += [t["bytes_per_second"] for t in part["terms"] if t["bytes_per_second"]]
    assert any(1e8 < bandwidth < 1e11 for bandwidth in bandwidths)
    assert explained["total"] == plain["total"]


def test_tensor_parallelism_beyond_what_was_measured_is_extrapolated(client: TestClient) -> None:
    one = predict(client, make_spec())
    eight = predict(client, make_spec(engine={"version": "0.10.1.1", "tensor_parallel_size": 8}))
    assert any("tensor_parallel" in sentence for sentence in eight["basis"]["extrapolated"])

    def width(prediction: dict[str, Any]) -> float:
        total = prediction["total"]
        return (total["upper_seconds"] - total["lower_seconds"]) / total["seconds"]

    assert width(eight) > width(one)


def test_an_unknown_gpu_is_answered_from_others(client: TestClient) -> None:
    prediction = predict(client, make_spec(hardware="Unheard-of 9000"))
    assert prediction["basis"]["rung"] in ("reference", "pooled")
    assert prediction["basis"]["assumed"] or prediction["basis"]["extrapolated"]


def test_a_batch_answers_as_single_requests_do(client: TestClient) -> None:
    specs = [make_spec(), make_spec(hardware="L40S"), make_spec(cache={"compile": "cold"})]
    predictions = client.post("/predict/batch", json={"specs": specs}).json()["predictions"]
    assert predictions == [predict(client, spec) for spec in specs]


def test_a_batch_holds_ten_thousand(client: TestClient) -> None:
    response = client.post("/predict/batch", json={"specs": [{}] * 9_999 + [make_spec()]})
    assert response.status_code == 200
    predictions = response.json()["predictions"]
    assert [p.get("status") for p in predictions[:-1]] == [422] * 9_999
    check_sums(predictions[-1])


def optional(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.none() | strategy


names = st.text(st.characters(exclude_categories=["C"]), min_size=1, max_size=20).filter(str.strip)
models = st.fixed_dictionaries(
    {"name": st.sampled_from([DISTILL, "test/model"]) | names, "weight_bytes": st.integers(0, 10**15)},
    optional={
        "num_parameters": optional(st.integers(0, 10**14)),
        "num_layers": optional(st.integers(0, 10_000)),
        "num_attention_layers": optional(st.integers(0, 10_000)),
        "num_mamba_layers": optional(st.integers(0, 10_000)),
        "num_moe_layers": optional(st.integers(0, 10_000)),
        "hidden_size": optional(st.integers(0, 10**7)),
        "vocab_size": optional(st.integers(0, 10**7)),
        "num_experts": optional(st.integers(0, 10**7)),
        "tokenizer_bytes": optional(st.integers(0, 10**15)),
        "compiled_graph_bytes": optional(st.integers(0, 10**15)),
        "dtype": optional(names),
        "quantization": optional(st.sampled_from(["fp8", "mxfp4", "awq"]) | names),
        "config": optional(
            st.dictionaries(names, names | st.integers(-(10**9), 10**9) | st.none() | st.lists(names), max_size=4)
        ),
    },
)
machines = st.fixed_dictionaries(
    {"gpu": st.sampled_from([H100, "NVIDIA L40S", "NVIDIA H100"]) | names},
    optional={
        "gpu_count": optional(st.integers(1, 1024)),
        "cpu": optional(st.sampled_from(["AMD EPYC 9354"]) | names),
        "cpu_cores": optional(st.integers(1, 100_000)),
        "cpu_quota_cores": optional(st.floats(0.001, 100_000)),
        "cpu_busy_fraction": optional(st.floats(0, 1)),
        "storage": optional(st.sampled_from(Storage)),
        "node": optional(names),
    },
)
engines = st.fixed_dictionaries(
    {},
    optional={
        "version": optional(st.from_regex(r"\d{1,3}(\.\d{1,4}){0,3}(rc\d)?", fullmatch=True)),
        "tensor_parallel_size": optional(st.integers(1, 1024)),
        "pipeline_parallel_size": optional(st.integers(1, 1024)),
        "enforce_eager": optional(st.booleans()),
        "optimization_level": optional(st.integers(0, 3)),
        "load_format": optional(st.sampled_from(["auto", "dummy", "tensorizer"]) | names),
        "num_cudagraph_sizes": optional(st.integers(0, 10_000)),
        "num_cudagraphs": optional(st.integers(0, 100_000)),
        "max_num_seqs": optional(st.integers(1, 1_000_000)),
        "max_num_batched_tokens": optional(st.integers(1, 100_000_000)),
    },
)
caches = st.fixed_dictionaries(
    {},
    optional={
        "weights": optional(st.sampled_from(WeightsState)),
        "weights_cached_fraction": optional(st.floats(0, 1)),
        "compile": optional(st.sampled_from(CompileCache)),
        "model_inspection": optional(st.sampled_from(InspectionCache)),
    },
)


@settings(max_examples=300)
@given(spec=st.fixed_dictionaries({"model": models, "hardware": machines, "engine": engines, "cache": caches}))
def test_every_valid_spec_gets_a_sound_answer(client: TestClient, spec: dict[str, Any]) -> None:
    response = client.post("/predict?explain=true", json=spec)
    if response.status_code == 422:  # A made-up name may be short for several machines.
        assert response.json()["type"].endswith(("ambiguous-hardware", "unknown-model", "invalid-input"))
        assert response.json()["errors"]
    else:
        assert response.status_code == 200, response.text
        check_sums(response.json())


@given(bytes_=st.lists(st.integers(0, 10**12), min_size=2, max_size=2).map(sorted))
def test_more_weight_bytes_are_never_faster(client: TestClient, bytes_: list[int]) -> None:
    for weights in WeightsState:
        fewer, more = (
            predict(client, make_spec(model=make_model(weight_bytes=b), cache={"weights": weights, "compile": "warm"}))
            for b in bytes_
        )
        assert more["total"]["seconds"] >= fewer["total"]["seconds"] - 1e-9
