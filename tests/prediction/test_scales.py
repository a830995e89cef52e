import math

import numpy as np
import pytest

from app.prediction.scales import MEAN_SIZE, SMALLEST_SCALE, Chain, measure, narrowest

ROOT = {"load": 0.25}


def chain(cell: str, told: str, place: str) -> Chain:
    return "load", f"load|{cell}", f"load|{told}", f"load|{cell}@{place}", f"load|{told}@{place}"


def scales_of(rows: list[tuple[str, str, str, float]]) -> dict[str, float]:
    """Measure one part's scales from rows of cell, hardware, group and error in deviations of a normal one."""
    chains = [[chain(cell, cell, place)] for cell, place, _, _ in rows]
    errors = np.array([[error * MEAN_SIZE] for *_, error in rows])
    return measure(chains, errors, [group for _, _, group, _ in rows], [place for _, place, _, _ in rows], ROOT)


def test_a_scale_is_drawn_to_the_next_wider_one() -> None:
    scales = scales_of([("disk", "a", f"g{i}", 0.01) for i in range(3)])
    part = (0.01 * 0.25) ** (1 / 2)  # One hardware, and one vote for the root.
    cell = (0.01 * part) ** (1 / 2)
    assert scales["load"] == pytest.approx(part)
    assert scales["load|disk"] == pytest.approx(cell)
    assert scales["load|disk@a"] == pytest.approx((0.01**3 * cell) ** (1 / 4))  # Its own scale: three groups.


def test_another_hardware_that_agrees_widens_no_scale() -> None:
    rows = [("disk", "a", f"g{i}", 0.01) for i in range(20)]
    assert scales_of([*rows, ("disk", "b", "g", 0.01)])["load|disk"] < scales_of(rows)["load|disk"]


def test_each_hardware_has_one_vote() -> None:
    once = [("disk", "a", "g", 0.01), ("disk", "b", "g", 0.1)]
    often = [*once, *(("disk", "a", f"g{i}", 0.01) for i in range(50))]
    assert scales_of(often)["load|disk"] == pytest.approx(scales_of(once)["load|disk"])
    assert scales_of(often)["load|disk@a"] < scales_of(once)["load|disk@a"]


def test_a_steady_hardware_has_narrower_scales_than_a_restless_one() -> None:
    rows = [("disk", place, f"g{i}", error) for place, error in (("a", 0.01), ("b", 0.1)) for i in range(10)]
    scales = scales_of(rows)
    assert scales["load|disk@a"] < scales["load|disk"] < scales["load|disk@b"]


def test_no_scale_is_smaller_than_anything_repeats() -> None:
    scales = scales_of([("disk", "a", f"g{i}", 0.0) for i in range(1000)])
    assert scales["load|disk@a"] == pytest.approx(SMALLEST_SCALE, rel=0.02)


def test_what_was_not_observed_changes_nothing() -> None:
    rows = [("disk", "a", "g", 0.01), ("disk", "a", "h", float("nan"))]
    assert scales_of(rows) == scales_of(rows[:1])


def test_an_unknown_circumstance_has_the_scale_of_the_next_wider() -> None:
    scales = {"load": 0.3, "load|disk": 0.1}
    assert narrowest(scales, chain("disk", "disk|unusual", "a")) == 0.1
    assert narrowest(scales, chain("network", "network", "a")) == 0.3


@pytest.mark.parametrize("rare_first", [True, False])
def test_a_circumstance_of_everyday_and_rare_starts_is_drawn_to_the_commoner(rare_first: bool) -> None:
    everyday = ("load|everyday", "load|disk", "load|disk", "load|disk@a", "load|disk@a")
    rare = ("load|rare", *everyday[1:])
    rows = [(rare, 0.4), *[(everyday, 0.01)] * 3]
    rows = rows if rare_first else rows[::-1]
    errors = np.array([[error * MEAN_SIZE] for _, error in rows])
    usual = {"load|everyday": 0.25, "load|rare": 0.25}
    scales = measure([[chain] for chain, _ in rows], errors, ["g1", "g2", "g3", "g4"], ["a"] * 4, usual)
    assert scales["load|everyday"] == pytest.approx((0.01 * 0.25) ** 0.5)
    assert scales["load|disk"] == pytest.approx(((0.4 + 3 * 0.01) / 4 * scales["load|everyday"]) ** 0.5)


def test_the_hardware_tells_more_than_that_a_start_is_unusual() -> None:
    scales = {"load": 0.3, "load|disk": 0.1, "load|disk|unusual": 0.2, "load|disk@a": 0.01}
    assert narrowest(scales, chain("disk", "disk|unusual", "a")) == 0.01
    assert narrowest(scales, chain("disk", "disk|unusual", "b")) == 0.2


def test_an_unusual_start_is_drawn_to_the_usual_ones_of_its_hardware() -> None:
    rows = [[chain("disk", "disk", "a")]] * 9 + [[chain("disk", "disk|unusual", "a")]]
    errors = np.array([[0.01 * MEAN_SIZE]] * 9 + [[0.04 * MEAN_SIZE]])
    scales = measure(rows, errors, [f"g{i}" for i in range(10)], ["a"] * 10, ROOT)
    assert scales["load|disk|unusual@a"] == pytest.approx(math.sqrt(0.04 * scales["load|disk@a"]))
