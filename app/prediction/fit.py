"""The fit: what one refit learned, as plain data."""

import hashlib
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from app.errors import InvalidInput, UnknownFitFormat
from app.prediction.bounds import Calibration
from app.prediction.catalogue import Catalogue
from app.prediction.crossvalidation import calibrate
from app.prediction.features import FEATURES
from app.prediction.learning import PARTS, Table, learn, spread, stage_sums
from app.prediction.observation import Observation
from app.prediction.recipe import Recipe
from app.prediction.resolver import Resolver
from app.schemas.spec import ModelSpec

__all__ = ["FORMAT_VERSION", "Fit", "fit", "is_usable"]

FORMAT_VERSION = 4
LEFT_OUT_WEIGHT = 0.05  # Student's weight of a part about nine deviations off.
MAX_LEFT_OUT = 500
Array = NDArray[np.float64]


@dataclass(slots=True)
class Fit:
    """What one refit learned."""

    measurements: int
    """Observations that stand behind it."""
    own: int
    """Those of them that are no shipped reference measurements."""
    left_out: list[dict[str, str]]
    """What hardly counted: key of the observation, part, reason."""
    recipe: Recipe
    digest: str
    """SHA-256 of the observations and aliases, so that the same data need no second fit."""
    coefficients: dict[str, dict[str, float]]
    """Of each part, seconds per unit of each feature."""
    effects: dict[str, float]
    """Of each key (see app.prediction.effects), the logarithm of a factor; 0 where there is none."""
    unattributed: dict[str, float]
    """Of each hardware (and model on it), the same for stages that were never observed there."""
    calibrations: dict[str, Calibration]
    """By nearness, how far startups lie from their prediction."""
    repeatability: dict[str, float]
    """Of each hardware, the deviation of the logarithm from startup to startup of the same spec."""
    pairs: dict[str, list[int]]
    """How often each model was measured on each hardware: own and reference measurements."""
    catalogue: Catalogue = field(default_factory=Catalogue)

    def to_json(self) -> dict[str, Any]:
        """Return the fit as plain data."""
        return {
            "format_version": FORMAT_VERSION,
            "measurements": self.measurements,
            "own": self.own,
            "left_out": self.left_out,
            "recipe": self.recipe.to_json(),
            "digest": self.digest,
            "coefficients": self.coefficients,
            "effects": self.effects,
            "unattributed": self.unattributed,
            "calibrations": {near: calibration.to_json() for near, calibration in self.calibrations.items()},
            "repeatability": self.repeatability,
            "pairs": self.pairs,
            "catalogue": self.catalogue.to_json(),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "Fit":
        """Rebuild a fit.

        Raises UnknownFitFormat where another version of the program wrote it.
        """
        if data.get("format_version") != FORMAT_VERSION:
            raise UnknownFitFormat(
                f"The fit has format version {data.get('format_version')}, not {FORMAT_VERSION}: refit."
            )
        plain = {name: data[name] for name in cls.__slots__}
        plain["recipe"] = Recipe.from_json(data["recipe"])
        plain["calibrations"] = {near: Calibration.from_json(row) for near, row in data["calibrations"].items()}
        plain["catalogue"] = Catalogue.from_json(data["catalogue"])
        return cls(**plain)


def fit(
    observations: Sequence[Observation],
    *,
    recipe: Recipe = Recipe(),  # noqa: B008  # Recipes are frozen.
    previous: Fit | None = None,
    aliases: Mapping[str, str] = {},  # Never written to.
    known_models: Sequence[ModelSpec] = (),
) -> Fit:
    """Learn from ``observations``; their order is of no matter.

    ``known_models`` lets models that nobody measured answer by their name. Where ``previous`` was made of the very
    same, it is returned. InvalidInput where there is nothing to learn from.
    """
    usable = sorted((o for o in observations if is_usable(o)), key=lambda o: (o.key, repr(o)))
    if not usable:
        raise InvalidInput("There is nothing to fit: send ready measurements, or import the reference measurements.")
    digest = _digest(usable, aliases, known_models)
    if previous and previous.digest == digest and previous.recipe == recipe:
        return previous
    catalogue = Catalogue.of(usable, aliases, known_models)
    resolver = Resolver(catalogue)
    cases = [resolver.measured(o).case for o in usable]
    table = Table.of(usable, cases)
    learned, weights = learn(table, recipe)
    seconds = learned.seconds(table, recipe)
    keys = [key for level in table.levels.keys for key in level]
    values = np.concatenate([level[:-1] for level in learned.effects])
    return Fit(
        measurements=len(usable),
        own=sum(1 for o in usable if not o.reference),
        left_out=_left_out(usable, table, seconds, weights),
        recipe=recipe,
        digest=digest,
        coefficients={
            part.value: dict(zip((f.name for f in FEATURES[part]), c.tolist(), strict=True))
            for part, c in zip(PARTS, learned.coefficients, strict=True)
        },
        effects={key: float(value) for key, value in zip(keys, values, strict=True) if value},
        unattributed=_unattributed(table, seconds, recipe),
        calibrations=calibrate(table, recipe),
        repeatability=_repeatability(table, recipe),
        pairs=_pairs(usable, cases),
        catalogue=catalogue,
    )


def is_usable(observation: Observation) -> bool:
    """Whether every number of the observation is one that a startup can take."""
    seconds = (observation.total_seconds or 0.0, *observation.stages.values(), *observation.parts.values())
    return all(math.isfinite(value) and value >= 0 for value in seconds)


def _digest(observations: Sequence[Observation], aliases: Mapping[str, str], known_models: Sequence[ModelSpec]) -> str:
    models = sorted(model.model_dump_json() for model in known_models)
    digest = hashlib.sha256(repr((sorted(aliases.items()), models)).encode())
    for o in observations:
        told = (o.key, o.total_seconds, sorted(o.stages.items()), sorted(o.parts.items()), o.reference, o.reporter)
        digest.update(f"{told}{o.spec.model_dump_json()}".encode())
    return digest.hexdigest()


def _left_out(rows: Sequence[Observation], table: Table, seconds: Array, weights: Array) -> list[dict[str, str]]:
    """List the parts that hardly counted because they lie far from everything else."""
    observed = spread(table, seconds)
    wild = [(i, j) for i, j in np.argwhere(weights < LEFT_OUT_WEIGHT) if not np.isnan(observed[i, j])]
    worst = sorted(wild, key=lambda at: float(weights[at]))[:MAX_LEFT_OUT]
    return [
        {
            "key": rows[i].key,
            "part": PARTS[j].value,
            "reason": f"{observed[i, j]:.2f} s where startups like it take {seconds[i, j]:.2f} s",
        }
        for i, j in sorted(worst)
    ]


def _unattributed(table: Table, seconds: Array, recipe: Recipe) -> dict[str, float]:
    """Learn what totals say of stages that were not observed: a factor by hardware, and by model on it."""
    missing = np.isnan(table.stages)
    rest = table.totals - np.nansum(table.stages, axis=1)
    expected = np.sum(stage_sums(seconds) * missing, axis=1)
    floor = recipe.floor_seconds
    factors: dict[str, float] = {}
    ratios = np.log(np.maximum(rest, floor) / np.maximum(expected, floor))
    for level in (_hardware_of, _pair_of):
        groups: dict[str, list[int]] = {}
        for row in np.flatnonzero(missing.any(axis=1) & ~np.isnan(rest)):
            groups.setdefault(level(table, int(row)), []).append(int(row))
        for key, rows in sorted(groups.items()):
            middle = float(np.median(ratios[rows]))
            factors[key] = middle * len(rows) * recipe.node**2 / (len(rows) * recipe.node**2 + recipe.noise**2)
            ratios[rows] -= factors[key]
    return factors


def _hardware_of(table: Table, row: int) -> str:
    return table.cases[row].hardware.text()


def _pair_of(table: Table, row: int) -> str:
    return f"{table.cases[row].model}@{_hardware_of(table, row)}"


def _repeatability(table: Table, recipe: Recipe) -> dict[str, float]:
    """Return for each hardware how far startups of one spec lie from each other."""
    groups: dict[tuple[str, str], list[float]] = {}
    for row, case in enumerate(table.cases):
        alike = f"{case.model}|{case.weights}|{case.compile}|{case.inspection}|{case.load_format}|{case.graphs}"
        groups.setdefault((_hardware_of(table, row), alike), []).append(table.totals[row])
    spreads: dict[str, list[float]] = {}
    for (hardware, _), totals in groups.items():
        clocked = np.log(np.array(totals)[~np.isnan(totals)] + recipe.floor_seconds)
        if len(clocked) > 1:
            spreads.setdefault(hardware, []).append(float(np.std(clocked, ddof=1)))
    return {hardware: float(np.median(values)) for hardware, values in sorted(spreads.items())}


def _pairs(rows: Sequence[Observation], cases: Sequence[Any]) -> dict[str, list[int]]:
    own: Counter[str] = Counter()
    reference: Counter[str] = Counter()
    for observation, case in zip(rows, cases, strict=True):
        (reference if observation.reference else own)[f"{case.model}@{case.hardware.text()}"] += 1
    return {pair: [own[pair], reference[pair]] for pair in sorted(own.keys() | reference.keys())}
