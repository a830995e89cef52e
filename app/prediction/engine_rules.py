"""What an engine version does where its arguments leave it open. Pure functions.

Read from vLLM's source: the capture-size rule is in ``config/__init__.py`` (0.10) and ``config/vllm.py`` (0.11 on), as
is the choice of the model runner; the sampler's Triton kernel is in ``v1/sample/ops/topk_topp_triton.py``.
"""

import re

__all__ = [
    "DEFAULT_BATCHED_TOKENS",
    "builds_kernels",
    "capture_sizes",
    "graphs_captured",
    "has_second_runner",
    "minor_version",
]

DEFAULT_SEQUENCES = 256  # With 256 or more the cap of 512 holds in every version, so the default hardly matters.
DEFAULT_BATCHED_TOKENS = 8192  # On GPUs of 70 GiB or more, from 0.10 on.
_MAX_CAPTURE = 512
_FULL_GRAPHS_SINCE = (0, 11)  # FULL_AND_PIECEWISE became the default: decode graphs are captured once more.
_COARSE_STEPS_SINCE = (0, 11)
_KERNELS_SINCE = (0, 17)
_SECOND_RUNNER_SINCE = {
    "Qwen3ForCausalLM": (0, 22),
    "LlamaForCausalLM": (0, 23),
    "MistralForCausalLM": (0, 23),
    "DeepseekV2ForCausalLM": (0, 24),
    "GraniteMoeForCausalLM": (0, 24),
    "Qwen2MoeForCausalLM": (0, 24),
}
_SECOND_RUNNER_FOR_DENSE_SINCE = (0, 25)


def minor_version(version: str) -> tuple[int, int]:
    """Return major and minor: ``0.10.1.1`` → (0, 10)."""
    numbers = [int(digits[:9]) for digits in re.findall(r"\d+", version)[:2]] + [0, 0]
    return numbers[0], numbers[1]


def capture_sizes(version: tuple[int, ...], max_num_seqs: int | None, max_num_batched_tokens: int | None) -> list[int]:
    """Return the batch sizes that CUDA graphs are captured for where they are not given."""
    cap = min(2 * (max_num_seqs or DEFAULT_SEQUENCES), _MAX_CAPTURE, max_num_batched_tokens or _MAX_CAPTURE)
    if version < _COARSE_STEPS_SINCE:
        steps = [*range(8, cap + 1, 8)]
    else:
        steps = [*range(8, min(cap + 1, 256), 8), *range(256, cap + 1, 16)]
    return [size for size in (1, 2, 4) if size <= cap] + steps


def graphs_captured(version: tuple[int, ...], sizes: int, max_num_seqs: int | None, level: int | None) -> int:
    """Return how many graphs are captured for that many sizes: from 0.11 on the decode sizes count twice."""
    if version < _FULL_GRAPHS_SINCE or (level is not None and level < 2):
        return sizes
    decode = [s for s in capture_sizes(version, max_num_seqs, None) if s <= (max_num_seqs or DEFAULT_SEQUENCES)]
    return sizes + min(sizes, len(decode))


def builds_kernels(version: tuple[int, ...]) -> bool:
    """Whether the engine compiles Triton kernels of its own while it starts: the sampler's, 4 MB of code and 8 s."""
    return version >= _KERNELS_SINCE


def has_second_runner(version: tuple[int, ...], architecture: str, *, dense: bool) -> bool:
    """Whether the second model runner (V2) is the default for a generating model; ``dense``: no experts, no Mamba."""
    since = _SECOND_RUNNER_SINCE.get(architecture)
    if since is not None and version >= since:
        return True
    return dense and version >= _SECOND_RUNNER_FOR_DENSE_SINCE
