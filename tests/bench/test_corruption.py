from collections import Counter

import pytest

from app.prediction.observation import Observation
from app.schemas.spec import Spec
from app.stages import Part, Stage
from bench.corruption import corrupt

OBSERVATIONS = [
    Observation(
        str(i), Spec.of(f"model{i % 10}", "h100"), 50.0, {Stage.MODEL_LOADING: 30.0}, {Part.WEIGHT_LOADING: 29.0}
    )
    for i in range(200)
]


def test_one_in_twenty_is_wrong_by_ten_and_one_model_by_three() -> None:
    factors = [observation.total_seconds / 50.0 for observation in corrupt(OBSERVATIONS, seed=1)]
    tenfold = [factor for factor in factors if round(factor, 6) in (10, 0.1, 30, 0.3)]
    assert len(tenfold) == 10
    tripled = {o.spec.model.name for o, f in zip(OBSERVATIONS, factors, strict=True) if round(f, 6) in (3, 30, 0.3)}
    assert len(tripled) == 1
    assert Counter(round(factor, 6) for factor in factors)[1] == 200 - 20 - sum(f not in (30, 0.3) for f in tenfold)


def test_stages_and_parts_go_with_the_total() -> None:
    for observation in corrupt(OBSERVATIONS, seed=2):
        factor = observation.total_seconds / 50.0
        assert observation.stages[Stage.MODEL_LOADING] == pytest.approx(30.0 * factor)
        assert observation.parts[Part.WEIGHT_LOADING] == pytest.approx(29.0 * factor)


def test_a_seed_gives_the_same_again_and_leaves_its_input_alone() -> None:
    assert corrupt(OBSERVATIONS, seed=3) == corrupt(OBSERVATIONS, seed=3) != corrupt(OBSERVATIONS, seed=4)
    assert all(observation.total_seconds == 50.0 for observation in OBSERVATIONS)
