"""The methods that are compared, behind one interface: fit on observations, predict a spec."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, Self

from app.prediction.observation import Observation
from app.schemas.spec import Spec

__all__ = ["TOTAL", "CannotPredict", "Estimate", "Method"]

TOTAL = "total"


class CannotPredict(Exception):
    """The method has no means to answer this spec."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """What a method answers for one spec."""

    seconds: Mapping[str, float]
    """Expected seconds of the total and of each stage."""
    bounds: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    """90 % bounds of the total and of each stage; empty where the method has none."""


class Method(Protocol):
    """What every method offers."""

    def fit(self, observations: Sequence[Observation]) -> Self:
        """Learn from observations; a second call forgets the first."""
        ...

    def predict(self, spec: Spec) -> Estimate:
        """Answer for one spec; raise CannotPredict where the method has no means to."""
        ...
