"""Effects: what hardware, engine versions and models do to a part beyond its features, by partial pooling.

The logarithm of a part's seconds over its features' is a sum of effects, from the coarse (all CPU-bound parts on one
CPU type) to the fine (one part of one model on one hardware). Each effect is drawn to 0, or to that of the
preceding engine version, by its level's prior deviation, so a node that nobody has measured gets the pooled value, one
startup moves it most of the way, and many make it its own. Residuals are Student's t: a wild one drags nothing.
"""

import math
import re
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from app.prediction.case import Case, HardwareKey
from app.prediction.features import kind_of
from app.prediction.recipe import Recipe
from app.stages import Part

__all__ = [
    "ARCHITECTURE",
    "COARSE",
    "LEVELS",
    "MODEL",
    "SLOPES",
    "VERSION",
    "Effects",
    "Levels",
    "effect_of",
    "hardware_of",
    "is_familiar",
    "is_known_on",
    "keys_of",
    "place_key",
    "prior_mean",
]

Array = NDArray[np.float64]
Index = NDArray[np.intp]
Effects = list[Array]
"""Of each level, the effect of each key, and a 0 for rows that have none."""

LEVELS = (
    "busy",
    "quota",
    "condition",
    "variant",
    "version",
    "place",
    "place_part",
    "node",
    "node_part",
    "own",
    "own_part",
    "architecture",
    "model",
    "history",
    "own_history",
)
"""The levels of effects, coarse to fine; from ``architecture`` on they belong to a model."""
COARSE = slice(0, LEVELS.index("architecture"))
"""The levels that belong to no model: coefficients are learned with these taken off, so that models are left."""
ARCHITECTURE = LEVELS.index("architecture")
MODEL = LEVELS.index("model")
SLOPES = 2  # The first two levels are slopes over an exposure; all others are there or not.
VERSION = LEVELS.index("version")


def is_familiar(part: Part, case: Case, known: Container[str]) -> bool:
    """Whether unseen hardware has a CPU or GPU of a type that this part's cell is known on; disks are never alike."""
    return not (part is Part.WEIGHT_LOADING and case.stored) and place_key(part, case) in known


def exposures(case: Case) -> tuple[float, float]:
    """Return how much of the first two effects a case has: load by others on its cores, and cores that it may not use.

    On the paper's node n1, 50 % load slows a startup by 12 % and 90 % by 25 to 28 %: about load ^ 1.5. Halving the
    cores counts from eight on downwards, where the compiler's workers begin to share them.
    """
    return case.busy**1.5, max(0.0, math.log2(8.0 / case.quota)) if case.quota else 0.0


def place_key(part: Part, case: Case) -> str:
    """Return the key of the effect that a part's cell has on the type of GPU or CPU that it runs on."""
    place = case.hardware.gpu if kind_of(part) == "gpu" else case.hardware.cpu
    return f"place_part:{case.cell(part)}@{place or '?'}"


def is_known_on(part: Part, case: Case, known: Container[str]) -> bool:
    """Whether this part's cell is known on the very hardware of the case."""
    return f"node_part:{case.cell(part)}@{hardware_of(part, case).text()}" in known


def hardware_of(part: Part, case: Case) -> HardwareKey:
    """Return the hardware that a part of a case runs on; weights may be meant to lie on another of its kind."""
    return case.loading if part is Part.WEIGHT_LOADING else case.hardware


def keys_of(part: Part, case: Case) -> tuple[str | None, ...]:
    """Return the key of each level's effect on ``part``; None where the level has none."""
    kind, cell = kind_of(part), case.cell(part)
    if part is Part.WEIGHT_LOADING and case.stored:
        kind = f"{kind} from {case.weights}"  # How fast memory is copied says nothing of a disk.
    hardware = hardware_of(part, case).text()
    place_part = place_key(part, case)
    return (
        f"busy:{kind}",
        f"quota:{kind}",
        f"condition:{cell}",
        f"variant:{variant}" if (variant := case.variant(part)) else None,
        f"version:{part}@{'.'.join(map(str, case.version))}",
        f"place:{kind}@{place_part.rpartition('@')[2]}",
        place_part,
        f"node:{kind}@{hardware}",
        f"node_part:{cell}@{hardware}",
        f"own:{kind}@{hardware}" if case.own else None,
        f"own_part:{cell}@{hardware}" if case.own else None,
        f"architecture:{cell}@{case.architecture}" if case.architecture else None,
        f"model:{cell}@{case.model}",
        f"history:{cell}@{case.model}@{hardware}",
        f"own_history:{cell}@{case.model}@{hardware}" if case.own else None,
    )


