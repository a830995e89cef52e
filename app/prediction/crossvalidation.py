"""Errors of startups that a fit has not seen: held out by startup, by model on hardware, by model, by hardware."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from app.prediction.bounds import NEARNESS, TARGETS, Calibration, spread_of, votes_of
from app.prediction.learning import PARTS, Table, learn, spread, stage_sums
from app.prediction.recipe import Recipe
from app.stages import PARTS_OF, STAGES

__all__ = ["calibrate", "deviations", "folds_of", "held_out"]

Array = NDArray[np.float64]
Index = NDArray[np.intp]
MIN_ROWS = 4  # Fewer startups than this cannot be split into something to learn and something to test.
DEFAULT_SCALE = 0.25
"""Relative error of a part before any was held out: a quarter."""
SCALE_VOTES = 3.0
"""Groups that a part's scale counts for in that of its cell, and the default in that of the part."""
LARGEST_ERROR = 1.0  # A part off by a factor of e or more says that it is wild, not how wild.
MEMBERS = np.array([[1.0] * len(PARTS)] + [[float(p in PARTS_OF[s]) for p in PARTS] for s in STAGES])
"""Which parts each target is made of: shape (8, 17)."""


def calibrate(table: Table, totals: Array, recipe: Recipe) -> dict[str, Calibration]:
    """Measure for each nearness how far held-out startups lie from their prediction.

    Held out are single startups of pairs (model, hardware) that others remain of, pairs, models, and machines. Machines
    are few, so each hardware of one counts as a group of its own there, and the bounds say that they are parametric.
    """
    models = [case.model for case in table.cases]
    hardware = [case.hardware.text() for case in table.cases]
    machines = [f"{case.hardware.gpu}/{case.hardware.cpu}" for case in table.cases]
    pairs = [f"{model}@{place}" for model, place in zip(models, hardware, strict=True)]
    at_home = [f"{model}@{machine}" for model, machine in zip(models, machines, strict=True)]
    repeated, travelled = _several(pairs, pairs), _several(models, machines)
    startups = [f"{pair}#{i}" if pair in repeated else "" for i, pair in enumerate(pairs)]
    moved = [pair if model in travelled else "" for pair, model in zip(at_home, models, strict=True)]
    held = {
        "history": (startups, pairs, recipe.folds // 2),
        "elsewhere": (moved, models, recipe.folds),
        "hardware": (models, models, recipe.folds),
        "pooled": (machines, hardware, recipe.folds),
    }
    return {near: _calibration(table, totals, recipe, *held[near], near == "pooled") for near in NEARNESS}


def folds_of(groups: Sequence[str], folds: int) -> list[Index]:
    """Return the rows of each fold: whole groups, spread evenly by size; rows of the group "" are never held out."""
    sizes = Counter(groups)
    sizes.pop("", None)
    loads, fold_of = [0] * max(1, min(folds, len(sizes))), {}
    for group in sorted(sizes, key=lambda g: (-sizes[g], g)):
        lightest = loads.index(min(loads))
        fold_of[group] = lightest
        loads[lightest] += sizes[group]
    held = [
        np.array([i for i, g in enumerate(groups) if fold_of.get(g) == f], dtype=np.intp) for f in range(len(loads))
    ]
    return [rows for rows in held if len(rows)]


def held_out(table: Table, recipe: Recipe, groups: Sequence[str], folds: int) -> Iterator[tuple[Index, Array]]:
    """Yield the rows of each fold with the part seconds that a fit without them predicts: shape (rows, 17)."""
    every = np.arange(len(table.cases))
    for rows in folds_of(groups, folds):
        kept = np.setdiff1d(every, rows)
        if len(kept):
            learned, _ = learn(table.take(kept), recipe)
            yield rows, learned.seconds(table.take(rows), recipe)


def deviations(parts: Array, scales: Array, floor: float) -> Array:
    """Return the deviation of every target, in seconds, from part seconds and their scales: shapes (n, 17) → (n, 8)."""
    return np.asarray(np.sqrt(((parts + floor) * scales) ** 2 @ MEMBERS.T))


def _several(keys: Sequence[str], values: Sequence[str]) -> set[str]:
    """Return the keys that come with several values, or several times where keys are the values."""
    seen = Counter(keys) if keys is values else Counter(key for key, _ in set(zip(keys, values, strict=True)))
    return {key for key, count in seen.items() if count > 1}


def _calibration(
    table: Table, totals: Array, recipe: Recipe, groups: Sequence[str], voters: Sequence[str], folds: int, few: bool
) -> Calibration:
    folded = list(held_out(table, recipe, groups, folds)) if len(groups) >= MIN_ROWS and len(set(groups)) > 1 else []
    rows = np.concatenate([index for index, _ in folded]) if folded else np.array([], dtype=np.intp)
    parts = np.concatenate([seconds for _, seconds in folded]) if folded else np.zeros((0, len(PARTS)))
    held = table.take(rows)
    names = [voters[row] for row in rows.tolist()]
    cells = [[case.cell(part) for part in PARTS] for case in held.cases]
    scales = _scales(
        cells, np.log((spread(held, parts) + recipe.floor_seconds) / (parts + recipe.floor_seconds)), names
    )
    each = np.array([[scales[cell] for cell in row] for row in cells]).reshape(parts.shape)
    predicted = np.column_stack([parts.sum(axis=1), stage_sums(parts)])
    whole = np.where(np.isnan(held.stages).any(axis=1), np.nan, totals[rows])  # A total of unknown parts says little.
    errors = np.column_stack([whole, held.stages]) - predicted
    errors /= deviations(parts, each, recipe.floor_seconds)
    spreads = {}
    for column, target in enumerate(TARGETS):
        told = np.flatnonzero(~np.isnan(errors[:, column]))
        spreads[target] = spread_of(errors[told, column], [names[i] for i in told], parametric=few)
    return Calibration(scales, spreads)


def _scales(cells: Sequence[Sequence[str]], errors: Array, names: Sequence[str]) -> Mapping[str, float]:
    """Return the scale of each part and cell: the root of the mean square of its errors, each group with one vote."""
    scales: dict[str, float] = {}
    squares = np.minimum(errors**2, LARGEST_ERROR**2)
    for column, part in enumerate(PARTS):
        told = np.flatnonzero(~np.isnan(errors[:, column]))
        usual = _mean(squares[told, column], [names[i] for i in told], DEFAULT_SCALE**2)
        scales[part.value] = float(np.sqrt(usual))
        for cell in sorted({row[column] for row in cells}):
            alike = np.array([i for i in told if cells[i][column] == cell], dtype=np.intp)
            scales[cell] = float(np.sqrt(_mean(squares[alike, column], [names[i] for i in alike], usual)))
    return scales


def _mean(squares: Array, names: Sequence[str], usual: float) -> float:
    return float((np.sum(squares * votes_of(names)) + SCALE_VOTES * usual) / (len(set(names)) + SCALE_VOTES))
