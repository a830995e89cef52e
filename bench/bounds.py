"""Protocol E: whether 90 % bounds hold 90 % of outcomes, over A1, A2, B and C together."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from app.stages import STAGES
from bench.lines import Line
from bench.methods import TOTAL
from bench.nodes import C0, C1, C3
from bench.protocols import A1, A2, LEAST_SECONDS, B, Protocol
from bench.reference_rows import load_rows
from bench.runner import OURS, Answers, Ask, Training
from bench.scores import coverage_interval, covered, winkler

__all__ = ["Bounded", "E", "line_of"]

NORMAL_90 = 1.64  # Standard deviations either side that hold 90 % of a normal distribution.


@dataclass(frozen=True)
class Bounded:
    """One outcome and its bounds; those of the rival are 1.64 deviations of the training's residuals either side."""

    group: tuple[str, str, str]
    """Protocol, machine and model: bounds hold or fail for these, as the runs of one model are much alike."""
    measured: float
    predicted: float
    lower: float
    upper: float
    deviation: float


@lru_cache
def _scored() -> dict[str, list[Ask]]:
    """Return what A, B and C ask of us; in B, of the strict split alone."""
    asks = {protocol.name: protocol.asks() for protocol in (A1, A2, B, C0, C1, C3)}
    ours = {
        name: [ask for ask in some if ask.training.method == OURS and ask.training.bounded]
        for name, some in asks.items()
    }
    return {**ours, "B": [ask for ask in ours["B"] if ask.training == ours["B"][0].training]}


def _residual_training(training: Training) -> Training:
    """A startup or three more among six hundred do not move the residuals: take those of the unseen node for C1, C3."""
    return Training(OURS, training.rows)


def _residual_asks(training: Training) -> list[Ask]:
    """Ask for each spec of the training once."""
    specs = {load_rows()[index].measurement.spec.model_dump_json(): index for index in training.rows}
    return [Ask(training, index) for index in specs.values()]


def _trainings(asks: Iterable[Ask]) -> set[Training]:
    return {_residual_training(ask.training) for ask in asks}


def _asks() -> list[Ask]:
    scored = [ask for asks in _scored().values() for ask in asks]
    return scored + [ask for training in _trainings(scored) for ask in _residual_asks(training)]


def _deviations(training: Training, answers: Answers) -> dict[str, float]:
    """Return the standard deviation of the training's residuals, of the total and of each stage."""
    predicted = {load_rows()[a.row].measurement.spec.model_dump_json(): answers[a] for a in _residual_asks(training)}
    residuals: dict[str, list[float]] = defaultdict(list)
    for row in (load_rows()[index] for index in training.rows):
        estimate = predicted[row.measurement.spec.model_dump_json()]
        for name, seconds in row.seconds.items():
            if estimate:
                residuals[name].append(seconds - estimate.seconds[name])
    return {name: float(np.std(values)) for name, values in residuals.items()}


def _bounded(answers: Answers, name: str) -> list[Bounded]:
    """Return every outcome of the stage (or the total) that took over a second; ``other`` where it was measured."""
    everything = [ask for asks in _scored().values() for ask in asks]
    deviations = {training: _deviations(training, answers) for training in _trainings(everything)}
    found = []
    for protocol, asks in _scored().items():
        for ask in asks:
            row, estimate = load_rows()[ask.row], answers[ask]
            if estimate and name in row.observed and (measured := row.seconds[name]) > LEAST_SECONDS:
                deviation = deviations[_residual_training(ask.training)][name]
                group = protocol, row.node, row.model
                found.append(Bounded(group, measured, estimate.seconds[name], *estimate.bounds[name], deviation))
    return found


def line_of(name: str, outcomes: list[Bounded]) -> Line:
    """Each group counts as one trial, however many runs and choices it was asked for."""
    measured, predicted, lower, upper, deviation = (
        np.array([getattr(o, field) for o in outcomes])
        for field in ("measured", "predicted", "lower", "upper", "deviation")
    )
    weights = _group_weights(outcomes)
    groups = round(weights.sum())
    hits = float(weights @ covered(lower, upper, measured))
    low, high = coverage_interval(hits, groups)
    rival = winkler(predicted - NORMAL_90 * deviation, predicted + NORMAL_90 * deviation, measured)
    error = weights @ np.abs(predicted - measured)
    figures = {
        "coverage %": 100 * hits / groups,
        "from %": 100 * low,
        "to %": 100 * high,
        "width / error": float(weights @ (upper - lower) / error),
        "Winkler / normal": float(weights @ winkler(lower, upper, measured) / (weights @ rival)),
    }
    limits = {"Winkler / normal": 1.0, "width / error": 6.0}
    holds = low <= 0.9 <= high
    return Line("E", f"90 % bounds, {name}", {OURS: figures}, limits, {**limits, "width / error": 5.0}, holds)


def _group_weights(outcomes: list[Bounded]) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    counts: dict[tuple[str, str, str], int] = defaultdict(int)
    for outcome in outcomes:
        counts[outcome.group] += 1
    return np.array([1 / counts[outcome.group] for outcome in outcomes])


def _lines(answers: Answers) -> list[Line]:
    lines = []
    for name in (TOTAL, *map(str, STAGES)):
        if outcomes := _bounded(answers, name):
            lines.append(line_of(name, outcomes))
    return lines


E = Protocol("E", _asks, _lines)