def effect_of(part: Part, case: Case, effects: Mapping[str, float], recipe: Recipe) -> float:
    """Return the sum of a part's effects by key: the logarithm of a factor."""
    keys, exposed = keys_of(part, case), exposures(case)
    slopes = sum(
        share * effects.get(key or "", prior_mean(turn, recipe))
        for turn, (key, share) in enumerate(zip(keys, exposed, strict=False))
        if share
    )
    return slopes + sum(effects.get(key, 0.0) for key in keys[SLOPES:] if key)


@dataclass(slots=True)
class Levels:
    """The effects of a table of rows, by level; a row is one part of one startup."""

    keys: list[list[str]]
    """Of each level, its keys."""
    index: Index
    """Which key each row has in each level; the number of keys where it has none: shape (levels, rows)."""
    families: list[Index]
    """Of each level, the family of each key: keys of one part (or kind of parts) vary alike."""
    parts: Index
    """Which part each row is of: shape (rows,)."""
    exposures: Array
    """How much of the first two levels' effects each row has: shape (2, rows)."""
    predecessors: Index
    """Of each engine version of each part, the index of the version before it, or the number of versions."""

    @classmethod
    def of(cls, cases: Sequence[Case]) -> "Levels":
        """Number the keys of each level, for every part of every case."""
        rows = [keys_of(part, case) for case in cases for part in Part]
        exposed = np.array([exposures(case) for case in cases for _ in Part]).T.reshape(SLOPES, len(rows))
        keys = [sorted({row[turn] or "" for row in rows} - {""}) for turn in range(len(LEVELS))]
        keys[VERSION].sort(key=_natural)
        index = np.empty((len(LEVELS), len(rows)), dtype=np.intp)
        for turn, names in enumerate(keys):
            place: dict[str | None, int] = {key: i for i, key in enumerate(names)}
            index[turn] = [place.get(row[turn], len(names)) for row in rows]
        parts = np.tile(np.arange(len(Part)), len(cases))
        return cls(keys, index, [_families(names) for names in keys], parts, exposed, _predecessors(keys[VERSION]))

    def take(self, rows: Index) -> "Levels":
        """Return the levels of these rows; the keys stay, so that effects of both can be compared."""
        exposed = self.exposures[:, rows]
        return Levels(self.keys, self.index[:, rows], self.families, self.parts[rows], exposed, self.predecessors)

    def sums(self, effects: Effects, levels: slice = slice(None)) -> Array:
        """Return the sum of each row's effects: shape (rows,)."""
        turns = range(len(self.keys))[levels]
        return np.asarray(np.sum([effects[turn][self.index[turn]] * self.share(turn) for turn in turns], axis=0))

    def share(self, turn: int) -> Array | float:
        """Return how much of a level's effect each row has."""
        return self.exposures[turn] if turn < SLOPES else 1.0

    def nothing(self, recipe: Recipe) -> Effects:
        """Return the effects before any measurement: 0, but for the slopes."""
        return [np.append(np.full(len(keys), prior_mean(turn, recipe)), 0.0) for turn, keys in enumerate(self.keys)]


def prior_mean(turn: int, recipe: Recipe) -> float:
    """Return the effect of a level before any measurement."""
    return (recipe.busy_mean, recipe.quota_mean)[turn] if turn < SLOPES else 0.0


def _families(keys: Sequence[str]) -> Index:
    names = [re.split(r"[|@]", key, maxsplit=1)[0] for key in keys]
    place = {name: i for i, name in enumerate(sorted(set(names)))}
    return np.array([place[name] for name in names], dtype=np.intp)


def _natural(key: str) -> tuple[str, tuple[int, ...]]:
    part, _, version = key.rpartition("@")
    return part, tuple(map(int, version.split(".")))


def _predecessors(keys: Sequence[str]) -> Index:
    """Return for each version of a part the index of the one before it; the last place, 0, for a part's first."""
    parts = [key.rpartition("@")[0] for key in keys]
    return np.array([i - 1 if i and parts[i - 1] == part else len(keys) for i, part in enumerate(parts)], dtype=np.intp)
