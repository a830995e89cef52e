"""Pooling: all effects estimated together, with how much each level and each part varies.

The variances are learned from the same measurements (empirical Bayes): the recipe's deviations are what they start
from, and count as much as a few measured effects. So nothing about a level is tuned by hand, and other data find
their own. Effects and residuals alike are Student's t: a wild model or startup keeps its own surplus to itself.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from app.prediction.effects import LEVELS, SLOPES, VERSION, Effects, Levels, prior_mean
from app.prediction.recipe import Recipe
from app.stages import Part

__all__ = ["Pooled", "pool", "unpooled"]

Array = NDArray[np.float64]


@dataclass(slots=True)
class Pooled:
    """What pooling learned."""

    effects: Effects
    variances: list[Array]
    """Prior variance of each key of each level."""
    noise: Array
    """Variance of each part from startup to startup: shape (17,)."""


def unpooled(levels: Levels, recipe: Recipe) -> Pooled:
    """Return what holds before any measurement."""
    variances = [_usual(turn, keys, recipe) for turn, keys in enumerate(levels.keys)]
    return Pooled(levels.nothing(recipe), variances, np.full(len(Part), recipe.noise**2))


def pool(
    levels: Levels, ratios: Array, trust: Array, recipe: Recipe, before: Pooled, *, first: bool
) -> tuple[Pooled, Array]:
    """Estimate all effects together; also return Student's weight of each row, 0..1.

    Parameters
    ----------
    levels : which effects each row has.
    ratios : logarithm of observed over features' seconds: shape (rows,).
    trust : weight of each row, 0..1; parts of a few hundredths of a second tell little: shape (rows,).
    recipe : prior deviations and noise.
    before : what an earlier round learned, to begin from.
    first : whether every row is trusted to begin with: a whole new node is news, not a crowd of outliers.

    Turns over the levels, each time giving every key the shrunken weighted mean of what the others leave.
    """
    effects = [values.copy() for values in before.effects]
    noise = before.noise[levels.parts]
    total = levels.sums(effects)
    weights = trust if first else trust * _student(ratios - total, noise, recipe)
    variances = before.variances
    moments: list[Array] = []
    for _ in range(recipe.sweeps):
        moments = []
        for turn, (values, index) in enumerate(zip(effects, levels.index, strict=True)):
            share = levels.share(turn)
            mine = values[index] * share
            precision = weights * share / noise
            evidence = np.bincount(index, precision * share, len(values))[:-1]
            sums = np.bincount(index, precision * (ratios - total + mine), len(values))[:-1]
            expected = values[levels.predecessors] if turn == VERSION else prior_mean(turn, recipe)
            tails = _student(values[:-1] - expected, variances[turn], recipe)
            posterior = 1.0 / (evidence + tails / variances[turn])
            values[:-1] = posterior * (sums + expected * tails / variances[turn])
            total += values[index] * share - mine
            moments.append(np.where(evidence > 0, tails * (values[:-1] - expected) ** 2 + posterior, np.nan))
        weights = trust * _student(ratios - total, noise, recipe)
    residuals = ratios - total
    learned = [_variances(turn, levels, recipe, told) for turn, told in enumerate(moments)]
    return Pooled(effects, learned, _noise(levels, residuals, weights, trust, recipe)), _student(
        residuals, noise, recipe
    )


def _usual(turn: int, keys: list[str], recipe: Recipe) -> Array:
    """Return the recipe's variance of each key of a level."""
    usual = float(getattr(recipe, LEVELS[turn]))
    loading = f"node_part:{Part.WEIGHT_LOADING}"
    return np.array([(recipe.bandwidth if key.startswith(loading) else usual) ** 2 for key in keys])


def _variances(turn: int, levels: Levels, recipe: Recipe, moments: Array) -> Array:
    """Learn the variance of each family of a level from its effects' second moments, NaN where nothing was measured."""
    usual = _usual(turn, levels.keys[turn], recipe)
    if turn < SLOPES or turn == VERSION or not len(usual):
        return usual
    family, seen = levels.families[turn], ~np.isnan(moments)
    sums, counts = np.bincount(family, np.where(seen, moments, 0.0)), np.bincount(family, seen)
    prior = np.bincount(family, usual) / np.bincount(family)
    return np.asarray(((recipe.variance_votes * prior + sums) / (recipe.variance_votes + counts))[family])


def _noise(levels: Levels, residuals: Array, weights: Array, trust: Array, recipe: Recipe) -> Array:
    squares = np.bincount(levels.parts, weights * residuals**2, len(Part))
    rows = np.bincount(levels.parts, trust, len(Part))
    return np.asarray((recipe.noise_votes * recipe.noise**2 + squares) / (recipe.noise_votes + rows))


def _student(residuals: Array, noise: Array, recipe: Recipe) -> Array:
    """Return Student's weights of the residuals: 1 at 0."""
    return np.asarray(recipe.freedom / (recipe.freedom + residuals**2 / noise))
