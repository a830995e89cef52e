"""Residuals of startups that a fit has not seen: by model, by hardware, and by startup."""

from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from app.prediction.bounds import TARGETS, Spread, spread_of
from app.prediction.learning import Table, learn, stage_sums
from app.prediction.recipe import Recipe

__all__ = ["folds_of", "held_out", "measure_spreads"]

Array = NDArray[np.float64]
MIN_ROWS = 4  # Fewer startups than this cannot be split into something to learn and something to test.


def measure_spreads(table: Table, totals: Array, recipe: Recipe) -> dict[str, dict[str, Spread]]:
    """Measure for each nearness (history, hardware, pooled) and each target how far held-out startups lie.

    ``history`` holds out single startups, ``hardware`` whole models, ``pooled`` whole hardware.
    """
    models = [case.model for case in table.cases]
    machines = [_machine(table, i) for i in range(len(models))]
    pairs = [f"{model}@{case.hardware.text()}" for model, case in zip(models, table.cases, strict=True)]
    repeated = {pair for pair, count in Counter(pairs).items() if count > 1}
    startups = [f"{pair}#{i}" if pair in repeated else "" for i, pair in enumerate(pairs)]
    return {
        "history": _spreads(table, totals, recipe, startups, pairs, recipe.folds // 2),
        "hardware": _spreads(table, totals, recipe, models, models, recipe.folds),
        "pooled": _spreads(table, totals, recipe, machines, machines, recipe.folds),
    }


def folds_of(groups: Sequence[str], folds: int) -> list[NDArray[np.intp]]:
    """Return the rows of each fold: whole groups, spread evenly by size; rows of the group "" are never held out."""
    sizes: dict[str, int] = {}
    for group in groups:
        sizes[group] = sizes.get(group, 0) + 1
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


def held_out(
    table: Table, recipe: Recipe, groups: Sequence[str], folds: int
) -> Iterator[tuple[NDArray[np.intp], Array]]:
    """Yield the rows of each fold with the part seconds that a fit without them predicts: shape (rows, 17)."""
    every = np.arange(len(table.cases))
    for rows in folds_of(groups, folds):
        kept = np.setdiff1d(every, rows)
        if len(kept):
            learned, _ = learn(table.take(kept), recipe)
            yield rows, learned.seconds(table.take(rows), recipe)


def _spreads(
    table: Table, totals: Array, recipe: Recipe, groups: Sequence[str], voters: Sequence[str], folds: int
) -> dict[str, Spread]:
    residuals: dict[str, list[float]] = {target: [] for target in TARGETS}
    names: dict[str, list[str]] = {target: [] for target in TARGETS}
    if len(set(groups) - {""}) > 1 and len(groups) >= MIN_ROWS:
        for rows, parts in held_out(table, recipe, groups, folds):
            predicted = np.column_stack([parts.sum(axis=1), stage_sums(parts)])
            observed = np.column_stack([totals[rows], table.stages[rows]])
            ratios = np.log((observed + recipe.floor_seconds) / (predicted + recipe.floor_seconds))
            for column, target in enumerate(TARGETS):
                told = np.flatnonzero(~np.isnan(ratios[:, column]))
                residuals[target] += ratios[told, column].tolist()
                names[target] += [voters[rows[i]] for i in told]
    return {target: spread_of(residuals[target], names[target]) for target in TARGETS}


def _machine(table: Table, row: int) -> str:
    key = table.cases[row].hardware
    return f"{key.gpu}/{key.cpu}/{(key.node or '').partition('/')[0]}"
