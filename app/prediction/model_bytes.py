"""Bytes of a model: those that are loaded, that a token passes through, that a loader locks in memory. Pure."""

import math

from app.hf_config import bits_per_weight
from app.prediction.imputation import Facts

__all__ = ["active_bytes", "loaded_bytes", "page_locked_bytes"]

READERS = 8
"""Threads in which tensorizer reads a local file, each with a buffer of its own."""
UNGATED = frozenset(
    (
        "BloomForCausalLM",
        "FalconForCausalLM",
        "GPT2LMHeadModel",
        "GPTBigCodeForCausalLM",
        "GPTJForCausalLM",
        "GPTNeoXForCausalLM",
        "MPTForCausalLM",
        "OPTForCausalLM",
        "PhiForCausalLM",
        "Starcoder2ForCausalLM",
    )
)
"""Architectures whose feed-forward block has no gate, which the engine would keep in one tensor with its neighbour."""


def loaded_bytes(facts: Facts) -> float:
    """Return the weight bytes that the engine loads; an output head of its own is one of them."""
    unloaded = 0 if facts.get("tie_word_embeddings") is False else facts.get("unloaded_weight_bytes") or 0
    return max(0.0, float(facts["weight_bytes"]) - float(unloaded))


def active_bytes(facts: Facts) -> float:
    """Return the weight bytes that one token passes through; experts' share of them is estimated from their shape."""
    weights, experts = loaded_bytes(facts), facts.get("num_experts") or 0
    layers, hidden, width = facts.get("num_moe_layers"), facts.get("hidden_size"), facts.get("intermediate_size")
    if not experts or not layers or not hidden or not width:
        return weights
    bits = bits_per_weight(facts["dtype"], facts["quantization"])
    routed = min(0.95 * weights, 3.0 * layers * experts * hidden * width * bits / 8)
    return weights - float(routed) * (1.0 - min(1.0, (facts.get("num_experts_per_token") or 2) / experts))


def page_locked_bytes(facts: Facts, tensor_parallel: int) -> float:
    """Return the bytes of tensorizer's buffers on one rank; 0 where the width of the model is unknown.

    Each reader's buffer holds the largest of its tensors, and PyTorch rounds page-locked memory up to a power of two.
    The first and the last reader have the embeddings and the output head, which may be one and are never quantized; the
    others have layers, where the feed-forward block, four times as wide as the model if nobody says, is the largest.
    """
    hidden = facts.get("hidden_size") or 0
    width = facts.get("intermediate_size") or 4 * hidden
    gates = 1 if facts.get("architecture") in UNGATED else 2
    most = _rounded_up(loaded_bytes(facts) / tensor_parallel)
    scale = hidden / tensor_parallel
    weights = gates * width * max(1, facts.get("num_experts") or 1) * scale
    layer = min(most, _rounded_up(weights * bits_per_weight(facts["dtype"], facts["quantization"]) / 8))
    table = min(most, _rounded_up(facts["vocab_size"] * scale * bits_per_weight(facts["dtype"], None) / 8))
    tables = 1 if facts.get("tie_word_embeddings") else 2
    return tables * max(layer, table) + (READERS - tables) * layer


def _rounded_up(size: float) -> float:
    return 2.0 ** math.ceil(math.log2(size)) if size >= 1 else 0.0
