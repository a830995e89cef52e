"""Scales: the usual size of a part's relative error, by its circumstances and by what a prediction of it stands on.

A part that reads from disk errs otherwise than one that reads from memory, and one node repeats ten times better than
another. So each part has a scale of its own in each circumstance that was seen, drawn to that of the next wider one
where few groups tell.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from app.prediction.case import Case
from app.prediction.effects import hardware_of
from app.stages import Part

__all__ = [
    "DEFAULT_SCALE",
    "MEAN_SIZE",
    "Chain",
    "Standing",
    "anywhere",
    "chain_of",
    "chain_on_new",
    "measure",
    "narrowest",
    "roots",
]

Array = NDArray[np.float64]
Chain = Sequence[str]
"""The circumstances of a part, widest first: in what kind of start, its cache state, whether it is unusual, its cache
state on this hardware, and whether it is unusual there. Hardware tells more than that a start is unusual."""
WIDER = (0, 0, 1, 1, 3)
"""Of each place in a chain, the place of the next wider circumstance."""
ANYWHERE = 3
"""The circumstances of a chain that name no hardware."""
DEFAULT_SCALE = 0.25
"""Relative error of a part before any was held out: a quarter."""
SCALE_VOTES = 1.0
"""Groups that the next wider circumstance counts for: with one of its own, a scale lies half way between."""
SMALLEST_SCALE = 0.002
"""No part repeats better than to 0.2 %."""
LARGEST_ERROR = 1.0
"""A part off by a factor of e or more says that it is wild, not how wild."""
MEAN_SIZE = 0.7979
"""Mean absolute error of a normal distribution, in deviations."""


@dataclass(frozen=True, slots=True)
class Standing:
    """What the prediction of a part stands on."""

    peers: int
    """Models that tell of this hardware; startups, where it is this model's own history."""
    familiar: bool
    """Whether unseen hardware has a CPU or GPU of a type that the part is known on."""
    known_model: bool

    @property
    def uncertainty(self) -> float:
        """By how much errors are larger than where countless models tell of the hardware.

        Each model that tells of it errs as the one that is asked for, and other hardware tells as much as one more.
        After one model 22 %, after three 12 %, after twenty 2 %. Of hardware that nobody knows, that it is new is all
        in the scale.
        """
        return math.sqrt(1.0 + 1.0 / (self.peers + 1)) if self.peers else 1.0


def chain_of(part: Part, case: Case) -> Chain:
    """Return the circumstances of a part of a case."""
    cell, told, hardware = case.cell(part), case.circumstance(part), hardware_of(part, case).text()
    return _start(part, rare=case.rare), cell, told, f"{cell}@{hardware}", f"{told}@{hardware}"


def anywhere(chain: Chain) -> Chain:
    """Return the circumstances that name no hardware."""
    return chain[:ANYWHERE]


def roots() -> list[str]:
    """Return the widest circumstances: every part, in everyday starts and in rare ones."""
    return [_start(part, rare=rare) for part in Part for rare in (False, True)]


def _start(part: Part, *, rare: bool) -> str:
    return f"{part}|rare" if rare else f"{part}|everyday"


def chain_on_new(chain: Chain, *, familiar: bool) -> Chain:
    """Return the circumstances on hardware that was never seen."""
    return tuple(f"{one}@{'familiar' if familiar else 'strange'}" for one in anywhere(chain))


def narrowest(scales: Mapping[str, float], chain: Chain) -> float:
    """Return the scale of the narrowest circumstance that was held out."""
    return next(scales[one] for one in reversed(chain) if one in scales)


def measure(
    chains: Sequence[Sequence[Chain]],
    errors: Array,
    groups: Sequence[str],
    hardware: Sequence[str],
    usual: Mapping[str, float],
) -> dict[str, float]:
    """Return the scale of every circumstance that was held out.

    Parameters
    ----------
    chains : the circumstances of each part of each row.
    errors : logarithm of observed over predicted, NaN where not observed: shape (rows, 17).
    groups, hardware : of each row; each hardware has one vote, shared by its groups, shared by their rows. Where
        hardware is "", it is none that will be asked for: each group has one vote.
    usual : what the scales are drawn to: of each of ``roots()``, and of others where they were not held out.
    """
    scales = dict(usual)
    for column, row_chains in enumerate(zip(*chains, strict=True)):
        sizes = np.minimum(np.abs(errors[:, column]), LARGEST_ERROR) / MEAN_SIZE
        observed = np.flatnonzero(~np.isnan(errors[:, column])).tolist()
        for place in range(max(map(len, row_chains), default=0)):  # Wider ones come first.
            rows_of: dict[str, list[int]] = defaultdict(list)
            wider: dict[str, Counter[str]] = defaultdict(Counter)
            for row in observed:
                one, before = row_chains[row][place], row_chains[row][WIDER[place]]
                if one != before or not place:
                    rows_of[one].append(row)
                    wider[one][before] += 1
            for one, rows in rows_of.items():
                drawn_to = scales[min(wider[one], key=lambda name: (-wider[one][name], name))]
                own = place >= ANYWHERE or not hardware[rows[0]]
                scales[one] = _scale(sizes, rows, groups, hardware, drawn_to, own=own)
    return scales


def _scale(
    sizes: Array, rows: Sequence[int], groups: Sequence[str], hardware: Sequence[str], usual: float, *, own: bool
) -> float:
    """Return the scale of errors of these sizes, drawn to the usual one where few tell of it.

    What a hardware tells of its ``own`` scale is as sure as its groups are many; of another hardware's it tells as one.
    """
    told: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        told[hardware[row]][groups[row]].append(sizes[row])
    each = [_mean([_mean(sizes_of) for sizes_of in by_group.values()]) for by_group in told.values()]
    votes = sum(map(len, told.values())) if own else len(told)
    # Scales differ by factors, so the middle is one of logarithms.
    size = _mean([math.log(max(SMALLEST_SCALE, one)) for one in each])
    return math.exp((votes * size + SCALE_VOTES * math.log(usual)) / (votes + SCALE_VOTES))


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
