"""Pooling: all effects estimated together, with how much each level and each part varies.

The variances are learned from the same measurements (empirical Bayes): the recipe's deviations are what they start
from, and count as much as a few measured effects. So nothing about a level is tuned by hand, and other data find
their own. Effects and residuals alike are Student's t: a wild model or startup keeps its own surplus to itself.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from app.prediction.effects import ARCHITECTURE, LEVELS, MODEL, SLOPES, VERSION, Effects, Levels, prior_mean
from app.prediction.recipe import Recipe
from app.stages import Part

__all__ = ["Pooled", "pool", "unpooled"]

Array = NDArray[np.float64]
Index = NDArray[np.intp]


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
    each other, and one gives each model its median: else a wild startup would move the coarse levels before its own
    level has taken it up.
    """
    effects = [values.copy() for values in before.effects]
    usual = before.noise[levels.parts]
    total = levels.sums(effects)
    weights = trust if first else trust * _student(ratios - total, usual, recipe)
    if first:
        rough = usual + recipe.model**2 + recipe.history**2
        for _ in range(recipe.rough_sweeps):
            step = _Step(weights / rough, before.variances, recipe)
            total = step.turn(levels, effects, ratios, total, range(ARCHITECTURE))[0]
            weights = trust * _student(ratios - total, rough, recipe)
        step = _Step(trust / usual, before.variances, recipe, middle=True)
        total = step.turn(levels, effects, ratios, total, range(MODEL, len(LEVELS)))[0]
        weights = trust * _student(ratios - total, usual, recipe)
    moments: list[Array] = []
    for _ in range(recipe.sweeps):
        step = _Step(weights / usual, before.variances, recipe)
        total, moments = step.turn(levels, effects, ratios, total, range(len(LEVELS)))
        weights = trust * _student(ratios - total, usual, recipe)
    variances = [_variances(turn, levels, recipe, told) for turn, told in enumerate(moments)]
    noise = _noise(levels, ratios - total, weights, trust, recipe)
    return Pooled(effects, variances, noise), _student(ratios - total, usual, recipe)


@dataclass(frozen=True, slots=True)
class _Step:
    """How one turn over some levels is made."""

    precisions: Array
    """Inverse variance of each row, by how far it is trusted."""
    variances: list[Array]
    """Prior variance of each key of each level."""
    recipe: Recipe
    middle: bool = False
    """Whether a key's median counts instead of its mean: it goes all the way with a new group, not with a wild row."""

    def turn(
        self, levels: Levels, effects: Effects, ratios: Array, total: Array, turns: range
    ) -> tuple[Array, list[Array]]:
        """Renew the effects of some levels in place; return the sums by row and the second moments by key."""
        moments = []
        for turn in turns:
            values, index, share, variance = effects[turn], levels.index[turn], levels.share(turn), self.variances[turn]
            mine = values[index] * share
            if turn == ARCHITECTURE:
                moments.append(self._architectures(levels, effects, ratios - total))
                total = total + values[index] - mine
                continue
            rest = ratios - total + mine
            evidence = np.bincount(index, self.precisions * share**2, len(values))[:-1]
            if self.middle:
                sums = evidence * _medians(index, rest, len(values))[:-1]
            else:
                sums = np.asarray(np.bincount(index, self.precisions * share * rest, len(values))[:-1])
            expected = values[levels.predecessors] if turn == VERSION else prior_mean(turn, self.recipe)
            tails = _student(values[:-1] - expected, variance, self.recipe)
            posterior = 1.0 / (evidence + tails / variance)
            values[:-1] = posterior * (sums + expected * tails / variance)
            total = total + values[index] * share - mine
            moments.append(np.where(evidence > 0, tails * (values[:-1] - expected) ** 2 + posterior, np.nan))
        return total, moments

    def _architectures(self, levels: Levels, effects: Effects, residuals: Array) -> Array:
        """Renew the effects of architectures in place, by one mean for each model; return their second moments.

        A model tells as much of its architecture as models lie apart, however often it was started. One that lies far
        from what is known of it tells next to nothing: it may be wrong throughout.
        """
        values, variance = effects[ARCHITECTURE], self.variances[ARCHITECTURE]
        models, within = levels.index[MODEL], self.variances[MODEL]
        finer = [effects[turn][levels.index[turn]] for turn in range(ARCHITECTURE, len(LEVELS))]
        evidence = np.bincount(models, self.precisions, len(within))
        evidence = np.maximum(evidence, np.finfo(float).tiny)
        means = np.bincount(models, self.precisions * (residuals + np.sum(finer, axis=0)), len(within)) / evidence
        family = np.full(len(within), len(values) - 1)
        family[models] = levels.index[ARCHITECTURE]
        apart = within + 1.0 / evidence
        trust = _student(means - values[family], apart, self.recipe) / apart
        told = np.bincount(family, trust, len(values))[:-1]
        posterior = 1.0 / (told + 1.0 / variance)
        values[:-1] = posterior * np.bincount(family, trust * means, len(values))[:-1]
        return np.where(told > 0, values[:-1] ** 2 + posterior, np.nan)


def _medians(index: Index, values: Array, size: int) -> Array:
    """Return the lower median of each group; 0 for an empty one."""
    if not len(values):  # Where only totals were measured, no part has a ratio.
        return np.zeros(size)
    counts = np.bincount(index, minlength=size)
    order = np.lexsort((values, index))
    middles = np.cumsum(counts) - counts + (np.maximum(counts, 1) - 1) // 2
    return np.where(counts > 0, values[order][np.minimum(middles, len(values) - 1)], 0.0)


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
