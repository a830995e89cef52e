from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.prediction.model_bytes import active_bytes, loaded_bytes, page_locked_bytes

MIB = 2**20
LLAMA = {
    "architecture": "LlamaForCausalLM",
    "dtype": "bfloat16",
    "quantization": None,
    "weight_bytes": 13_480_000_000,
    "hidden_size": 4096,
    "intermediate_size": 11008,
    "vocab_size": 32000,
}
FALCON = {
    **LLAMA,
    "architecture": "FalconForCausalLM",
    "hidden_size": 4544,
    "intermediate_size": 18176,
    "vocab_size": 65024,
    "tie_word_embeddings": True,
}


def test_a_head_that_is_stored_but_tied_is_not_loaded() -> None:
    assert loaded_bytes(LLAMA) == 13_480_000_000
    assert loaded_bytes({**LLAMA, "unloaded_weight_bytes": 480_000_000}) == 13_000_000_000
    assert loaded_bytes({**LLAMA, "unloaded_weight_bytes": 10**12}) == 0
    untied = {**LLAMA, "unloaded_weight_bytes": 480_000_000, "tie_word_embeddings": False}
    assert loaded_bytes(untied) == 13_480_000_000


def test_a_token_passes_through_the_experts_that_it_is_routed_to() -> None:
    assert active_bytes(LLAMA) == 13_480_000_000
    experts = {"num_experts": 8, "num_experts_per_token": 2, "num_moe_layers": 32, "intermediate_size": 1000}
    routed = 3 * 32 * 8 * 4096 * 1000 * 2
    assert active_bytes({**LLAMA, **experts}) == pytest.approx(13_480_000_000 - routed * 6 / 8)


@pytest.mark.parametrize(
    ("facts", "tensor_parallel", "mib"),
    [
        (LLAMA, 1, 8 * 256),  # 250 MiB of embeddings, 172 MiB of gate and up.
        ({**LLAMA, "vocab_size": 64000}, 1, 2 * 512 + 6 * 256),
        ({**LLAMA, "vocab_size": 64000, "tie_word_embeddings": True}, 1, 512 + 7 * 256),
        (FALCON, 1, 1024 + 7 * 256),  # 158 MiB: it has no gate.
        (LLAMA, 2, 8 * 128),
        ({**LLAMA, "num_experts": 8, "intermediate_size": 2048}, 1, 8 * 256),
        ({**LLAMA, "dtype": "float32"}, 1, 8 * 512),
        ({**LLAMA, "hidden_size": None}, 1, 0),
        ({**FALCON, "intermediate_size": None}, 1, 1024 + 7 * 256),  # Four times as wide as the model.
        ({**LLAMA, "quantization": "awq"}, 1, 2 * 256 + 6 * 64),  # Embeddings and head keep their type.
        ({**LLAMA, "weight_bytes": 100 * MIB}, 1, 8 * 128),  # No buffer is larger than what is loaded.
    ],
)
def test_each_reader_s_buffer_is_a_power_of_two(facts: dict[str, Any], tensor_parallel: int, mib: int) -> None:
    assert page_locked_bytes(facts, tensor_parallel) == mib * MIB


@given(st.integers(1, 10**6), st.integers(1, 10**6))
def test_a_larger_vocabulary_locks_no_less(one: int, more: int) -> None:
    small, large = ({**LLAMA, "vocab_size": size} for size in (one, one + more))
    assert page_locked_bytes(small, 1) <= page_locked_bytes(large, 1)
