"""Learning: coefficients and effects from a table of observed seconds, in turns."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sklearn import config_context

from app.prediction.case import Case
from app.prediction.effects import COARSE, MODEL, Effects, Levels
from app.prediction.features import design, priors
from app.prediction.observation import Observation
from app.prediction.pooling import Pooled, pool, unpooled
from app.prediction.recipe import Recipe
from app.prediction.regressor import ShrunkNonNegativeRegressor
from app.stages import PARTS_OF, STAGES, Part

__all__ = ["COLUMN", "PARTS", "Learned", "Table", "learn", "scaled", "spread", "stage_sums"]

PARTS: tuple[Part, ...] = tuple(Part)
COLUMN = {part: i for i, part in enumerate(PARTS)}
UNKNOWN_WEIGHT = 0.01  # A row whose cache state nobody knows says little about what bytes cost from where.
Array = NDArray[np.float64]
Index = NDArray[np.intp]


@dataclass(slots=True)
class Table:
    """Observations as arrays; n of them.

    ``totals``, ``stages`` and ``parts`` hold the observed seconds, NaN where not observed: shapes (n,), (n, 7) and
    (n, 17).
    """

    cases: list[Case]
    totals: Array
    stages: Array
    parts: Array
    designs: list[Array]
    """Of each part, the values of its features: shape (n, features)."""
    telling: Array
    """How much each part of each row says of coefficients, 0..1: little where the cache state is unknown: (n, 17)."""
    levels: Levels
    """The effects of every part of every row, part by part within a row: n x 17 rows."""

    @classmethod
    def of(cls, observations: Sequence[Observation], cases: list[Case]) -> "Table":
        """Lay the observations out."""
        return cls(
            cases,
            _filled([[o.total_seconds] for o in observations]).reshape(len(observations)),
            _filled([[o.stages.get(stage) for stage in STAGES] for o in observations]),
            _filled([[o.parts.get(part) for part in PARTS] for o in observations]),
            [design(part, cases) for part in PARTS],
            np.array([[UNKNOWN_WEIGHT if "unknown" in case.cell(part) else 1.0 for part in PARTS] for case in cases]),
            Levels.of(cases),
        )

    def take(self, rows: Index) -> "Table":
        """Return the table of these rows."""
        flat = (rows[:, None] * len(PARTS) + np.arange(len(PARTS))).ravel()
        return Table(
            [self.cases[i] for i in rows],
            self.totals[rows],
            self.stages[rows],
            self.parts[rows],
            [values[rows] for values in self.designs],
            self.telling[rows],
            self.levels.take(flat),
        )


@dataclass(slots=True)
class Learned:
    """Coefficients by part, in seconds per unit of its features, and effects by level."""

    coefficients: list[Array]
    effects: Effects

    def bases(self, table: Table) -> Array:
        """Return what the features alone say, seconds: shape (n, 17)."""
        return np.array([v @ c for v, c in zip(table.designs, self.coefficients, strict=True)]).T

    def sums(self, table: Table, levels: slice = slice(None)) -> Array:
        """Return the sum of each part's effects: shape (n, 17)."""
        return table.levels.sums(self.effects, levels).reshape(-1, len(PARTS))

    def seconds(self, table: Table, recipe: Recipe) -> Array:
        """Return the seconds of every part for every row: shape (n, 17)."""
        return scaled(self.bases(table), self.sums(table), recipe.floor_seconds)


def scaled(base: Array, effect: Array, floor: float) -> Array:
    """Return (base + floor) x exp(effect) - floor, never below 0: no ratio is taken of less than the floor."""
    return np.maximum(0.0, (base + floor) * np.exp(np.clip(effect, -20.0, 20.0)) - floor)


def learn(table: Table, recipe: Recipe) -> tuple[Learned, Array]:
    """Learn coefficients and effects in turns; also return Student's weight of every part: shape (n, 17)."""
    pooled = unpooled(table.levels, recipe)
    learned = Learned([priors(part) for part in PARTS], pooled.effects)
    weights = np.ones((len(table.cases), len(PARTS)))
    for turn in range(recipe.rounds):
        observed = spread(table, learned.seconds(table, recipe))
        coarse = learned.sums(table, COARSE)
        learned.coefficients = [
            _coefficients(column, table, observed[:, column], coarse[:, column], weights[:, column], before, recipe)
            for column, before in enumerate(learned.coefficients)
        ]
        pooled, weights = _pooled(learned, table, observed, recipe, pooled, first=turn == 0)
        learned.effects = pooled.effects
    return learned, weights


