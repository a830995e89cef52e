"""Pooling: all effects estimated together, with how much each level and each part varies.

The variances are learned from the same measurements (empirical Bayes): the recipe's deviations are what they start
from, and count as much as a few measured effects. So nothing about a level is tuned by hand, and other data find
their own. Effects and residuals alike are Student's t: a wild model or startup keeps its own surplus to itself.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from app.prediction.effects import LEVELS, MODEL, SLOPES, VERSION, Effects, Levels, prior_mean
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

    Turns over the levels, each time giving every key the shrunken weighted mean of what the others leave. The first
    time, a few turns leave out the levels of single models and judge each startup by how far models usually lie from
    each other: else a wild startup would move the coarse levels before its own level has taken it up.
    """
    effects = [values.copy() for values in before.effects]
    usual = before.noise[levels.parts]
    total = levels.sums(effects)
    weights = trust if first else trust * _student(ratios - total, usual, recipe)
    for _ in range(recipe.rough_sweeps if first else 0):
        rough = usual + recipe.model**2 + recipe.history**2
        total = _turn(levels, effects, ratios, total, weights / rough, before.variances, recipe, MODEL)[0]
        weights = trust * _student(ratios - total, rough, recipe)
    moments: list[Array] = []
    for _ in range(recipe.sweeps):
        total, moments = _turn(levels, effects, ratios, total, weights / usual, before.variances, recipe, len(LEVELS))
        weights = trust * _student(ratios - total, usual, recipe)
    variances = [_variances(turn, levels, recipe, told) for turn, told in enumerate(moments)]
    noise = _noise(levels, ratios - total, weights, trust, recipe)
    return Pooled(effects, variances, noise), _student(ratios - total, usual, recipe)


def _turn(
    levels: Levels,
    effects: Effects,
    ratios: Array,
    total: Array,
    weights: Array,
    variances: list[Array],
    recipe: Recipe,
    depth: int,
) -> tuple[Array, list[Array]]:
    """Renew the effects of the first ``depth`` levels in place; return their sums by row and second moments by key."""
    moments = []
    for turn in range(depth):
        values, index, share, variance = effects[turn], levels.index[turn], levels.share(turn), variances[turn]
        mine = values[index] * share
        evidence = np.bincount(index, weights * share**2, len(values))[:-1]
        sums = np.bincount(index, weights * share * (ratios - total + mine), len(values))[:-1]
        expected = values[levels.predecessors] if turn == VERSION else prior_mean(turn, recipe)
        tails = _student(values[:-1] - expected, variance, recipe)
        posterior = 1.0 / (evidence + tails / variance)
        values[:-1] = posterior * (sums + expected * tails / variance)
        total = total + values[index] * share - mine
        moments.append(np.where(evidence > 0, tails * (values[:-1] - expected) ** 2 + posterior, np.nan))
    return total, moments


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
