import pytest

from app.prediction.engine_rules import capture_sizes, graphs_captured, minor_version


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
