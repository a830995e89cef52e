"""Effects: what hardware, engine versions and models do to a part beyond its features, by partial pooling.

The logarithm of a part's seconds over its features' is a sum of effects, from the coarse (all CPU-bound parts on one
CPU type) to the fine (one part of one model on one hardware). Each effect is drawn to 0, or to that of the
preceding engine version, by its level's prior deviation, so a node that nobody has measured gets the pooled value, one
startup moves it most of the way, and many make it its own. Residuals are Student's t: a wild one drags nothing.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from app.prediction.case import Case
from app.prediction.features import kind_of
from app.prediction.recipe import Recipe
from app.stages import Part

__all__ = ["COARSE", "LEVELS", "MODEL", "Effects", "Levels", "effect_of", "exposures", "keys_of", "pool", "prior_mean"]

Array = NDArray[np.float64]
Index = NDArray[np.intp]
Effects = list[Array]
"""Of each level, the effect of each key, and a 0 for rows that have none."""

LEVELS = (
    "busy",
    "quota",
    "condition",
    "variant",
    "version",
    "place",
    "place_part",
    "node",
    "node_part",
    "own",
    "own_part",
    "architecture",
    "model",
    "history",
    "own_history",
)
"""The levels of effects, coarse to fine; from ``architecture`` on they belong to a model."""
COARSE = slice(0, LEVELS.index("architecture"))
"""The levels that belong to no model: coefficients are learned with these taken off, so that models are left."""
MODEL = LEVELS.index("model")
_SLOPES = 2  # The first two levels are slopes over an exposure; all others are there or not.
_VERSION = LEVELS.index("version")


def exposures(case: Case) -> tuple[float, float]:
    """Return how much of the first two effects a case has: load by others on its cores, and cores that it may not use.

    On the paper's node n1, 50 % load slows a startup by 12 % and 90 % by 25 to 28 %: about load ^ 1.5. Halving the
    cores counts from eight on downwards, where the compiler's workers begin to share them.
    """
    return case.busy**1.5, max(0.0, math.log2(8.0 / case.quota)) if case.quota else 0.0


def keys_of(part: Part, case: Case) -> tuple[str | None, ...]:
    """Return the key of each level's effect on ``part``; None where the level has none."""
    kind, cell, hardware = kind_of(part), case.cell(part), case.hardware.text()
    place = (case.hardware.gpu if kind == "gpu" else case.hardware.cpu) or "?"
    return (
        f"busy:{kind}",
        f"quota:{kind}",
        f"condition:{cell}",
        f"variant:{variant}" if (variant := case.variant(part)) else None,
        f"version:{part}@{'.'.join(map(str, case.version))}",
        f"place:{kind}@{place}",
        f"place_part:{cell}@{place}",
        f"node:{kind}@{hardware}",
        f"node_part:{cell}@{hardware}",
        f"own:{kind}@{hardware}" if case.own else None,
        f"own_part:{cell}@{hardware}" if case.own else None,
        f"architecture:{cell}@{case.architecture}" if case.architecture else None,
        f"model:{cell}@{case.model}",
        f"history:{cell}@{case.model}@{hardware}",
        f"own_history:{cell}@{case.model}@{hardware}" if case.own else None,
    )


def effect_of(part: Part, case: Case, effects: Mapping[str, float], recipe: Recipe) -> float:
    """Return the sum of a part's effects by key: the logarithm of a factor."""
    keys, exposed = keys_of(part, case), exposures(case)
    slopes = sum(
        share * effects.get(key or "", prior_mean(turn, recipe))
        for turn, (key, share) in enumerate(zip(keys, exposed, strict=False))
        if share
    )
    return slopes + sum(effects.get(key, 0.0) for key in keys[_SLOPES:] if key)