def spread(table: Table, expected: Array) -> Array:
    """Return the seconds of every part: observed ones, and of a stage's rest each other part's expected share.

    NaN where neither the part nor its stage was observed.
    """
    observed = table.parts.copy()
    for s, stage in enumerate(STAGES):
        rows = np.flatnonzero(~np.isnan(table.stages[:, s]))
        cells = np.ix_(rows, np.array([COLUMN[part] for part in PARTS_OF[stage]]))
        known = observed[cells]
        unknown = np.isnan(known)
        rest = np.maximum(0.0, table.stages[rows, s] - np.nansum(known, axis=1))
        # Where every part was observed but they do not fill their stage, each takes its share of the rest as well.
        full = ~unknown.any(axis=1, keepdims=True)
        share = np.where(full | unknown, expected[cells] + 1e-6, 0.0)
        share /= share.sum(axis=1, keepdims=True)
        observed[cells] = np.nan_to_num(known) + share * rest[:, None]
    return observed


def _filled(rows: Sequence[Sequence[float | None]]) -> Array:
    return np.array([[np.nan if value is None else value for value in row] for row in rows], dtype=float)


def _coefficients(
    column: int, table: Table, observed: Array, coarse: Array, weights: Array, before: Array, recipe: Recipe
) -> Array:
    """Fit one part's coefficients to what is left of it when the effects of hardware and engine are taken off."""
    part, rows = PARTS[column], np.flatnonzero(~np.isnan(observed))
    if not len(rows):
        return before
    prior, floor = priors(part), recipe.floor_seconds
    values = table.designs[column][rows]
    base = values @ before + floor
    target = (observed[rows] + floor) * np.exp(-coarse[rows]) - floor
    regressor = ShrunkNonNegativeRegressor(
        prior=1.0,
        strength=(recipe.model_scatter / recipe.coefficient_deviation) ** 2,
        threshold=1.345 * recipe.model_scatter,  # Huber's own choice: 95 % as good as least squares on normal errors.
        iterations=2,  # The turns around this one renew the weights further.
    )
    models = table.levels.index[MODEL, rows * len(PARTS) + column]
    votes = table.telling[rows, column] / np.bincount(models)[models] * weights[rows]  # Each model has one vote.
    votes *= _sober(np.log((np.maximum(target, 0.0) + floor) / base), recipe)
    with config_context(assume_finite=True, skip_parameter_validation=True):  # Checked once, when they were received.
        regressor.fit(values * prior / base[:, None], target / base, sample_weight=votes)
    return np.asarray(regressor.coef_ * prior)


def _sober(ratios: Array, recipe: Recipe) -> Array:
    """Return Student's weight of rows by how far they lie from the middle of all.

    Least squares would bend to the one small model that is wrong before its residual gives it away.
    """
    away = ratios - np.median(ratios)
    scale = max(recipe.model_scatter, 1.4826 * float(np.median(np.abs(away))))  # As a normal distribution's deviation.
    return np.asarray(recipe.freedom / (recipe.freedom + (away / scale) ** 2))


def _pooled(
    learned: Learned, table: Table, observed: Array, recipe: Recipe, before: Pooled, *, first: bool
) -> tuple[Pooled, Array]:
    """Pool the effects of all parts together; also return Student's weights: shape (n, 17)."""
    floor, seen = recipe.floor_seconds, observed.ravel()
    rows = np.flatnonzero(~np.isnan(seen))
    base, seen = learned.bases(table).ravel()[rows], seen[rows]
    trust = np.maximum(base, seen) / (np.maximum(base, seen) + floor)
    ratios = np.log((seen + floor) / (base + floor))
    pooled, told = pool(table.levels.take(rows), ratios, trust, recipe, before, first=first)
    weights = np.ones(observed.size)
    weights[rows] = told
    return pooled, weights.reshape(observed.shape)


def stage_sums(parts: Array) -> Array:
    """Sum part seconds into stages: shape (n, 17) → (n, 7)."""
    columns: Mapping[int, list[int]] = {s: [COLUMN[p] for p in PARTS_OF[stage]] for s, stage in enumerate(STAGES)}
    return np.array([parts[:, columns[s]].sum(axis=1) for s in range(len(STAGES))]).T
