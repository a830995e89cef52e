"""What a protocol is, and those on unseen models: A1, A2, H and B."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from app.schemas.spec import CompileCache
from app.stages import STAGES
from bench.lines import Figures, Line
from bench.methods import TOTAL, Estimate
from bench.reference_rows import FIGURE_REST, FITTED, MODEL_SIZE2, PREDICTED, Row, load_rows, of_experiment, paper_rows
from bench.runner import METHODS, OURS, PAPER, STATE, Answers, Ask, Training
from bench.scores import percentage_errors

__all__ = ["A1", "A2", "B", "H", "Protocol", "by_model", "held_out", "mean_and_worst", "unseen_model"]


@dataclass(frozen=True)
class Protocol:
    """One protocol of the benchmark: the questions it asks, and the lines it draws from the answers."""

    name: str
    asks: Callable[[], list[Ask]]
    lines: Callable[[Answers], list[Line]]


LEAST_SECONDS = 1.0  # Stages under a second are not scored on their own.


def by_model(rows: Iterable[Row]) -> dict[str, list[Row]]:
    """Return the rows of each model."""
    groups: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        groups[row.model].append(row)
    return dict(groups)


def indices(rows: Iterable[Row]) -> tuple[int, ...]:
    """Return the rows' places in the reference."""
    return tuple(row.index for row in rows)


def unseen_model(method: str, model: str, home: Sequence[Row], seed: int | None = None) -> Training:
    """Leave out every row of ``model`` in every table.

    The rivals are fitted on the other models of ``home`` alone, as the paper does: one campaign, one state.
    """
    known = paper_rows() if method == OURS else home
    rows = indices(row for row in known if row.model != model)
    return Training(method, rows, seed=seed, bounded=seed is None)


def held_out(method: str, rows: Sequence[Row], *, hide_graph: bool = False, seed: int | None = None) -> list[Ask]:
    """Ask for each row with its model left out; ``rows`` are the rivals' campaign as well."""
    trainings = {model: unseen_model(method, model, rows, seed) for model in by_model(rows)}
    return [Ask(trainings[row.model], row.index, hide_graph) for row in rows]


def estimates(asks: Sequence[Ask], answers: Answers) -> list[Estimate] | None:
    """Return the answers to the asks, or None where the method could not answer one of them."""
    found = [estimate for ask in asks if (estimate := answers[ask]) is not None]
    return found if len(found) == len(asks) else None


def mean_and_worst(asks: Sequence[Ask], answers: Answers) -> Figures | None:
    """Return the MAPE of the totals and the worst of them, over single startups."""
    found = estimates(asks, answers)
    if found is None:
        return None
    measured = [load_rows()[ask.row].seconds[TOTAL] for ask in asks]
    errors = percentage_errors([estimate.seconds[TOTAL] for estimate in found], measured)
    return {"MAPE %": float(errors.mean()), "worst %": float(errors.max())}


def _warm_runs() -> list[Row]:
    return of_experiment(FIGURE_REST, runs="12345")


def _a_asks(hide: bool) -> list[Ask]:
    return [ask for method in METHODS for ask in held_out(method, _warm_runs(), hide_graph=hide)]


def _of(asks: Iterable[Ask], method: str) -> list[Ask]:
    return [ask for ask in asks if ask.training.method == method]


def _a1_lines(answers: Answers) -> list[Line]:
    asks = _a_asks(hide=False)
    without = [ask for ask in asks if not load_rows()[ask.row].model.startswith("granite4.0")]
    must, aim = {"MAPE %": 2.4, "worst %": 16.0}, {"MAPE %": 1.8, "worst %": 16.0}
    return [
        Line("A1", what, {method: mean_and_worst(_of(some, method), answers) for method in METHODS}, *limits)
        for what, some, limits in (("unseen model", asks, (must, aim)), ("without the granite4.0", without, ()))
    ]


def _a2_lines(answers: Answers) -> list[Line]:
    figures = {method: mean_and_worst(_of(_a_asks(hide=True), method), answers) for method in METHODS}
    must, aim = {"MAPE %": 5.0, "worst %": 35.0}, {"MAPE %": 3.5, "worst %": 35.0}
    return [Line("A2", "unseen model, never started", figures, must, aim)]


def _stage_errors(asks: Sequence[Ask], answers: Answers, stage: str) -> Figures | None:
    """Return the MAPE of one stage over the startups in which it took over a second; None where it never does."""
    over = [ask for ask in asks if load_rows()[ask.row].seconds.get(stage, 0.0) > LEAST_SECONDS]
    found = estimates(over, answers)
    if not over or found is None:
        return None
    measured = [load_rows()[ask.row].seconds[stage] for ask in over]
    return {"MAPE %": float(percentage_errors([e.seconds[stage] for e in found], measured).mean())}


def _h_lines(answers: Answers) -> list[Line]:
    asks = _a_asks(hide=False)
    lines = []
    for stage in STAGES:
        figures = {method: _stage_errors(_of(asks, method), answers, stage) for method in METHODS}
        if figures[OURS]:
            lines.append(Line("H", stage.value, figures, {"MAPE %": 12.0}, {"MAPE %": 8.0}))
    return lines


def _b_asks() -> list[Ask]:
    campaign = of_experiment(MODEL_SIZE2)
    trainings = [
        *(Training(m, indices(r for r in campaign if r.model in FITTED and _warm(r))) for m in (PAPER, STATE)),
        Training(OURS, indices(r for r in campaign if r.model in FITTED)),
        Training(OURS, indices(r for r in paper_rows() if r.model in FITTED)),
    ]
    asked = [row for row in of_experiment(MODEL_SIZE2, runs="345") if row.model in PREDICTED]
    return [Ask(training, row.index) for training in trainings for row in asked]


def _warm(row: Row) -> bool:
    return row.measurement.spec.cache.compile is CompileCache.WARM and row.iteration in set("12345")


def _b_figures(asks: Sequence[Ask], answers: Answers) -> Figures | None:
    """Return the mean squared and the largest error against each model's median run."""
    found = estimates(asks, answers)
    if found is None:
        return None
    predicted = {load_rows()[ask.row].model: e.seconds[TOTAL] for ask, e in zip(asks, found, strict=True)}
    groups = by_model(load_rows()[ask.row] for ask in asks)
    truth = {model: np.median([row.seconds[TOTAL] for row in rows]) for model, rows in groups.items()}
    errors = np.array([predicted[model] - truth[model] for model in truth])
    return {"MSE s²": float((errors**2).mean()), "max s": float(np.abs(errors).max())}


def _b_lines(answers: Answers) -> list[Line]:
    groups: dict[Training, list[Ask]] = defaultdict(list)
    for ask in _b_asks():
        groups[ask.training].append(ask)
    paper, state, ours, tables = (_b_figures(asks, answers) for asks in groups.values())
    must, aim = {"MSE s²": 0.6, "max s": 1.3}, {"MSE s²": 0.3, "max s": 1.0}
    return [
        Line("B", "the paper's split", {PAPER: paper, STATE: state, OURS: ours}, must, aim),
        Line("B", "the nine models' rows in all tables", {OURS: tables}),
    ]


A1 = Protocol("A1", lambda: _a_asks(hide=False), _a1_lines)
A2 = Protocol("A2", lambda: _a_asks(hide=True), _a2_lines)
B = Protocol("B", _b_asks, _b_lines)
H = Protocol("H", lambda: _a_asks(hide=False), _h_lines)
