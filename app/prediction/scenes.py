"""Scenes: the states that a spec leaves possible, each with its share and the seconds of every part."""

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product

from app.prediction.case import Case
from app.prediction.effects import effect_of
from app.prediction.features import FEATURES, Feature
from app.prediction.fit import Fit
from app.prediction.resolver import Resolved
from app.schemas.spec import Spec
from app.stages import PARTS_OF, STAGES, Part, stage_of

__all__ = ["Scene", "SceneBuilder"]

MIN_SHARE = 0.02  # Rarer states are left out: each costs a prediction.
MAX_EFFECT = 20.0  # A factor of half a billion: no data lead there, and exp() stays finite.
_COLDER = frozenset(("disk", "network", "unknown"))
_FULLER = {"cold": ("partial", "warm"), "partial": ("warm",)}
"""Of each state of the kernel cache, those in which it holds more."""


@dataclass(slots=True)
class Scene:
    """One combination of cache states that the spec leaves possible."""

    share: float
    case: Case
    parts: dict[Part, float]
    seconds: dict[str, float]
    """Of the total and of each stage."""


class SceneBuilder:
    """Turns resolved specs into scenes with what a fit has learned."""

    def __init__(self, fit: Fit) -> None:
        self._fit = fit
        self.coefficients: Mapping[Part, list[tuple[Feature, float]]] = {
            part: [(f, fit.coefficients[part.value].get(f.name, f.prior)) for f in features]
            for part, features in FEATURES.items()
        }

    def build(self, resolved: Resolved, spec: Spec) -> list[Scene]:
        """Return the scenes of a spec; their shares sum to 1.

        A state that is not given is each that this hardware has shown, as often, whatever the other states: so that
        disk never looks faster than page cache because other starts were read from it.
        """
        case, fraction = resolved.case, spec.cache.weights_cached_fraction
        given = (spec.cache.compile, spec.cache.model_inspection, spec.cache.kernels)
        asked = (case.weights, *(state or "unknown" for state in given))
        seen = resolved.seen_states(self._fit.catalogue.hardware)
        choices = [_shares(state, counter) for state, counter in zip(asked, seen, strict=True)]
        scenes: dict[tuple[str, ...], Scene] = {}
        known: dict[str, float] = {}  # Most parts are the same in every scene.
        for combination in product(*choices):
            states, share = tuple(state for state, _ in combination), math.prod(share for _, share in combination)
            at = resolved.at(states, fraction if case.weights != "unknown" else None)
            told = (at.weights, at.compile, at.inspection, at.kernels)
            if told in scenes:
                scenes[told].share += share
            else:
                scenes[told] = self._scene(share, at, resolved, known)
        return list(scenes.values())

    def _scene(self, share: float, case: Case, resolved: Resolved, known: dict[str, float]) -> Scene:
        parts = {part: self._part_seconds(part, case, resolved, known) for part in Part}
        if case.weights in _COLDER:
            # What a colder place adds is never negative, however the two were measured.
            warmer = resolved.at(("page_cache", case.compile, case.inspection, case.kernels))
            least = self._part_seconds(Part.WEIGHT_LOADING, warmer, resolved, known)
            parts[Part.WEIGHT_LOADING] = max(parts[Part.WEIGHT_LOADING], least)
        for fuller in _FULLER.get(case.kernels, ()):
            # Nor does building more kernels ever take less.
            built = resolved.at((case.weights, case.compile, case.inspection, fuller))
            for part in (Part.KV_CACHE_PROFILING, Part.KERNEL_WARMUP):
                parts[part] = max(parts[part], self._part_seconds(part, built, resolved, known))
        seconds: dict[str, float] = {stage: sum(parts[part] for part in PARTS_OF[stage]) for stage in STAGES}
        return Scene(share, case, parts, {**seconds, "total": sum(seconds.values())})

    def _part_seconds(self, part: Part, case: Case, resolved: Resolved, known: dict[str, float]) -> float:
        cell = case.cell(part)
        if cell not in known:
            known[cell] = self._compute(part, case, resolved)
        return known[cell]

    def _compute(self, part: Part, case: Case, resolved: Resolved) -> float:
        floor = self._fit.recipe.floor_seconds
        base = sum(coefficient * feature.value(case) for feature, coefficient in self.coefficients[part])
        effect = effect_of(part, case, self._fit.effects, self._fit.recipe)
        seconds = max(0.0, (base + floor) * math.exp(min(max(effect, -MAX_EFFECT), MAX_EFFECT)) - floor)
        known = resolved.hardware
        if known and stage_of(part).value not in known.stages:
            seconds *= self._unattributed(case.model, known.key.text())
        return seconds

    def _unattributed(self, model: str, hardware: str) -> float:
        """Return the factor that totals put on the stages which were never observed on this hardware."""
        factors = self._fit.unattributed
        return math.exp(factors.get(hardware, 0.0) + factors.get(f"{model}@{hardware}", 0.0))


def _shares(asked: str, seen: Counter[str]) -> list[tuple[str, float]]:
    """Return the states that are possible and their shares: the one asked for, or those seen in one start of fifty."""
    common = {state: count for state, count in seen.items() if count >= MIN_SHARE * seen.total()}
    if asked != "unknown" or not common:
        return [(asked, 1.0)]
    whole = sum(common.values())
    return [(state, count / whole) for state, count in sorted(common.items())]
