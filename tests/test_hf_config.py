import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.hf_config import bits_per_weight, model_facts
from app.schemas.spec import ModelSpec

LLAMA = {
    "architectures": ["LlamaForCausalLM"],
    "hidden_size": 4096,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "intermediate_size": 14336,
    "vocab_size": 128256,
    "torch_dtype": "bfloat16",
}


def test_a_dense_decoder() -> None:
    assert model_facts(LLAMA) == {
        "architecture": "LlamaForCausalLM",
        "hidden_size": 4096,
        "num_layers": 32,
        "num_attention_layers": 32,
        "num_mamba_layers": 0,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "intermediate_size": 14336,
        "vocab_size": 128256,
        "dtype": "bfloat16",
    }


@pytest.mark.parametrize(
    ("told", "tied"),
    [
        ({}, None),
        ({"tie_word_embeddings": True}, True),
        ({"tie_word_embeddings": "yes"}, None),
        ({"model_type": "falcon"}, True),
        ({"model_type": "falcon", "tie_word_embeddings": False}, False),
        ({"model_type": "gemma3_text", "tie_word_embeddings": None}, True),
        ({"model_type": ["falcon"]}, None),
        ({"text_config": {"tie_word_embeddings": True}}, True),
    ],
)
def test_tied_embeddings(told: dict[str, Any], tied: bool | None) -> None:
    assert model_facts({**LLAMA, **told}).get("tie_word_embeddings") is tied


def test_experts_and_their_layers() -> None:
    config = {**LLAMA, "n_routed_experts": 64, "num_experts_per_tok": 6, "first_k_dense_replace": 1}
    facts = model_facts({**config, "moe_intermediate_size": 1408})
    assert (facts["num_experts"], facts["num_experts_per_token"], facts["num_moe_layers"]) == (64, 6, 31)
    assert facts["intermediate_size"] == 1408
    assert model_facts({**config, "decoder_sparse_step": 2, "first_k_dense_replace": 0})["num_moe_layers"] == 16


@pytest.mark.parametrize(
    ("told", "mamba"),
    [
        ({"layer_types": ["mamba"] * 28 + ["attention"] * 4}, 28),
        ({"layers_block_type": ["mamba", "hybrid"] * 16}, 16),
        ({"hybrid_override_pattern": "M-M*" * 8}, 16),
        ({"attn_layer_period": 8, "attn_layer_offset": 4}, 28),
        ({"layer_types": ["full_attention", "sliding_attention"] * 16}, 0),
    ],
)
def test_layers_of_state_space_models(told: dict[str, Any], mamba: int) -> None:
    facts = model_facts({**LLAMA, **told})
    assert (facts["num_mamba_layers"], facts["num_attention_layers"]) == (mamba, 32 - mamba)


def test_a_multimodal_config_tells_of_its_text_part() -> None:
    nested = {key: value for key, value in LLAMA.items() if key != "architectures"}
    facts = model_facts({"architectures": ["LlavaForConditionalGeneration"], "text_config": nested})
    assert facts["num_layers"] == 32
    assert facts["architecture"] == "LlavaForConditionalGeneration"


def test_quantization() -> None:
    assert model_facts({"quantization_config": {"quant_method": "awq"}})["quantization"] == "awq"
    assert bits_per_weight("bfloat16", None) == 16
    assert bits_per_weight("bfloat16", "awq") < bits_per_weight("bfloat16", "fp8") < 16


def test_real_configs(shared: Path) -> None:
    models = json.loads((shared / "data" / "h200" / "models.json").read_text())
    layers = {name: model_facts(model["config"])["num_layers"] for name, model in models.items()}
    assert layers == {"llama3.1-8b": 32, "qwen2.5-0.5b": 24, "qwen3-4b": 36}


values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-10, 10**30), st.floats(), st.text(max_size=80)),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=8), inner, max_size=3)),
    max_leaves=8,
)
KEYS = [*LLAMA, "layer_types", "text_config", "quantization_config", "attn_layer_period", "n_routed_experts", "dtype"]


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)  # The first draw builds tables.
@given(st.dictionaries(st.sampled_from(KEYS), values))
def test_any_json_gives_facts_that_a_spec_accepts(config: dict[str, Any]) -> None:
    ModelSpec.model_validate({"name": "m", **model_facts(config)})
