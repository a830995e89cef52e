import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.prediction.bounds import Calibration, scale_of, spread_of
from app.prediction.scales import Standing


def test_the_conformal_quantile_counts_the_new_group() -> None:
    errors = np.arange(1.0, 50.0) / 10  # 49 groups of 0.1 to 4.9 deviations.
    spread = spread_of(errors, [str(i) for i in range(49)])
    assert spread.conformal
    assert spread.two_sided == pytest.approx(4.5)  # 0.9 x (49 + 1) = 45 groups at or below it.
    assert spread.p99 is None


@pytest.mark.parametrize("groups", [11, 49])
def test_each_group_has_one_vote(groups: int) -> None:
    each = np.arange(1.0, groups + 1.0) / 10
    names = [str(i) for i in range(groups)]
    often = spread_of(np.append(np.full(100, 0.1), each[1:]), ["0"] * 100 + names[1:])
    assert often.two_sided == pytest.approx(spread_of(each, names).two_sided)


def test_few_groups_are_parametric() -> None:
    nothing, few = spread_of(np.array([]), []), spread_of(np.array([0.5, -0.5]), ["a", "b"])
    assert not nothing.conformal
    assert not few.conformal
    assert few.two_sided < nothing.two_sided  # Two groups of half a deviation are news.
    assert few.p99 is None


def test_one_wild_group_of_twenty_does_not_set_the_bounds() -> None:
    names = [str(i) for i in range(20)]
    calm, wild = (spread_of(np.append(np.full(19, 0.8), last), names).two_sided for last in (0.8, 8.0))
    assert calm < wild < 1.5 * calm  # A quantile of twenty would be 8.


@pytest.mark.parametrize("groups", [10, 40])
def test_parametric_bounds_hold_nine_in_ten_of_what_they_assume(groups: int) -> None:
    random = np.random.default_rng(7)
    held = []
    for _ in range(400):
        spread = spread_of(random.standard_t(4, groups), [str(i) for i in range(groups)])
        held.append(float(np.mean(np.abs(random.standard_t(4, 200)) <= spread.two_sided)))
    assert np.mean(held) == pytest.approx(0.9, abs=0.015)


def test_a_hundred_groups_tell_the_last_hundredth() -> None:
    spread = spread_of(np.linspace(-1, 1, 120), [str(i) for i in range(120)])
    assert spread.p99 is not None
    assert spread.p99 >= spread.two_sided >= spread.p90


def test_what_is_conformal_is_not_cut_short() -> None:
    errors = np.array([9.0] * 12 + [0.5] * 108)
    spread = spread_of(errors, [str(i) for i in range(120)])
    assert spread.conformal
    assert spread.p99 == 9.0
    assert spread_of(errors[:30], [str(i) for i in range(30)]).two_sided < 9.0  # Parametric: one must not widen all.


@given(st.lists(st.tuples(st.floats(-50, 50), st.sampled_from("abcdefghijklmnop")), max_size=40))
def test_quantiles_are_ordered(rows: list[tuple[float, str]]) -> None:
    spread = spread_of(np.array([error for error, _ in rows]), [group for _, group in rows])
    assert 0 <= spread.p90 <= spread.two_sided
    assert spread.p99 is None or spread.p99 >= spread.two_sided


CASES = st.floats(0.01, 1.0), st.integers(1, 50)


@given(*CASES, st.booleans())
def test_fewer_peers_and_less_known_never_narrow_a_scale(scale: float, peers: int, familiar: bool) -> None:
    chain = ("imports", "imports", "imports", "imports@somewhere", "imports@somewhere")
    calibrations = {
        "elsewhere": Calibration({"imports": scale}, {}),
        "hardware": Calibration({"imports": scale}, {}),
        "pooled": Calibration({"imports@familiar": scale, "imports@strange": 2 * scale}, {}),
    }
    few, many = (scale_of(calibrations, "elsewhere", chain, Standing(n, False, True)) for n in (peers, peers + 1))
    assert few > many > scale
    known, new = (scale_of(calibrations, "pooled", chain, Standing(0, familiar, known)) for known in (True, False))
    assert known == (scale if familiar else 2 * scale)
    assert new == pytest.approx(np.hypot(known, scale))
