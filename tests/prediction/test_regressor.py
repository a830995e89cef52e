import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.exceptions import NotFittedError
from sklearn.utils.estimator_checks import estimator_checks_generator

from app.prediction.regressor import ShrunkNonNegativeRegressor

CHECKS = list(estimator_checks_generator(ShrunkNonNegativeRegressor()))


@pytest.mark.parametrize(
    ("estimator", "check"), CHECKS, ids=[getattr(check, "func", check).__name__ for _, check in CHECKS]
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
def test_keeps_the_contract(estimator: ShrunkNonNegativeRegressor, check: object) -> None:
    check(estimator)  # type: ignore[operator]


@given(st.lists(st.floats(0, 10), min_size=3, max_size=3), st.integers(0, 2**16))
def test_recovers_non_negative_coefficients(coefficients: list[float], seed: int) -> None:
    x = np.random.default_rng(seed).uniform(0.5, 2.0, (40, 3))
    regressor = ShrunkNonNegativeRegressor().fit(x, x @ np.array(coefficients))
    np.testing.assert_allclose(regressor.coef_, coefficients, atol=1e-3)


def test_is_never_negative() -> None:
    x = np.array([[1.0], [2.0], [3.0]])
    assert ShrunkNonNegativeRegressor().fit(x, -x.ravel()).coef_[0] == 0


def test_one_wild_row_moves_it_little() -> None:
    x = np.ones((10, 1))
    y = np.array([1.0] * 9 + [100.0])
    assert ShrunkNonNegativeRegressor().fit(x, y).coef_[0] == pytest.approx(10.9, rel=0.01)  # The mean.
    # Nine rows pull at 1, the wild one with the weight 0.1 / 99 at 100: 1 + 0.1 / 9.
    assert ShrunkNonNegativeRegressor(threshold=0.1).fit(x, y).coef_[0] == pytest.approx(1.011, rel=0.01)


def test_few_rows_stay_near_the_prior() -> None:
    x, y = np.array([[1.0]]), np.array([3.0])
    # One row of weight 1 at 3 and the prior's weight 1 at 1.
    assert ShrunkNonNegativeRegressor(prior=1.0, strength=1.0).fit(x, y).coef_[0] == pytest.approx(2.0)


def test_refuses_to_predict_before_fit() -> None:
    with pytest.raises(NotFittedError):
        ShrunkNonNegativeRegressor().predict([[1.0]])
