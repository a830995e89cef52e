"""What the tests of the mathematics share: the reference set and one fit of it."""

import pytest

from app.prediction.fit import Fit, fit
from app.prediction.observation import Observation
from app.prediction.predictor import Predictor
from app.reference import aliases, load_reference


@pytest.fixture(scope="session")
def reference() -> list[Observation]:
    return [Observation.of(measurement, reference=True) for measurement in load_reference()]


@pytest.fixture(scope="session")
def some_reference(reference: list[Observation]) -> list[Observation]:
    """A quarter of the reference set, for tests that fit it anew together with startups of their own."""
    return reference[::4]


@pytest.fixture(scope="session")
def reference_fit(reference: list[Observation]) -> Fit:
    return fit(reference, aliases=aliases())


@pytest.fixture(scope="session")
def predictor(reference_fit: Fit) -> Predictor:
    return Predictor(reference_fit)
