"""Protocol F: wrong measurements among those that are learned."""

import numpy as np

from bench.lines import Figures, Line
from bench.nodes import SEEDS
from bench.protocols import Protocol, held_out, mean_and_worst
from bench.reference_rows import FIGURE_REST, of_experiment
from bench.runner import METHODS, Answers, Ask

__all__ = ["F"]


def _clean(method: str) -> list[Ask]:
    return held_out(method, of_experiment(FIGURE_REST, runs="12345"))


def _corrupted(method: str) -> list[list[Ask]]:
    """Return for each seed the asks of A1. Only what is learned is made wrong, never what is asked for."""
    rows = of_experiment(FIGURE_REST, runs="12345")
    return [held_out(method, rows, seed=seed) for seed in SEEDS]


def _figures(method: str, answers: Answers) -> Figures | None:
    clean = mean_and_worst(_clean(method), answers)
    wrong = [score["MAPE %"] for asks in _corrupted(method) if (score := mean_and_worst(asks, answers))]
    if clean is None or len(wrong) < len(SEEDS):
        return None
    mean = float(np.mean(wrong))
    return {"MAPE %": mean, "growth %": 100 * (mean / clean["MAPE %"] - 1)}


def _lines(answers: Answers) -> list[Line]:
    figures = {method: _figures(method, answers) for method in METHODS}
    return [Line("F", "A1 with wrong measurements learned", figures, {"growth %": 20.0}, {"growth %": 10.0})]


def _asks() -> list[Ask]:
    return [ask for method in METHODS for asks in (_clean(method), *_corrupted(method)) for ask in asks]


F = Protocol("F", _asks, _lines)