@dataclass(slots=True)
class Levels:
    """The effects of a table of rows, by level; a row is one part of one startup."""

    keys: list[list[str]]
    """Of each level, its keys."""
    index: Index
    """Which key each row has in each level; the number of keys where it has none: shape (levels, rows)."""
    exposures: Array
    """How much of the first two levels' effects each row has: shape (2, rows)."""
    predecessors: Index
    """Of each engine version of each part, the index of the version before it, or the number of versions."""

    @classmethod
    def of(cls, rows: Sequence[tuple[str | None, ...]], exposed: Sequence[tuple[float, float]]) -> "Levels":
        """Number the keys of each level; ``exposed`` as of :func:`exposures`, for each row."""
        keys = [sorted({row[turn] or "" for row in rows} - {""}) for turn in range(len(LEVELS))]
        keys[_VERSION].sort(key=_natural)
        index = np.empty((len(LEVELS), len(rows)), dtype=np.intp)
        for turn, names in enumerate(keys):
            place: dict[str | None, int] = {key: i for i, key in enumerate(names)}
            index[turn] = [place.get(row[turn], len(names)) for row in rows]
        return cls(keys, index, np.array(exposed).T.reshape(_SLOPES, len(rows)), _predecessors(keys[_VERSION]))

    def take(self, rows: Index) -> "Levels":
        """Return the levels of these rows; the keys stay, so that effects of both can be compared."""
        return Levels(self.keys, self.index[:, rows], self.exposures[:, rows], self.predecessors)

    def sums(self, effects: Effects, levels: slice = slice(None)) -> Array:
        """Return the sum of each row's effects: shape (rows,)."""
        turns = range(len(self.keys))[levels]
        return np.asarray(np.sum([effects[turn][self.index[turn]] * self.share(turn) for turn in turns], axis=0))

    def share(self, turn: int) -> Array | float:
        """Return how much of a level's effect each row has."""
        return self.exposures[turn] if turn < _SLOPES else 1.0

    def nothing(self, recipe: Recipe) -> Effects:
        """Return the effects before any measurement: 0, but for the slopes."""
        return [np.append(np.full(len(keys), prior_mean(turn, recipe)), 0.0) for turn, keys in enumerate(self.keys)]


def prior_mean(turn: int, recipe: Recipe) -> float:
    """Return the effect of a level before any measurement."""
    return (recipe.busy_mean, recipe.quota_mean)[turn] if turn < _SLOPES else 0.0


def pool(levels: Levels, ratios: Array, trust: Array, recipe: Recipe, start: Effects | None) -> tuple[Effects, Array]:
    """Estimate all effects together, and Student's weight of each row, 0..1.

    Parameters
    ----------
    levels : which effects each row has.
    ratios : logarithm of observed over features' seconds: shape (rows,).
    trust : weight of each row, 0..1; parts of a few hundredths of a second tell little: shape (rows,).
    recipe : prior deviations and noise.
    start : effects of an earlier round, to begin from.

    Turns over the levels, each time giving every key the shrunken weighted mean of what the others leave.
    """
    effects = [values.copy() for values in start or levels.nothing(recipe)]
    precisions = [_precisions(turn, keys, recipe) for turn, keys in enumerate(levels.keys)]
    total = levels.sums(effects)
    # At first every row is trusted: a whole new node is news, not a crowd of outliers.
    weights = trust * _student(ratios - total, recipe) if start else trust
    for _ in range(recipe.sweeps):
        for turn, (values, index) in enumerate(zip(effects, levels.index, strict=True)):
            share = levels.share(turn)
            mine = values[index] * share
            rest = ratios - total + mine
            evidence = np.bincount(index, weights * share**2, len(values))[:-1] / recipe.noise**2
            sums = np.bincount(index, weights * share * rest, len(values))[:-1] / recipe.noise**2
            expected = values[levels.predecessors] if turn == _VERSION else prior_mean(turn, recipe)
            values[:-1] = (sums + precisions[turn] * expected) / (evidence + precisions[turn])
            total += values[index] * share - mine
        weights = trust * _student(ratios - total, recipe)
    return effects, _student(ratios - total, recipe)


def _precisions(turn: int, keys: Sequence[str], recipe: Recipe) -> Array:
    """Return 1 / prior variance of each key of a level."""
    usual = float(getattr(recipe, LEVELS[turn]))
    loading = f"node_part:{Part.WEIGHT_LOADING}"
    return np.array([1.0 / (recipe.bandwidth if key.startswith(loading) else usual) ** 2 for key in keys])


def _natural(key: str) -> tuple[str, tuple[int, ...]]:
    part, _, version = key.rpartition("@")
    return part, tuple(map(int, version.split(".")))


def _predecessors(keys: Sequence[str]) -> Index:
    """Return for each version of a part the index of the one before it; the last place, 0, for a part's first."""
    parts = [key.rpartition("@")[0] for key in keys]
    return np.array([i - 1 if i and parts[i - 1] == part else len(keys) for i, part in enumerate(parts)], dtype=np.intp)


def _student(residuals: Array, recipe: Recipe) -> Array:
    """Return Student's weights of the residuals: 1 at 0."""
    return np.asarray(recipe.freedom / (recipe.freedom + (residuals / recipe.noise) ** 2))
