"""The protocols on unseen nodes: C0, C1, C3, and the learning curve G."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from itertools import combinations

import numpy as np

from bench.lines import Figures, Line
from bench.protocols import Protocol, by_model, indices, mean_and_worst
from bench.reference_rows import CASE0, GPU1, N3, Row, load_rows, of_experiment, paper_rows
from bench.runner import METHODS, OURS, Answers, Ask, Training

__all__ = ["C0", "C1", "C3", "SEEDS", "G"]

SEEDS = range(20)
MUST = {0: 6.0, 1: 3.5, 3: 3.0}
BOUNDED_EVERY = {0: 1, 1: 1, 3: 17}
"""Bounds take five sixths of a fit's time: of the 165 choices of three on a node, ten are bounded."""
AIM = {0: 3.0, 1: 2.2, 3: 1.8}


def campaigns() -> dict[str, list[Row]]:
    """Return for each node its page-cached, warm campaign; where single runs exist, those."""
    third = [row for row in of_experiment(N3) if row.measurement.spec.cache.weights is not None]  # yi-6b is mixed.
    return {"n1": of_experiment(CASE0), "n2": of_experiment(GPU1, runs="12345"), "n3": third}


def unseen_node(method: str, node: str, seen: Iterable[Row], *, bounded: bool = True) -> Training:
    """Leave out every row of ``node`` but the ``seen`` ones. The rivals know the other nodes' campaigns alone."""
    others = [row for rows in campaigns().values() for row in rows] if method != OURS else paper_rows()
    known, own = indices(row for row in others if row.node != node), indices(seen)
    return Training(method, known, own, bounded=bounded) if method == OURS else Training(method, (*known, *own))


def c_asks(count: int) -> list[Ask]:
    """Ask for every model of every node after each choice of ``count`` startups, one a model, of other models."""
    asks = []
    for node, rows in campaigns().items():
        models = by_model(rows)
        for method in METHODS:
            for place, chosen in enumerate(combinations(models, count)):
                startups = [models[model][0] for model in chosen]
                training = unseen_node(method, node, startups, bounded=place % BOUNDED_EVERY[count] == 0)
                asks += [Ask(training, row.index) for row in rows if row.model not in chosen]
    return asks


def _c_figures(asks: Sequence[Ask], answers: Answers) -> Figures | None:
    groups: dict[str, list[Ask]] = defaultdict(list)
    for ask in asks:
        groups[load_rows()[ask.row].node].append(ask)
    scores = {node: mean_and_worst(group, answers) for node, group in groups.items()}
    errors = {f"{node} %": score["MAPE %"] for node, score in scores.items() if score}
    return {"MAPE %": float(np.mean(list(errors.values()))), **errors} if len(errors) == len(scores) else None


def _c_lines(count: int, answers: Answers) -> list[Line]:
    asks = c_asks(count)
    figures = {method: _c_figures([a for a in asks if a.training.method == method], answers) for method in METHODS}
    what = f"unseen node, {count} startups of other models seen"
    return [Line(f"C{count}", what, figures, _each_node(MUST[count]), _each_node(AIM[count]))]


def _each_node(limit: float) -> Mapping[str, float]:
    """The limit holds on the mean and on each node: a mean may not hide a node."""
    return dict.fromkeys(("MAPE %", *(f"{node} %" for node in campaigns())), limit)


def _orders() -> list[list[Row]]:
    """Return for each seed one startup of each model of n2, in random order, a random run of each."""
    models = by_model(campaigns()["n2"])
    orders = []
    for seed in SEEDS:
        random = np.random.default_rng(seed)
        orders.append(
            [models[model][random.integers(len(models[model]))] for model in random.permutation(list(models))]
        )
    return orders


def g_asks(method: str) -> list[list[Ask]]:
    """Return for each order the ask before each arrival, after the arrivals before it. Only n1 was known before."""
    first = [row for row in paper_rows() if row.node == "n1"] if method == OURS else campaigns()["n1"]
    known = indices(first)

    def ask(order: Sequence[Row], arrived: int) -> Ask:
        own = indices(order[:arrived])
        training = Training(method, known, own, bounded=False) if method == OURS else Training(method, (*known, *own))
        return Ask(training, order[arrived].index)

    return [[ask(order, arrived) for arrived in range(len(order))] for order in _orders()]


def _g_figures(method: str, answers: Answers) -> Figures | None:
    """Return the running MAPE over the first 3, 5 and all arrivals, averaged over the orders."""
    curves = [[mean_and_worst([ask], answers) for ask in asks] for asks in g_asks(method)]
    errors = np.array([[score["MAPE %"] if score else np.nan for score in curve] for curve in curves])
    if np.isnan(errors).any():
        return None
    running = (errors.cumsum(axis=1) / np.arange(1, errors.shape[1] + 1)).mean(axis=0)
    return {"after 3 %": float(running[2]), "after 5 %": float(running[4]), "after all %": float(running[-1])}


def _g_lines(answers: Answers) -> list[Line]:
    figures = {method: _g_figures(method, answers) for method in METHODS}
    return [Line("G", "n2 learned startup by startup", figures, {"after 5 %": 5.0}, {"after 3 %": 5.0})]


C0, C1, C3 = (Protocol(f"C{count}", partial(c_asks, count), partial(_c_lines, count)) for count in (0, 1, 3))
G = Protocol("G", lambda: [ask for m in METHODS for asks in g_asks(m) for ask in asks], _g_lines)
