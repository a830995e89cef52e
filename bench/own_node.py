"""Protocol I: the project's own startups on H200s, where machine and engine version are both new.

The publication is known; a host's startups arrive as an operator's own, the other host's are not known. Rivals learn
the very same rows.
"""

from collections import defaultdict
from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from bench.lines import Figures, Line
from bench.methods import TOTAL
from bench.protocols import Protocol, by_model, estimates, indices, mean_and_worst
from bench.reference_rows import Row, h200_rows, load_rows, paper_rows
from bench.runner import METHODS, OURS, Answers, Ask, Training
from bench.scores import coverage_interval, covered

__all__ = ["SEEDS", "I", "hosts", "scenarios"]

SEEDS = range(20)
NOMINAL = 90.0
BOUNDED_EVERY = {"after 1 startup": 4, "after 3 startups": 4}
"""Bounds take five sixths of a fit's time: of 17 to 20 choices, five each are bounded."""
MUST = {"after 1 startup": 20.0, "after 3 startups": 10.0, "model left out": 8.0}


def hosts() -> dict[str, list[Row]]:
    """Return the startups of each host."""
    found: dict[str, list[Row]] = defaultdict(list)
    for row in h200_rows():
        found[row.host].append(row)
    return dict(found)


@lru_cache
def scenarios() -> dict[tuple[str, str], list[tuple[Sequence[Row], Sequence[Row]]]]:
    """Return by host and name what is seen and what is asked: each first one, 20 draws of three, each model left out.

    Last, each host as it is told by what was seen on the others.
    """
    found: dict[tuple[str, str], list[tuple[Sequence[Row], Sequence[Row]]]] = {}
    for host, rows in hosts().items():
        firsts = [([row], [other for other in rows if other is not row]) for row in rows]
        models = by_model(rows).items()
        elsewhere = [row for row in h200_rows() if row.host != host]
        found[host, "0 startups"] = [((), rows)]
        found[host, "after 1 startup"] = [*firsts]
        found[host, "after 3 startups"] = [_three(rows, seed) for seed in SEEDS]
        found[host, "model left out"] = [([r for r in rows if r.model != model], asked) for model, asked in models]
        found[host, "other host known"] = [(elsewhere, rows)]
    return found


def _three(rows: Sequence[Row], seed: int) -> tuple[list[Row], list[Row]]:
    chosen = set(np.random.default_rng(seed).choice(len(rows), size=3, replace=False).tolist())
    return [rows[i] for i in sorted(chosen)], [row for i, row in enumerate(rows) if i not in chosen]


def _training(method: str, seen: Sequence[Row], *, bounded: bool = True) -> Training:
    known, own = indices(paper_rows()), indices(seen)
    return Training(method, known, own, bounded=bounded) if method == OURS else Training(method, (*known, *own))


def _asks_of(name: tuple[str, str], method: str) -> list[Ask]:
    every = BOUNDED_EVERY.get(name[1], 1)
    return [
        Ask(_training(method, seen, bounded=place % every == 0), row.index)
        for place, (seen, asked) in enumerate(scenarios()[name])
        for row in asked
    ]


def _asks() -> list[Ask]:
    return [ask for name in scenarios() for method in METHODS for ask in _asks_of(name, method)]


def _coverage(asks: Sequence[Ask], answers: Answers) -> Figures:
    """Return how often the bounds of the total held, with the interval: a model is one trial."""
    hits: dict[str, list[bool]] = defaultdict(list)
    for ask, estimate in zip(asks, estimates(asks, answers) or (), strict=True):
        row, (lower, upper) = load_rows()[ask.row], estimate.bounds[TOTAL]
        hits[row.model].append(bool(covered(lower, upper, row.seconds[TOTAL])))
    shares = [float(np.mean(some)) for some in hits.values()]
    low, high = coverage_interval(sum(shares), len(shares))
    return {"coverage %": 100 * float(np.mean(shares)), "from %": 100 * low, "to %": 100 * high}


def _lines(answers: Answers) -> list[Line]:
    lines = []
    for name in scenarios():
        asks = {method: _asks_of(name, method) for method in METHODS}
        figures = {method: mean_and_worst(some, answers) for method, some in asks.items()}
        coverage = _coverage([ask for ask in asks[OURS] if ask.training.bounded], answers)
        figures[OURS] = {**(figures[OURS] or {}), **coverage}
        host, what = name
        must = {"MAPE %": MUST[what]} if what in MUST else {}
        lines.append(Line("I", f"{host}, {what}", figures, must, met=coverage["to %"] >= NOMINAL))
    return lines


I = Protocol("I", _asks, _lines)  # noqa: E741  # Protocols are named by their letters.
