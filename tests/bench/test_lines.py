import pytest

from bench.lines import Line
from bench.runner import OURS


@pytest.mark.parametrize(
    ("mape", "worst", "verdict"),
    [(1.8, 16.0, "aim"), (2.4, 16.0, "reached"), (2.41, 1.0, "missed"), (1.0, 16.1, "missed")],
)
def test_every_figure_must_be_within_its_limit(mape: float, worst: float, verdict: str) -> None:
    must, aim = {"MAPE %": 2.4, "worst %": 16.0}, {"MAPE %": 1.8, "worst %": 16.0}
    assert Line("A1", "", {OURS: {"MAPE %": mape, "worst %": worst}}, must, aim).verdict == verdict


def test_what_cannot_be_predicted_is_missed() -> None:
    assert Line("A2", "", {OURS: None}, {"MAPE %": 5.0}).verdict == "missed"


def test_a_condition_beyond_the_figures_can_miss() -> None:
    assert Line("E", "", {OURS: {"width": 1.0}}, {"width": 2.0}, met=False).verdict == "missed"


def test_a_line_without_limits_only_informs() -> None:
    assert Line("B", "", {OURS: {"MSE s²": 9.0}}).verdict == ""
