import pytest

from app.prediction.engine_rules import builds_kernels, capture_sizes, graphs_captured, has_second_runner, minor_version


@pytest.mark.parametrize(
    ("version", "numbers"), [("0.10.1.1", (0, 10)), ("0.24.0rc1", (0, 24)), ("1", (1, 0)), ("0.11", (0, 11))]
)
def test_minor_version(version: str, numbers: tuple[int, int]) -> None:
    assert minor_version(version) == numbers


def test_capture_sizes() -> None:
    assert len(capture_sizes((0, 10), 256, None)) == 67
    assert len(capture_sizes((0, 11), 256, None)) == 51
    assert capture_sizes((0, 11), 8, None) == [1, 2, 4, 8, 16]


def test_graphs_captured() -> None:
    assert graphs_captured((0, 10), 67, 256, None) == 67
    assert graphs_captured((0, 11), 51, 256, None) == 86
    assert graphs_captured((0, 11), 51, 1024, None) == 102
    assert graphs_captured((0, 15), 51, 256, 1) == 51  # Piecewise alone.


def test_builds_kernels() -> None:
    assert [builds_kernels(version) for version in ((0, 10), (0, 16), (0, 17), (0, 24), (1, 0))] == [False] * 2 + [
        True
    ] * 3


@pytest.mark.parametrize(
    ("version", "architecture", "dense", "second"),
    [
        ((0, 20), "LlamaForCausalLM", True, False),
        ((0, 22), "Qwen3ForCausalLM", True, True),
        ((0, 22), "LlamaForCausalLM", True, False),
        ((0, 24), "LlamaForCausalLM", True, True),
        ((0, 24), "Qwen2ForCausalLM", True, False),
        ((0, 24), "OlmoeForCausalLM", False, False),
        ((0, 24), "DeepseekV2ForCausalLM", False, True),
        ((0, 27), "Qwen2ForCausalLM", True, True),
        ((0, 27), "OlmoeForCausalLM", False, False),
        ((0, 27), "", True, True),
    ],
)
def test_has_second_runner(version: tuple[int, int], architecture: str, dense: bool, second: bool) -> None:
    assert has_second_runner(version, architecture, dense=dense) is second
