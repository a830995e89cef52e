"""Scores of predictions against measurements. Arrays are of shape (n,), in seconds."""

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import beta

__all__ = ["coverage_interval", "covered", "percentage_errors", "winkler"]

MISS_RATE = 0.1  # Bounds hold 90 % of outcomes.

Floats = NDArray[np.float64]


def percentage_errors(predicted: ArrayLike, measured: ArrayLike) -> Floats:
    """Return the absolute errors in percent of what was measured; their mean is the MAPE."""
    truth = np.asarray(measured, float)
    return np.asarray(100 * np.abs(np.asarray(predicted, float) - truth) / truth)


def covered(lower: ArrayLike, upper: ArrayLike, measured: ArrayLike) -> NDArray[np.bool_]:
    """Return which measurements lie within their bounds, ends included."""
    truth = np.asarray(measured, float)
    return np.asarray((np.asarray(lower) <= truth) & (truth <= np.asarray(upper)))


def winkler(lower: ArrayLike, upper: ArrayLike, measured: ArrayLike) -> Floats:
    """Return the Winkler (interval) score of 90 % bounds, in seconds: the width, and 20 times what lies outside.

    Gneiting and Raftery, "Strictly Proper Scoring Rules, Prediction, and Estimation", 2007, equation 43.
    """
    low, high, truth = (np.asarray(a, float) for a in (lower, upper, measured))
    outside = np.maximum(low - truth, 0) + np.maximum(truth - high, 0)
    return np.asarray(high - low + 2 / MISS_RATE * outside)


def coverage_interval(hits: float, trials: int, confidence: float = 0.95) -> tuple[float, float]:
    """Return the binomial (Clopper-Pearson) interval of a coverage.

    ``hits`` may be a fraction: a model with four of five runs inside its bounds is 0.8 of a hit.
    """
    tail = (1 - confidence) / 2
    low = 0.0 if hits <= 0 else float(beta.ppf(tail, hits, trials - hits + 1))
    high = 1.0 if hits >= trials else float(beta.ppf(1 - tail, hits + 1, trials - hits))
    return low, high
