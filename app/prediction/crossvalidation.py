"""Errors of startups that a fit has not seen: held out by startup, by model on hardware, by model, by hardware."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from app.prediction.bounds import TARGETS, Calibration, spread_of, votes_of
from app.prediction.effects import is_familiar, place_key
from app.prediction.learning import PARTS, Table, learn, spread, stage_sums
from app.prediction.recipe import Recipe
from app.stages import PARTS_OF, STAGES

__all__ = ["calibrate", "deviations", "folds_of", "held_out"]

Array = NDArray[np.float64]
Index = NDArray[np.intp]
MIN_ROWS = 4  # Fewer startups than this cannot be split into something to learn and something to test.
DEFAULT_SCALE = 0.25
"""Relative error of a part before any was held out: a quarter."""
SCALE_VOTES = 1.0
"""Groups that a part's scale counts for in that of its cell, and the default in that of the part."""
SMALLEST_SCALE = 0.002
"""No part repeats better than to 0.2 %."""
LARGEST_ERROR = 1.0
"""A part off by a factor of e or more says that it is wild, not how wild."""
NORMAL_MEAN = 0.7979
"""Mean absolute error of a normal distribution, in deviations."""
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
    history = _calibration(table, totals, _held(table, recipe, startups, recipe.folds // 2), pairs)
    elsewhere = _calibration(table, totals, _held(table, recipe, moved, recipe.folds), at_home)
    alone = _calibration(table, totals, _held(table, recipe, models, recipe.folds), models)
    pooled = _calibration(table, totals, _held(table, recipe, machines, recipe.folds), hardware, elsewhere)
    return {"history": history, "elsewhere": elsewhere, "hardware": alone, "pooled": pooled}


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
    if len(groups) < MIN_ROWS or len(set(groups)) < 2:
        return
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


@dataclass(slots=True)
class _Held:
    """Startups that were held out, and what was predicted for them."""

    rows: Index
    parts: Array
    """Predicted seconds: shape (rows, 17)."""
    familiar: NDArray[np.bool_]
    """Whether each part's cell was learned from on the type of CPU or GPU that it runs on: shape (rows, 17)."""
    floor: float


def _held(table: Table, recipe: Recipe, groups: Sequence[str], folds: int) -> _Held:
    index, seconds, familiar = [], [np.zeros((0, len(PARTS)))], [np.zeros((0, len(PARTS)), dtype=bool)]
    places = [[place_key(part, case) for part in PARTS] for case in table.cases]
    for rows, parts in held_out(table, recipe, groups, folds):
        out = set(rows.tolist())
        kept = {place for row, told in enumerate(places) if row not in out for place in told}
        index += rows.tolist()
        seconds.append(parts)
        held = [table.cases[row] for row in rows.tolist()]
        familiar.append(np.array([[is_familiar(part, case, kept) for part in PARTS] for case in held]))
    return _Held(
        np.array(index, dtype=np.intp), np.concatenate(seconds), np.concatenate(familiar), recipe.floor_seconds
    )


def _calibration(
    table: Table, totals: Array, held: _Held, voters: Sequence[str], elsewhere: Calibration | None = None
) -> Calibration:
    """Measure scales and spreads; with ``elsewhere``, parts on a familiar CPU or GPU have the scales of that."""
    taken, parts = table.take(held.rows), held.parts
    names = [voters[row] for row in held.rows.tolist()]
    told = [[case.circumstance(part) for part in PARTS] for case in taken.cases]
    logs = np.log((spread(taken, parts) + held.floor) / (parts + held.floor))
    scales = _scales(told, np.where(held.familiar, np.nan, logs) if elsewhere else logs, names)
    here = Calibration(scales, {})
    each = np.array([[here.scale(one) for one in row] for row in told]).reshape(parts.shape)
    if elsewhere:
        known = np.array([[elsewhere.scale(one) for one in row] for row in told]).reshape(parts.shape)
        each = np.where(held.familiar, known, each)
    predicted = np.column_stack([parts.sum(axis=1), stage_sums(parts)])
    whole = np.where(
        np.isnan(taken.stages).any(axis=1), np.nan, totals[held.rows]
    )  # Totals of unknown parts say little.
    errors = np.column_stack([whole, taken.stages]) - predicted
    errors /= deviations(parts, each, held.floor)
    spreads = {}
    rare = np.array([case.rare for case in taken.cases], dtype=bool)
    for column, target in enumerate(TARGETS):
        for kind, chosen in ((target, ~rare), (f"{target}|rare", rare)):
            seen = np.flatnonzero(~np.isnan(errors[:, column]) & chosen).tolist()
            spreads[kind] = spread_of(errors[seen, column], [names[i] for i in seen], parametric=elsewhere is not None)
    return Calibration(scales, spreads)


def _scales(told: Sequence[Sequence[str]], errors: Array, names: Sequence[str]) -> dict[str, float]:
    """Return the scale of each part and circumstance: by the mean size of its errors, each group with one vote."""
    scales: dict[str, float] = {}
    for column, part in enumerate(PARTS):
        groups: dict[str, list[int]] = {}
        for row in np.flatnonzero(~np.isnan(errors[:, column])).tolist():
            circumstance = told[row][column]
            for wider in {part.value, circumstance.removesuffix("|unusual"), circumstance}:
                groups.setdefault(wider, []).append(row)
        usual = DEFAULT_SCALE
        for key in sorted(groups.keys() | {part.value}, key=len):
            rows = groups.get(key, [])
            size = _size(np.abs(errors[rows, column]), [names[i] for i in rows], usual)
            usual = size if key == part.value else usual
            scales[key] = size
    return scales


def _size(errors: Array, names: Sequence[str], usual: float) -> float:
    """Return the deviation of errors from their mean size, drawn to the usual one where groups are few."""
    groups = len(set(names))
    sizes = float(np.sum(votes_of(names) * np.minimum(errors, LARGEST_ERROR))) / NORMAL_MEAN
    return max(SMALLEST_SCALE, (sizes + SCALE_VOTES * usual) / (groups + SCALE_VOTES))
