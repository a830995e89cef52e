import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.prediction.bounds import Calibration, spread_of


def test_the_conformal_quantile_counts_the_new_group() -> None:
    errors = np.arange(1.0, 20.0) / 10  # 19 groups of 0.1 to 1.9 deviations.
    spread = spread_of(errors, [str(i) for i in range(19)])
    assert spread.conformal
    assert spread.two_sided == pytest.approx(1.8)  # 0.9 x (19 + 1) = 18 groups at or below it.
    assert spread.p99 is None


def test_each_group_has_one_vote() -> None:
    once = spread_of(np.arange(1.0, 12.0) / 10, [str(i) for i in range(11)])
    often = spread_of(
        np.append(np.full(100, 0.1), np.arange(2.0, 12.0) / 10), ["0"] * 100 + [str(i) for i in range(1, 11)]
    )
    assert often.two_sided == pytest.approx(once.two_sided)


def test_few_groups_are_parametric() -> None:
    nothing, few = spread_of(np.array([]), []), spread_of(np.array([0.5, -0.5]), ["a", "b"])
    assert not nothing.conformal
    assert not few.conformal
    assert few.two_sided < nothing.two_sided  # Two groups of half a deviation are news.
    assert few.p99 is None


def test_a_hundred_groups_tell_the_last_hundredth() -> None:
    spread = spread_of(np.linspace(-1, 1, 120), [str(i) for i in range(120)])
    assert spread.p99 is not None
    assert spread.p99 >= spread.two_sided >= spread.p90


@given(st.lists(st.tuples(st.floats(-50, 50), st.sampled_from("abcdefghijklmnop")), max_size=40))
def test_quantiles_are_ordered(rows: list[tuple[float, str]]) -> None:
    spread = spread_of(np.array([error for error, _ in rows]), [group for _, group in rows])
    assert 0 <= spread.p90 <= spread.two_sided
    assert spread.p99 is None or spread.p99 >= spread.two_sided


def test_an_unknown_circumstance_has_the_scale_of_the_next_wider() -> None:
    calibration = Calibration({"graph_load": 0.3, "graph_load|warm": 0.1}, {})
    assert calibration.scale("graph_load|warm|unusual") == 0.1
    assert calibration.scale("graph_load|cold") == 0.3
