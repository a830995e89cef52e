"""Hugging Face config.json → facts of a model. Pure functions; what a config does not say is left out."""

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

__all__ = ["model_facts"]

# One fact, the names that architectures give it; the first present wins.
_COUNTS: dict[str, tuple[str, ...]] = {
    "num_layers": ("num_hidden_layers", "n_layer", "n_layers", "num_layers"),
    "hidden_size": ("hidden_size", "n_embd", "d_model", "dim"),
    "num_attention_heads": ("num_attention_heads", "n_head", "n_heads"),
    "num_key_value_heads": ("num_key_value_heads", "num_kv_heads", "multi_query_group_num", "n_head_kv"),
    "head_dim": ("head_dim", "attention_head_dim"),
    "intermediate_size": ("moe_intermediate_size", "intermediate_size", "ffn_dim", "ffn_hidden_size", "n_inner"),
    "vocab_size": ("vocab_size", "padded_vocab_size"),
    "num_experts": ("num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts"),
    "num_experts_per_token": ("num_experts_per_tok", "num_experts_per_token", "moe_topk", "top_k_experts"),
}
_NESTED = ("text_config", "llm_config", "language_config", "thinker_config")
# Of these model types transformers ties the embeddings unless the config says otherwise, so configs often leave it out.
_TIED_BY_DEFAULT = frozenset(
    [
        "bloom",
        "cohere",
        "cohere2",
        "falcon",
        "gemma",
        "gemma2",
        "gemma3",
        "gemma3_text",
        "gpt2",
        "gpt_bigcode",
        "lfm2",
        "mpt",
        "opt",
        "smollm3",
        "starcoder2",
    ]
)
_MAX_COUNT = 10_000_000
_MAX_LAYERS = 10_000
_LABEL = re.compile(r"[^\x00-\x20\x7f]([^\x00-\x1f\x7f]{0,62}[^\x00-\x20\x7f])?")
_BITS_OF_DTYPE = {"float64": 64, "float32": 32, "float16": 16, "bfloat16": 16, "float8_e4m3fn": 8, "int8": 8}


def model_facts(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a model spec that ``config`` tells, by name; malformed entries are ignored."""
    text = _text_part(config)
    facts: dict[str, Any] = {}
    for fact, names in _COUNTS.items():
        value = next((number for name in names if (number := _count(text.get(name))) is not None), None)
        if value is not None:
            facts[fact] = value
    if facts.get("num_layers", 0) > _MAX_LAYERS:
        del facts["num_layers"]
    if facts.get("num_experts", 0) <= 1:
        facts.pop("num_experts", None)
        facts.pop("num_experts_per_token", None)
    facts.update(_layer_kinds(text, facts))
    tied = text.get("tie_word_embeddings")
    if tied is None and str(text.get("model_type")) in _TIED_BY_DEFAULT:
        tied = True
    if isinstance(tied, bool):
        facts["tie_word_embeddings"] = tied
    facts.update(_names(config, text))
    return facts


def _text_part(config: Mapping[str, Any]) -> Mapping[str, Any]:
    nested = (config[name] for name in _NESTED if isinstance(config.get(name), Mapping))
    return {**config, **next(nested, {})}


def _count(value: Any) -> int | None:
    if isinstance(value, list) and value:  # Some architectures give one entry a layer.
        value = value[0]
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return int(value) if 0 <= value <= _MAX_COUNT else None


def _layer_kinds(text: Mapping[str, Any], facts: Mapping[str, Any]) -> dict[str, int]:
    """Count the layers by kind: attention, state space, mixture of experts."""
    layers = facts.get("num_layers")
    if not layers:
        return {}
    mamba = _mamba_layers(text, layers)
    kinds = {"num_attention_layers": layers - mamba, "num_mamba_layers": mamba}
    if facts.get("num_experts"):
        kinds["num_moe_layers"] = _moe_layers(text, layers)
    return kinds


def _mamba_layers(text: Mapping[str, Any], layers: int) -> int:
    kinds = text.get("layer_types") or text.get("layers_block_type")
    if isinstance(kinds, Sequence) and not isinstance(kinds, str):
        return min(layers, sum(1 for kind in kinds if _is_state_space(kind)))
    if isinstance(pattern := text.get("hybrid_override_pattern"), str):
        return min(layers, pattern.upper().count("M"))
    if period := _count(text.get("attn_layer_period")):
        return layers - len(range(_count(text.get("attn_layer_offset")) or 0, layers, period))
    return layers if "mamba" in str(text.get("model_type", "")).lower() and "num_attention_heads" not in text else 0


def _is_state_space(kind: Any) -> bool:
    return any(word in str(kind).lower() for word in ("mamba", "linear_attention", "ssm", "recurrent", "conv"))


def _moe_layers(text: Mapping[str, Any], layers: int) -> int:
    dense_first = _count(text.get("first_k_dense_replace")) or 0
    period = _count(text.get("decoder_sparse_step")) or _count(text.get("moe_layer_freq")) or 1
    period = _count(text.get("expert_layer_period")) or period
    return max(0, min(layers, math.ceil((layers - dense_first) / period)))


def _names(config: Mapping[str, Any], text: Mapping[str, Any]) -> dict[str, str]:
    """Find architecture, data type and quantization; what is no label is no name."""
    architectures = config.get("architectures")
    quantization = config.get("quantization_config") or text.get("quantization_config")
    names = {
        "architecture": architectures[0] if isinstance(architectures, list) and architectures else None,
        "dtype": text.get("dtype") or text.get("torch_dtype"),
        "quantization": quantization.get("quant_method") if isinstance(quantization, Mapping) else None,
    }
    told = {fact: name.removeprefix("torch.") for fact, name in names.items() if isinstance(name, str)}
    return {fact: name for fact, name in told.items() if _LABEL.fullmatch(name)}


def bits_per_weight(dtype: str | None, quantization: str | None) -> float:
    """Return the bits that one parameter takes on storage; 16 where nothing is said."""
    if quantization:
        name = quantization.lower()
        return 8.5 if "8" in name or name in ("compressed-tensors", "modelopt") else 4.5
    return float(_BITS_OF_DTYPE.get(dtype or "", 16))
