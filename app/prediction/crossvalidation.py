"""Errors of startups that a fit has not seen: held out by startup, by model on hardware, by model, by hardware."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from app.prediction.bounds import TARGETS, Calibration, Spread, scale_of, spread_of
from app.prediction.case import Case
from app.prediction.effects import is_familiar, place_key
from app.prediction.learning import PARTS, Table, learn, spread, stage_sums
from app.prediction.recipe import Recipe
from app.prediction.scales import DEFAULT_SCALE, Chain, Standing, chain_of, chain_on_new, measure, roots
from app.stages import PARTS_OF, STAGES

__all__ = ["calibrate", "deviations", "folds_of", "held_out"]

Array = NDArray[np.float64]
Index = NDArray[np.intp]
MIN_ROWS = 4  # Fewer startups than this cannot be split into something to learn and something to test.
MEMBERS = np.array([[1.0] * len(PARTS)] + [[float(p in PARTS_OF[s]) for p in PARTS] for s in STAGES])
"""Which parts each target is made of: shape (8, 17)."""


def calibrate(table: Table, recipe: Recipe) -> dict[str, Calibration]:
    """Measure for each nearness how far held-out startups lie from their prediction.

    Held out are single startups of pairs (model, hardware) that others remain of, pairs, models, and machines. Machines
    are few, so each hardware of one counts as a group of its own there.
    """
    hardware = [case.hardware.text() for case in table.cases]
    chains = [[chain_of(part, case) for part in PARTS] for case in table.cases]
    data = _Data(table, hardware, chains, recipe.floor_seconds)
    calibrations: dict[str, Calibration] = {}
    for trial in _trials(table.cases, hardware, recipe):
        calibrations[trial.near] = _calibration(calibrations, trial, data, _held(table, recipe, trial))
    return calibrations


@dataclass(frozen=True, slots=True)
class _Data:
    """What was measured; the hardware and the circumstances of every part of each row."""

    table: Table
    hardware: Sequence[str]
    chains: Sequence[Sequence[Chain]]
    floor: float


@dataclass(frozen=True, slots=True)
class _Trial:
    """One way of holding startups out; of each row what it belongs to."""

    near: str
    groups: Sequence[str]
    """What is held out together; "" for what never is."""
    folds: int
    apart: Sequence[str]
    """Groups alike in this go to different folds, so that the rest of them stays known."""
    anchors: Sequence[Sequence[str]]
    """What has to be known from other rows for the trial to be one of this nearness."""
    voters: Sequence[str]
    """Each has one vote."""


def _trials(cases: Sequence[Case], hardware: Sequence[str], recipe: Recipe) -> list[_Trial]:
    models, kinds = [case.model for case in cases], [case.architecture or case.model for case in cases]
    machines = [f"{case.hardware.gpu}/{case.hardware.cpu}" for case in cases]
    pairs = [f"{model}@{place}" for model, place in zip(models, hardware, strict=True)]
    at_home = [f"{model}@{machine}" for model, machine in zip(models, machines, strict=True)]
    repeated, travelled = _several(pairs, pairs), _several(models, machines)
    startups = [f"{pair}#{i}" if pair in repeated else "" for i, pair in enumerate(pairs)]
    moved = [pair if model in travelled else "" for pair, model in zip(at_home, models, strict=True)]
    return [
        _Trial("history", startups, recipe.folds // 2, pairs, [pairs], pairs),
        _Trial("elsewhere", moved, recipe.folds, machines, [hardware, models], at_home),
        _Trial("hardware", models, recipe.folds, kinds, [hardware], models),
        _Trial("pooled", machines, recipe.folds, machines, [], hardware),
    ]


def folds_of(groups: Sequence[str], folds: int, apart: Sequence[str] = ()) -> list[Index]:
    """Return the rows of each fold: whole groups, spread evenly by size; rows of the group "" are never held out.

    Groups alike in ``apart`` go to different folds before that, as far as there are folds.
    """
    sizes = Counter(groups)
    sizes.pop("", None)
    like = dict(zip(groups, apart or groups, strict=True))
    loads, fold_of = [0] * max(1, min(folds, len(sizes))), {}
    together: Counter[tuple[str, int]] = Counter()
    for group in sorted(sizes, key=lambda g: (-sizes[g], g)):
        lightest = min(range(len(loads)), key=lambda f: (together[like[group], f], loads[f]))
        fold_of[group] = lightest
        loads[lightest] += sizes[group]
        together[like[group], lightest] += 1
    held = [
        np.array([i for i, g in enumerate(groups) if fold_of.get(g) == f], dtype=np.intp) for f in range(len(loads))
    ]
    return [rows for rows in held if len(rows)]


def held_out(
    table: Table, recipe: Recipe, groups: Sequence[str], folds: int, apart: Sequence[str] = ()
) -> Iterator[tuple[Index, Array]]:
    """Yield the rows of each fold with the part seconds that a fit without them predicts: shape (rows, 17)."""
    if len(groups) < MIN_ROWS or len(set(groups)) < 2:
        return
    every = np.arange(len(table.cases))
    for rows in folds_of(groups, folds, apart):
        kept = np.setdiff1d(every, rows)
        if len(kept):
            learned, _ = learn(table.take(kept), recipe)
            yield rows, learned.seconds(table.take(rows), recipe)


def deviations(parts: Array, scales: Array, floor: float) -> Array:
    """Return the deviation of every target, in seconds, from part seconds and their scales: shapes (n, 17) → (n, 8)."""
    return np.asarray(np.sqrt(((parts + floor) * scales) ** 2 @ MEMBERS.T))


def _several(keys: Sequence[str], values: Sequence[str]) -> set[str]:
    """Return the keys that come with several values, or several times where keys are the values."""
    seen = Counter(keys) if keys is values else Counter(key for key, _ in set(zip(keys, values, strict=True)))
    return {key for key, count in seen.items() if count > 1}


@dataclass(slots=True)
class _Held:
    """Startups that were held out, and what was predicted for them."""

    rows: Index
    parts: Array
    """Predicted seconds: shape (rows, 17)."""
    standings: list[list[Standing]]
    """Of each row, what each part's prediction stood on."""


