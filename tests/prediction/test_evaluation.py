from dataclasses import replace

from app.prediction.evaluation import compare
from app.prediction.observation import Observation
from app.prediction.recipe import Recipe
from tests.prediction.startups import node, spec, startup


def test_a_recipe_is_not_worse_than_itself(some_reference: list[Observation]) -> None:
    comparison = compare(some_reference, Recipe(), Recipe())
    assert comparison.promote
    assert comparison.candidate == comparison.champion
    assert 0 < comparison.candidate["mape"] < 0.3


def test_a_recipe_that_learns_nothing_is_turned_down() -> None:
    models = [{"name": f"m{i}", "weight_bytes": (i + 1) * 10**9, "num_layers": 24} for i in range(6)]
    slow = [
        replace(row, key=f"{i}/{row.key}")
        for i, model in enumerate(models)
        for row in node(5.0, of=spec(model), count=3)
    ]
    levels = ("condition", "place", "place_part", "node", "node_part", "own", "own_part")
    deaf = replace(
        Recipe(), coefficient_deviation=1e-6, variance_votes=1e9, freedom=1e12, **dict.fromkeys(levels, 1e-6)
    )
    comparison = compare(slow, deaf, Recipe())
    assert not comparison.promote
    assert comparison.candidate["mape"] > 3 * comparison.champion["mape"]
    assert compare(slow, Recipe(), deaf).promote


def test_too_few_models_cannot_turn_a_candidate_down() -> None:
    assert compare([startup("a", of=spec())], Recipe(), Recipe()).promote
