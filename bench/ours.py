"""Coldcast itself, behind the interface of the methods that are compared."""

from collections.abc import Sequence
from typing import Self

from app.prediction.fit import fit
from app.prediction.observation import Observation
from app.prediction.predictor import Predictor
from app.prediction.recipe import Recipe
from app.reference import aliases
from app.schemas.prediction import StagePrediction, TotalPrediction
from app.schemas.spec import Spec
from bench.methods import TOTAL, Estimate

__all__ = ["Coldcast"]


class Coldcast:
    """The project's own way, as production goes it: observations to a fit, the fit to a predictor.

    Without bounds, no folds are held out to measure them; the estimates stay the same.
    """

    def __init__(self, *, with_bounds: bool = True) -> None:
        self.with_bounds = with_bounds

    def fit(self, observations: Sequence[Observation]) -> Self:
        """Refit from nothing."""
        recipe = Recipe() if self.with_bounds else Recipe(folds=0)
        self.predictor_ = Predictor(fit(observations, recipe=recipe, aliases=aliases()))
        return self

    def predict(self, spec: Spec) -> Estimate:
        """Answer as ``POST /predict`` does."""
        answer = self.predictor_.predict(spec)
        parts: list[tuple[str, TotalPrediction | StagePrediction]] = [(TOTAL, answer.total)]
        parts += [(stage.stage.value, stage) for stage in answer.stages]
        bounds = {name: (part.lower_seconds, part.upper_seconds) for name, part in parts} if self.with_bounds else {}
        return Estimate({name: part.seconds for name, part in parts}, bounds)
