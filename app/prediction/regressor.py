"""The regressor: non-negative least squares, shrunk towards a prior, robust against wild rows."""

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.linear_model import LinearRegression
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

__all__ = ["ShrunkNonNegativeRegressor"]


class ShrunkNonNegativeRegressor(RegressorMixin, BaseEstimator):  # type: ignore[misc]  # sklearn is untyped.
    """Least squares with coefficients >= 0, a Gaussian prior on them, and Huber's weights on the rows.

    Minimises sum_i w_i h_i (y_i - x_i b)^2 + strength * sum_j (b_j - prior)^2 over b >= 0, where h is Huber's weight
    min(1, threshold / |y_i - x_i b|), renewed ``iterations`` times.

    Parameters
    ----------
    prior : float
        The value that coefficients have before any row.
    strength : float
        Weight of the prior, in rows.
    threshold : float
        Residual beyond which a row counts less, in units of y; infinite for plain least squares.
    iterations : int
        How often the weights are renewed; from ten on nothing moves by more than a thousandth.

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,)
        The coefficients.
    """

    def __init__(
        self, *, prior: float = 0.0, strength: float = 1e-6, threshold: float = np.inf, iterations: int = 10
    ) -> None:
        self.prior = prior
        self.strength = strength
        self.threshold = threshold
        self.iterations = iterations

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> "ShrunkNonNegativeRegressor":  # noqa: N803  # sklearn's name.
        """Learn ``coef_`` from X of shape (n_rows, n_features) and y of shape (n_rows,)."""
        X, y = validate_data(self, X, y, y_numeric=True, dtype=float)  # noqa: N806  # sklearn's name.
        weights = _check_sample_weight(sample_weight, X, dtype=float)
        columns = X.shape[1]
        rows = np.vstack([X, np.eye(columns)])
        targets = np.append(y, np.full(columns, float(self.prior)))
        penalties = np.full(columns, max(self.strength, 1e-12))
        solver = LinearRegression(fit_intercept=False, positive=True)
        robust = np.ones(len(y))
        for _ in range(self.iterations):
            solver.fit(rows, targets, sample_weight=np.append(weights * robust, penalties))
            residuals = np.abs(y - X @ solver.coef_)
            renewed = np.minimum(1.0, self.threshold / np.maximum(residuals, 1e-12))
            if np.allclose(renewed, robust, rtol=1e-6, atol=1e-9):
                break
            robust = renewed
        self.coef_ = solver.coef_
        return self

    def predict(self, X: Any) -> Any:  # noqa: N803  # sklearn's name.
        """Return the prediction for each row of X."""
        check_is_fitted(self)
        return validate_data(self, X, dtype=float, reset=False) @ self.coef_
