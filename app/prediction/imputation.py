"""Imputation: the facts of a model that features need and nobody gave, each from those that are known."""

from typing import Any

from app.hf_config import bits_per_weight

__all__ = ["Facts", "completed"]

TOKENIZER_BYTES_PER_ENTRY = 60.0  # The paper's tokenizers: 47 (Qwen) to 72 (Gemma), gpt-oss 140.
GRAPH_BYTES_PER_LAYER = 32_000.0  # The paper's graphs: 26 to 39 KiB a layer; 17 to 22 without gates or attention.
TYPICAL_VOCABULARY = 100_000.0
# A dense decoder has about 12 layers x hidden^2 parameters, and hidden is about 128 x layers: 7e9 makes 33 layers.
PARAMETERS_PER_CUBED_LAYER = 12.0 * 128**2
Facts = dict[str, Any]
"""Fields of a model spec by name, and its dtype and quantization."""


def completed(facts: Facts, assumed: list[str]) -> Facts:
    """Impute the facts that features need and nobody gave, each from those that are known."""

    def assume(name: str, value: float, why: str) -> None:
        if facts.get(name) is None:
            facts[name] = value
            assumed.append(f"model.{name}: {value:.3g}, {why}")

    bits = bits_per_weight(facts["dtype"], facts["quantization"])
    if facts.get("weight_bytes") is None and facts.get("num_parameters") is None:
        shape = _dense_parameters(facts)
        assume("num_parameters", shape, "from the number and width of its layers")
    assume("weight_bytes", (facts.get("num_parameters") or 0) * bits / 8, "from its parameters and their type")
    parameters = facts.get("num_parameters") or facts["weight_bytes"] * 8 / bits
    assume("num_layers", (parameters / PARAMETERS_PER_CUBED_LAYER) ** (1 / 3), "from its weight bytes")
    assume("vocab_size", TYPICAL_VOCABULARY, "a typical vocabulary")
    assume("tokenizer_bytes", facts["vocab_size"] * TOKENIZER_BYTES_PER_ENTRY, "from the size of its vocabulary")
    mamba = min(facts.get("num_mamba_layers") or 0, facts["num_layers"])
    attention = facts.get("num_attention_layers")
    facts["num_mamba_layers"] = mamba
    facts["num_attention_layers"] = facts["num_layers"] - mamba if attention is None else attention
    if facts.get("num_experts") and facts.get("num_moe_layers") is None:
        facts["num_moe_layers"] = facts["num_layers"]
    layers = facts["num_layers"] - 0.4 * mamba
    assume("compiled_graph_bytes", GRAPH_BYTES_PER_LAYER * layers, "from its layers; known only after a first start")
    return facts


def _dense_parameters(facts: Facts) -> float:
    layers, hidden = facts.get("num_layers") or 32, facts.get("hidden_size")
    hidden = hidden or 128 * layers
    width = facts.get("intermediate_size") or 4 * hidden
    experts = max(1, facts.get("num_experts") or 1)
    return float(layers * hidden * (4 * hidden + 3 * width * experts) + 2 * hidden * (facts.get("vocab_size") or 1e5))
