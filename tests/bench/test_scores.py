import math

import numpy as np
import pytest

from bench.scores import coverage_interval, covered, percentage_errors, winkler


def test_percentage_errors_are_of_what_was_measured() -> None:
    # 12 for 10 is 20 % too much, 30 for 40 is 25 % too little.
    assert percentage_errors([12.0, 30.0], [10.0, 40.0]) == pytest.approx([20.0, 25.0])


def test_bounds_hold_their_ends() -> None:
    assert covered([1, 1, 1], [2, 2, 2], [1.0, 2.0, 2.001]).tolist() == [True, True, False]


def test_winkler_is_the_width_and_twenty_times_what_lies_outside() -> None:
    # Inside: the width, 4. 0.5 s above: 4 + 20 x 0.5 = 14. 1 s below: 4 + 20 x 1 = 24.
    assert winkler([8, 8, 8], [12, 12, 12], [10.0, 12.5, 7.0]) == pytest.approx([4.0, 14.0, 24.0])


def test_winkler_prefers_honest_bounds() -> None:
    truth = np.random.default_rng(0).normal(0, 1, 4000)
    scores = {width: winkler(np.full(4000, -width), np.full(4000, width), truth).mean() for width in (0.8, 1.64, 3.5)}
    assert min(scores, key=scores.__getitem__) == 1.64


def test_coverage_interval_against_the_published_table() -> None:
    # Clopper and Pearson 1934: 18 of 20 at 95 % is 0.6830 to 0.9877.
    assert coverage_interval(18, 20) == pytest.approx((0.6830, 0.9877), abs=1e-4)


def test_coverage_interval_at_the_ends() -> None:
    # None of n: the upper end is 1 - 0.025 ** (1 / n).
    assert coverage_interval(0, 10) == (0.0, pytest.approx(1 - math.pow(0.025, 0.1)))
    assert coverage_interval(10, 10) == (pytest.approx(math.pow(0.025, 0.1)), 1.0)


def test_fractional_hits_lie_between_whole_ones() -> None:
    low, high = coverage_interval(17.5, 20)
    assert coverage_interval(17, 20)[0] < low < coverage_interval(18, 20)[0]
    assert coverage_interval(17, 20)[1] < high < coverage_interval(18, 20)[1]
