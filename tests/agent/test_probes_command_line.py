"""The engine's command line, in all the forms in which people write it."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.probes import engine_arguments
from agent.probes.command_line import EngineArguments, parse_command, parse_options, read_config
from agent.probes.engine_arguments import engine_spec, gpu_count
from app.schemas.spec import EngineSpec
from tests.agent.machines import context

WORDS = st.text(alphabet="abcdefghijklmnopqrstuvwxyz0123456789_./-", min_size=1, max_size=12)


@pytest.mark.parametrize(
    "command",
    [
        ["vllm", "serve", "org/name", "--max-model-len", "4096"],
        ["vllm", "serve", "--max-model-len", "4096", "org/name"],
        ["vllm", "serve", "--enforce-eager", "org/name", "--max-model-len=4096"],
        ["/opt/venv/bin/vllm", "serve", "--model", "org/name", "--max_model_len", "4096"],
        ["python3", "-m", "vllm.entrypoints.openai.api_server", "--model=org/name", "--max-model-len", "4096"],
        ["python3", "-m", "vllm.entrypoints.cli.main", "serve", "org/name", "--max-model-len", "4096"],
        ["numactl", "-N", "0", "vllm", "serve", "org/name", "--max-model-len", "4096"],
        ["bash", "-lc", "exec vllm serve $MODEL --max-model-len ${LENGTH} # go"],
        ["sh", "-c", "vllm serve 'org/name' --max-model-len 4096"],
        ["vllm", "serve", "org/name", "--served-model-name", "a", "b", "--max-model-len", "4096"],
        ["vllm", "serve", "org/name", "--trust-remote-code", "--enable-prefix-caching", "--max-model-len", "4096"],
    ],
)
def test_model_and_options_are_found_whatever_wraps_them(command: list[str]) -> None:
    arguments = parse_command(command, {"MODEL": "org/name", "LENGTH": "4096"})
    assert arguments.model == "org/name"
    assert arguments.options["max_model_len"] == "4096"


@pytest.mark.parametrize(
    ("text", "spec"),
    [
        ("-tp 2 -pp=4", {"tensor_parallel_size": 2, "pipeline_parallel_size": 4}),
        ("--tensor-parallel-size=8", {"tensor_parallel_size": 8}),
        ("--max-model-len 4k", {"max_model_len": 4000}),
        ("--max-model-len 1.5K", {"max_model_len": 1536}),
        ("--max-model-len -1", {}),
        ("--max-model-len auto", {}),
        ("--max-num-seqs 1.0001", {}),
        ("--enforce-eager", {"enforce_eager": True}),
        ("--no-enforce-eager", {"enforce_eager": False}),
        ("--enforce-eager=true", {"enforce_eager": True}),
        ("-O3", {"optimization_level": 3}),
        ("-O 0", {"optimization_level": 0}),
        ("-O=2", {"optimization_level": 2}),
        ("--optimization-level 1", {"optimization_level": 1}),
        ("--compilation-config 3", {"optimization_level": 3}),
        ('-cc {"level":2,"cudagraph_capture_sizes":[1,2,4]}', {"optimization_level": 2, "num_cudagraph_sizes": 3}),
        ("-O.cudagraph_capture_sizes=[1,2] -O.level=3", {"optimization_level": 3, "num_cudagraph_sizes": 2}),
        ("--cudagraph-capture-sizes 1 2 4 8 --max-num-seqs 8", {"num_cudagraph_sizes": 4, "max_num_seqs": 8}),
        ("--cuda-graph-sizes 512", {}),
        ("--load-format auto", {}),
        ("--load-format runai_streamer", {"load_format": "runai_streamer"}),
    ],
)
def test_options_become_fields_of_the_engine(text: str, spec: dict[str, Any]) -> None:
    assert engine_spec(parse_options(text.split())) == spec


def test_gpus_are_those_that_the_ranks_of_this_node_use() -> None:
    assert gpu_count(parse_options([])) == 1
    assert gpu_count(parse_options(["-tp", "4", "-pp", "2"])) == 8
    assert gpu_count(parse_options(["-tp", "2", "-dp", "8", "--data-parallel-size-local", "4"])) == 8


def test_the_runner_and_the_names_of_options_are_told_their_values_not(tmp_path: Path) -> None:
    command = "vllm serve m --api-key sesame --dtype half --quantization fp8 --revision v1"
    found = engine_arguments.probe(context(tmp_path, command, {"VLLM_USE_V2_MODEL_RUNNER": "1"}))
    assert found.spec["engine"] == {"model_runner": "v2"}
    assert found.spec["model"] == {"dtype": "float16", "quantization": "fp8", "revision": "v1"}
    assert found.facts["options"] == ["api_key", "dtype", "quantization", "revision"]
    assert "sesame" not in str(found)


def test_the_command_line_wins_over_the_file_that_it_names(tmp_path: Path) -> None:
    path = tmp_path / "engine.yaml"
    path.write_text("model: org/name\ntensor-parallel-size: 4\nmax_num_seqs: 16\nenforce-eager: true\n")
    arguments = read_config(parse_options(["--config", str(path), "--max-num-seqs", "8"]))
    assert arguments.model == "org/name"
    assert engine_spec(arguments) == {"tensor_parallel_size": 4, "max_num_seqs": 8, "enforce_eager": True}
    assert read_config(parse_options(["other/name", "--config", str(path)])).model == "other/name"


@pytest.mark.parametrize("content", ["- a\n", "a: [", "just words"])
def test_a_file_that_holds_no_options_is_an_error_with_a_sentence(tmp_path: Path, content: str) -> None:
    path = tmp_path / "engine.yaml"
    path.write_text(content)
    with pytest.raises(ValueError, match="--config"):
        read_config(parse_options(["--config", str(path)]))


def test_without_a_file_nothing_is_read() -> None:
    arguments = parse_options(["m"])
    assert read_config(arguments) is arguments


@given(
    st.dictionaries(
        st.sampled_from(["max_model_len", "max_num_seqs", "tensor_parallel_size", "max_num_batched_tokens"]),
        st.integers(1, 1024),
    ),
    st.data(),
)
def test_every_way_of_writing_an_option_means_the_same(values: dict[str, int], data: st.DataObject) -> None:
    words: list[str] = []
    for name, value in values.items():
        option = "--" + (name if data.draw(st.booleans()) else name.replace("_", "-"))
        words += [f"{option}={value}"] if data.draw(st.booleans()) else [option, str(value)]
    place = data.draw(st.sampled_from(["first", "last"]))
    words = ["org/name", *words] if place == "first" else [*words, "org/name"]
    arguments = parse_command(["vllm", "serve", *words], {})
    assert arguments.model == "org/name"
    assert engine_spec(arguments) == values


@given(st.lists(st.one_of(st.text(max_size=12), WORDS.map("--".__add__), WORDS.map("-".__add__)), max_size=12))
def test_no_command_line_is_an_error_and_what_is_read_is_valid(words: list[str]) -> None:
    arguments = parse_command(["vllm", "serve", *words], {})
    parse_command(words, {})
    parse_command(["sh", "-c", *words], {})
    EngineSpec.model_validate({k: v for k, v in engine_spec(arguments).items() if not k.endswith("parallel_size")})
    assert 1 <= gpu_count(arguments) <= 1024


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(WORDS, JSON, max_size=4))
def test_a_json_object_is_read_as_it_is(value: dict[str, Any]) -> None:
    arguments = parse_options(["--compilation-config", json.dumps(value)])
    assert arguments.options == {"compilation_config": value}


@given(st.sampled_from(["max_num_seqs", "compilation_config", "enforce_eager", "revision", "dtype"]), JSON)
def test_whatever_a_config_file_holds_gives_valid_fields(name: str, value: Any) -> None:
    EngineSpec.model_validate(engine_spec(EngineArguments("m", {name: value})))