def _held(table: Table, recipe: Recipe, trial: _Trial) -> _Held:
    """Hold groups out; of them count the startups each of whose anchors is known from what was kept."""
    index: list[int] = []
    seconds, standings = [np.zeros((0, len(PARTS)))], []
    places = [[place_key(part, case) for part in PARTS] for case in table.cases]
    for rows, parts in held_out(table, recipe, trial.groups, trial.folds, trial.apart):
        kept = sorted(set(range(len(table.cases))) - set(rows.tolist()))
        known = _Known.of(kept, table.cases, places, trial)
        for row, predicted in zip(rows.tolist(), parts, strict=True):
            if known.anchored(row):
                index.append(row)
                seconds.append(predicted[None])
                standings.append(known.standings(row, table.cases[row]))
    return _Held(np.array(index, dtype=np.intp), np.concatenate(seconds), standings)


@dataclass(slots=True)
class _Known:
    """What is known from the startups that were kept."""

    trial: _Trial
    models: set[str]
    places: set[str]
    peers: Counter[str]
    """Of each value of the first anchor, the models that it was seen with; in history, the startups."""
    anchors: list[set[str]]

    @classmethod
    def of(cls, kept: Sequence[int], cases: Sequence[Case], places: Sequence[Sequence[str]], trial: _Trial) -> "_Known":
        """Gather it from the rows that were kept."""
        first = trial.anchors[0] if trial.anchors else [""] * len(cases)
        tellers = [(first[row], row if trial.near == "history" else cases[row].model) for row in kept]
        return cls(
            trial,
            {cases[row].model for row in kept},
            {place for row in kept for place in places[row]},
            Counter(anchor for anchor, _ in set(tellers)),
            [{names[row] for row in kept} for names in trial.anchors],
        )

    def anchored(self, row: int) -> bool:
        """Whether all that a row of this nearness has in common with others is known."""
        return all(names[row] in seen for names, seen in zip(self.trial.anchors, self.anchors, strict=True))

    def standings(self, row: int, case: Case) -> list[Standing]:
        """Return what the prediction of each part of a row stood on."""
        known = case.model in self.models
        if self.trial.anchors:
            return [Standing(self.peers[self.trial.anchors[0][row]], False, known)] * len(PARTS)
        return [Standing(0, is_familiar(part, case, self.places), known) for part in PARTS]


def _calibration(before: Mapping[str, Calibration], trial: _Trial, data: _Data, held: _Held) -> Calibration:
    """Measure scales and spreads at one nearness, after those before it."""
    rows, parts, floor = held.rows.tolist(), held.parts, data.floor
    taken, voters, chains = (
        data.table.take(held.rows),
        [trial.voters[row] for row in rows],
        [data.chains[row] for row in rows],
    )
    logs = np.log((spread(taken, parts) + floor) / (parts + floor))
    logs /= np.array([row[0].uncertainty for row in held.standings]).reshape(-1, 1)
    here, usual = chains, dict.fromkeys(roots(), DEFAULT_SCALE)
    if trial.near == "pooled":
        here = [
            [chain_on_new(chain, familiar=one.familiar) for chain, one in zip(row, standings, strict=True)]
            for row, standings in zip(chains, held.standings, strict=True)
        ]
        usual = {f"{root}@strange": scale for root, scale in usual.items()}
        usual |= {f"{root}@familiar": before["elsewhere"].scales[root] for root in roots()}
    # On new hardware each hardware is a group, and none is one that will be asked for.
    places = ["" if trial.near == "pooled" else data.hardware[row] for row in rows]
    scales = measure(here, logs, voters, places, usual)
    known = {**before, trial.near: Calibration(scales, {})}
    each = [
        [scale_of(known, trial.near, chain, one) for chain, one in zip(row, standings, strict=True)]
        for row, standings in zip(chains, held.standings, strict=True)
    ]
    stages = stage_sums(parts)
    predicted = np.column_stack([parts.sum(axis=1), stages])
    errors = np.column_stack([_whole(taken, stages), taken.stages]) - predicted
    errors /= deviations(parts, np.array(each).reshape(parts.shape), floor)
    return Calibration(scales, _spreads(errors, np.array([case.rare for case in taken.cases], dtype=bool), voters))


def _whole(taken: Table, predicted: Array) -> Array:
    """Return the totals that errors are measured on: shape (rows,).

    Where nobody clocked it, with ``other`` as predicted; totals of the six stages' unknown seconds say little.
    """
    rebuilt = taken.stages[:, :-1].sum(axis=1) + predicted[:, -1]
    return np.where(np.isnan(taken.totals) | np.isnan(rebuilt), rebuilt, taken.totals)


def _spreads(errors: Array, rare: NDArray[np.bool_], voters: Sequence[str]) -> dict[str, Spread]:
    spreads = {}
    for column, target in enumerate(TARGETS):
        for kind, chosen in ((target, ~rare), (f"{target}|rare", rare)):
            seen = np.flatnonzero(~np.isnan(errors[:, column]) & chosen).tolist()
            spreads[kind] = spread_of(errors[seen, column], [voters[i] for i in seen])
    return spreads
