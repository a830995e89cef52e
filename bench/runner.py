"""Fits each training once and asks it everything that any protocol wants to know of it, on two processes."""

import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from multiprocessing import get_context

from app.prediction.observation import Observation
from app.schemas.spec import Spec
from bench.corruption import corrupt
from bench.methods import CannotPredict, Estimate, Method
from bench.ours import Coldcast
from bench.reference_rows import H200, Row, load_rows
from bench.rivals import Paper

__all__ = ["METHODS", "OURS", "PAPER", "STATE", "Answers", "Ask", "Training", "answer"]

OURS, PAPER, STATE = "ours", "paper", "paper + state"
METHODS = (PAPER, STATE, OURS)
GRAPH_BYTES_A_LAYER = 32_300  # The median of the paper's models, which have 18,000 to 40,000.


@dataclass(frozen=True)
class Training:
    """What a method is fitted on."""

    method: str
    rows: tuple[int, ...]
    """Reference rows, by their index."""
    own: tuple[int, ...] = ()
    """Rows that count as the operator's own measurements, in the order in which they came."""
    seed: int | None = None
    """With a seed, some rows are made wrong."""
    bounded: bool = True
    """Whether the bounds count; without them a fit takes a sixth of the time, and its estimates are the same."""


@dataclass(frozen=True)
class Ask:
    """One question: what does this training answer for the spec of this row?"""

    training: Training
    row: int
    hide_graph: bool = False
    """Leave out what only a first start of the model reveals: the size of its compiled graph."""

    @property
    def spec(self) -> Spec:
        """The spec as it is asked."""
        spec = told_to(self.training.method, load_rows()[self.row])
        return hide_graph(spec) if self.hide_graph else spec


Answers = Mapping[Ask, Estimate | None]


def hide_graph(spec: Spec) -> Spec:
    """Return the spec without the compiled graph's size."""
    return spec.model_copy(update={"model": spec.model.model_copy(update={"compiled_graph_bytes": None})})


def told_to(method: str, row: Row) -> Spec:
    """Return the spec that a method is told: the rivals' features that no agent reports are made up in their favour.

    Nominal parameters from the bytes, and a graph of as many bytes a layer as the median of the paper's models.
    """
    spec = row.measurement.spec
    if method == OURS or row.node != H200:
        return spec
    model = spec.model
    nominal = {
        "num_parameters": (model.weight_bytes or 0) // 2,
        "compiled_graph_bytes": GRAPH_BYTES_A_LAYER * (model.num_layers or 0),
    }
    return spec.model_copy(update={"model": model.model_copy(update=nominal)})


def observations(training: Training) -> list[Observation]:
    """Return what the training consists of."""
    rows = load_rows()
    shipped = [_learned(training.method, rows[index]) for index in training.rows]
    own = [Observation.of(rows[index].measurement) for index in training.own]
    return [*(shipped if training.seed is None else corrupt(shipped, training.seed)), *own]


def _learned(method: str, row: Row) -> Observation:
    """Return what a method learns of a row: the rivals take every total for the wall clock, as the paper does."""
    return row.observation if method == OURS else replace(Observation.of(row.measurement), spec=told_to(method, row))


def answer(asks: Iterable[Ask], processes: int) -> Answers:
    """Return the estimate for every ask; None where the method cannot predict."""
    by_training: dict[Training, list[Ask]] = defaultdict(list)
    for ask in dict.fromkeys(asks):
        by_training[ask.training].append(ask)
    answers: dict[Ask, Estimate | None] = {}
    estimates = _in_parallel(list(by_training.values()), processes)
    for done, (group, found) in enumerate(zip(by_training.values(), estimates, strict=True), start=1):
        answers.update(zip(group, found, strict=True))
        _progress(done, len(by_training))
    return answers


def _in_parallel(groups: Sequence[Sequence[Ask]], processes: int) -> Iterator[list[Estimate | None]]:
    if processes == 1:
        yield from map(_answer_training, groups)
        return
    # Forks of a process with threads (as under a test runner) may hang, so each process starts from nothing.
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
        yield from pool.map(_answer_training, groups, chunksize=4)


def _progress(done: int, of: int) -> None:
    """Keep one line on stderr, written anew at each percent."""
    if done * 100 // of > (done - 1) * 100 // of:
        print(f"\r{done} of {of} fits", end="\n" if done == of else "", file=sys.stderr, flush=True)


def _answer_training(asks: Sequence[Ask]) -> list[Estimate | None]:
    training = asks[0].training
    method = _unfitted(training).fit(observations(training))
    return [_predict(method, ask.spec) for ask in asks]


def _unfitted(training: Training) -> Method:
    if training.method == OURS:
        return Coldcast(with_bounds=training.bounded)
    return Paper(with_state=training.method == STATE)


def _predict(method: Method, spec: Spec) -> Estimate | None:
    try:
        return method.predict(spec)
    except CannotPredict:
        return None
