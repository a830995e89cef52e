"""What an engine version does where its arguments leave it open. Pure functions.

Read from vLLM's source: the capture-size rule is in ``config/__init__.py`` (0.10) and ``config/vllm.py`` (0.11 on).
"""

import re

__all__ = ["DEFAULT_BATCHED_TOKENS", "capture_sizes", "graphs_captured", "minor_version"]

DEFAULT_SEQUENCES = 256  # With 256 or more the cap of 512 holds in every version, so the default hardly matters.
DEFAULT_BATCHED_TOKENS = 8192  # On GPUs of 70 GiB or more, from 0.10 on.
_MAX_CAPTURE = 512
_FULL_GRAPHS_SINCE = (0, 11)  # FULL_AND_PIECEWISE became the default: decode graphs are captured once more.
_COARSE_STEPS_SINCE = (0, 11)


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
