"""Protocol D: two states of one thing, with the model held out. What counts is the difference between the two."""

import json
from collections import defaultdict
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from app.schemas.spec import CompileCache, WeightsState
from app.stages import Stage
from bench.lines import Figures, Line
from bench.methods import TOTAL
from bench.protocols import Protocol, unseen_model
from bench.reference_rows import CASE0, FIGURE_REST, GPU1, MODEL_SIZE2, Row, of_experiment
from bench.runner import METHODS, Answers, Ask

__all__ = ["D", "Pair", "measured_difference", "pairs"]

# figure-13 and figure-10/gpu0 are one campaign on n1: case0 is the mean of gpu0's later runs, case1 reads from disk.
FIRST_CAMPAIGN = (CASE0, "figure-13/case1", "figure-10/gpu0")


@dataclass(frozen=True)
class Thing:
    """Something that has two states, and the stage that it acts on."""

    name: str
    group: str
    """Section of the spec that it stands in."""
    field: str
    base: object
    """The state that the others are compared with; None for the smallest that was measured."""
    stage: Stage
    experiments: tuple[str, ...]

    def value(self, row: Row) -> Any:
        """Return the state that the row is in."""
        return getattr(getattr(row.measurement.spec, self.group), self.field)

    def rest(self, row: Row) -> str:
        """Return all of the row's spec but the thing, as a key; several folders may be one campaign."""
        spec = row.measurement.spec.model_dump(mode="json")
        del spec[self.group][self.field]
        campaign = "first" if row.experiment.endswith(FIRST_CAMPAIGN) else row.experiment
        return json.dumps([campaign, spec], sort_keys=True)


WARM_AND_COLD = (*FIRST_CAMPAIGN, GPU1, "figure-11/cpu1", FIGURE_REST, MODEL_SIZE2)
SIZES = ("figures/figure-9", "examples/batch_size", "examples/batch_size2")
THINGS = (
    Thing("compile cache", "cache", "compile", CompileCache.WARM, Stage.TORCH_COMPILE, WARM_AND_COLD),
    Thing("weights on disk", "cache", "weights", WeightsState.PAGE_CACHE, Stage.MODEL_LOADING, FIRST_CAMPAIGN),
    Thing("load format", "engine", "load_format", "safetensors", Stage.MODEL_LOADING, ("figure-14",)),
    Thing("captured sizes", "engine", "num_cudagraph_sizes", None, Stage.CUDA_GRAPH_CAPTURE, SIZES),
    Thing("CPU busy", "hardware", "cpu_busy_fraction", None, Stage.FRAMEWORK_BOOTSTRAP, ("node7/cpu_load",)),
)


@dataclass(frozen=True)
class Pair:
    """The startups of one model in the base state and in another, all else equal."""

    thing: Thing
    base: tuple[Row, ...]
    other: tuple[Row, ...]


def pairs(thing: Thing) -> list[Pair]:
    """Return every pair that the tables hold of this thing. Rows with weights in an unknown state compare with none."""
    rests: dict[str, dict[Any, list[Row]]] = defaultdict(lambda: defaultdict(list))
    for row in of_experiment(*thing.experiments):
        if row.measurement.spec.cache.weights is not None:
            rests[thing.rest(row)][thing.value(row)].append(row)
    found = []
    for states in rests.values():
        base = min(states) if thing.base is None else thing.base
        if base in states:
            others = [tuple(rows) for state, rows in states.items() if state != base]
            found += [Pair(thing, tuple(states[base]), other) for other in others]
    return found


@lru_cache
def repeatability(name: str) -> float:
    """Return the standard deviation of a stage (or the total) from run to run, in seconds, pooled over equal specs."""
    groups: dict[str, list[float]] = defaultdict(list)
    for row in of_experiment(FIGURE_REST, MODEL_SIZE2, GPU1, runs="12345"):
        if row.measurement.spec.cache.weights is not None:
            groups[row.experiment + row.measurement.spec.model_dump_json()].append(row.seconds[name])
    repeated = [np.asarray(seconds) for seconds in groups.values() if len(seconds) > 1]
    squares = sum(float(((seconds - seconds.mean()) ** 2).sum()) for seconds in repeated)
    return float(np.sqrt(squares / sum(len(seconds) - 1 for seconds in repeated)))


def measured_difference(pair: Pair) -> tuple[str, float] | None:
    """Return what differs measurably, the total or else the stage, and by how many seconds; None where neither does."""
    for name in (TOTAL, pair.thing.stage.value):
        base, other = (np.mean([row.seconds.get(name, np.nan) for row in rows]) for rows in (pair.base, pair.other))
        if abs(difference := float(other - base)) > 2 * repeatability(name):
            return name, difference
    return None


def _asks_of(method: str, pair: Pair) -> tuple[Ask, Ask]:
    home = of_experiment(*pair.thing.experiments, FIGURE_REST, MODEL_SIZE2)
    training = unseen_model(method, pair.base[0].model, home)
    return Ask(training, pair.base[0].index), Ask(training, pair.other[0].index)


def _asks() -> list[Ask]:
    return [ask for m in METHODS for thing in THINGS for pair in pairs(thing) for ask in _asks_of(m, pair)]


def _figures(method: str, thing: Thing, answers: Answers) -> Figures | None:
    """Return the mean error of the difference's size, in percent of it, and how many differences have a wrong sign."""
    errors, wrong = [], 0
    for pair in pairs(thing):
        base, other = (answers[ask] for ask in _asks_of(method, pair))
        if base is None or other is None:
            return None
        if found := measured_difference(pair):
            name, measured = found
            predicted = other.seconds[name] - base.seconds[name]
            errors.append(100 * abs(predicted - measured) / abs(measured))
            wrong += predicted * measured <= 0
    return {"size error %": float(np.mean(errors)), "wrong signs": wrong, "pairs": len(errors)} if errors else None


def _lines(answers: Answers) -> list[Line]:
    must, aim = ({"size error %": size, "wrong signs": 0.0} for size in (25.0, 10.0))
    figures = {thing.name: {method: _figures(method, thing, answers) for method in METHODS} for thing in THINGS}
    return [Line("D", name, by_method, must, aim) for name, by_method in figures.items()]


D = Protocol("D", _asks, _lines)
