"""The gate: whether a candidate's recipe may take the champion's place, judged on models that neither has seen."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from app.prediction.catalogue import Catalogue
from app.prediction.crossvalidation import held_out
from app.prediction.fit import is_usable
from app.prediction.learning import Table
from app.prediction.observation import Observation
from app.prediction.recipe import Recipe
from app.prediction.resolver import Resolver

__all__ = ["Comparison", "compare"]

MARGIN_DEVIATIONS = 1.0
"""Standard errors by which a candidate may look worse: an equal one is turned down one time in six."""
MIN_GROUPS = 3
Array = NDArray[np.float64]
NO_ALIASES: Mapping[str, str] = {}


@dataclass(frozen=True, slots=True)
class Comparison:
    """What came of the gate."""

    promote: bool
    reason: str
    """One sentence that says why, with the figures."""
    candidate: dict[str, float]
    """``mape`` and ``bias`` of the total (shares of the observed), ``groups`` and ``startups`` held out."""
    champion: dict[str, float]


def compare(
    observations: Sequence[Observation],
    candidate: Recipe,
    champion: Recipe,
    *,
    aliases: Mapping[str, str] = NO_ALIASES,
) -> Comparison:
    """Fit both recipes on the same folds and score them on the same held-out models.

    The candidate is promoted unless its mean absolute relative error, averaged by model, exceeds the champion's by
    more than one standard error of the paired difference.
    """
    usable = sorted((o for o in observations if is_usable(o)), key=lambda o: (o.key, repr(o)))
    catalogue = Catalogue.of(usable, aliases)
    resolver = Resolver(catalogue)
    table = Table.of(usable, [resolver.measured(o).case for o in usable])
    models = [case.model for case in table.cases]
    first = _errors(table, models, candidate)
    second = first if candidate == champion else _errors(table, models, champion)
    if len(first) < MIN_GROUPS:
        reason = f"only {len(first)} models can be held out, too few to tell recipes apart"
        return Comparison(True, reason, _scores(first), _scores(second))
    worse = np.array([np.mean(np.abs(first[g])) - np.mean(np.abs(second[g])) for g in sorted(first)])
    margin = MARGIN_DEVIATIONS * float(np.std(worse, ddof=1)) / math.sqrt(len(worse))
    promote = float(np.mean(worse)) <= margin + 1e-12
    scores, rival = _scores(first), _scores(second)
    reason = (
        f"error {scores['mape']:.2%} against {rival['mape']:.2%} on {len(worse)} held-out models, "
        f"{'within' if promote else 'beyond'} a margin of {margin:.2%}"
    )
    return Comparison(promote, reason, scores, rival)


def _errors(table: Table, models: Sequence[str], recipe: Recipe) -> dict[str, Array]:
    """Return for each held-out model the relative errors of its startups' totals, where they were clocked."""
    errors: dict[str, list[float]] = {}
    floor = recipe.floor_seconds
    for rows, parts in held_out(table, recipe, models, recipe.folds):
        relative = (parts.sum(axis=1) - table.totals[rows]) / (table.totals[rows] + floor)
        clocked = ~np.isnan(relative)
        for row, error in zip(rows[clocked], relative[clocked], strict=True):
            errors.setdefault(models[row], []).append(float(error))
    return {model: np.array(values) for model, values in errors.items()}


def _scores(errors: Mapping[str, Array]) -> dict[str, float]:
    if not errors:
        return {"mape": 0.0, "bias": 0.0, "groups": 0.0, "startups": 0.0}
    return {
        "mape": float(np.mean([np.mean(np.abs(values)) for values in errors.values()])),
        "bias": float(np.mean([np.mean(values) for values in errors.values()])),
        "groups": float(len(errors)),
        "startups": float(sum(len(values) for values in errors.values())),
    }
