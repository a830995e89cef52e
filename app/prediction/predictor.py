"""The predictor: a fit, ready to answer. No I/O, nothing learned; a few hundred microseconds a spec."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from app.prediction.bounds import TARGETS, Spread
from app.prediction.case import Case
from app.prediction.effects import effect_of
from app.prediction.features import FEATURES
from app.prediction.fit import Fit
from app.prediction.resolver import Resolved, Resolver
from app.schemas.prediction import (
    Basis,
    Bounds,
    PartPrediction,
    Prediction,
    Rung,
    StagePrediction,
    Term,
    TotalPrediction,
)
from app.schemas.spec import Spec
from app.stages import PARTS_OF, STAGES, Part, Stage

__all__ = ["Predictor"]

MIN_SHARE = 0.05  # Bounds span every state that at least one startup in twenty began with.
REPEATABILITY_WIDTH = 1.645  # 90 % of a normal distribution: never promise more than startups repeat.
BEYOND_WIDTH = 0.5  # Each doubling beyond what was measured widens the bounds by half.
MAX_EFFECT = 20.0
_STATE_FIELDS = ("cache.weights", "cache.compile", "cache.model_inspection")
Seconds = dict[Part, float]


@dataclass(slots=True)
class _Scene:
    """One combination of cache states that the spec leaves possible."""

    share: float
    case: Case
    parts: Seconds
    stages: dict[Stage, float]
    total: float


@dataclass(slots=True)
class _Range:
    lower: float
    upper: float
    p90: float | None
    p99: float | None


class Predictor:
    """Answers specs from one fit."""

    def __init__(self, fit: Fit, *, fit_id: int | None = None, fitted_at: datetime | None = None) -> None:
        self._fit = fit
        self._fit_id, self.fitted_at = fit_id, fitted_at
        self._resolver = Resolver(fit.catalogue)
        self._floor = fit.recipe.floor_seconds
        self._coefficients = {
            part: [(f, fit.coefficients[part.value].get(f.name, f.prior)) for f in features]
            for part, features in FEATURES.items()
        }
        self._tensor_parallel = max((known.tensor_parallel for known in fit.catalogue.hardware), default=1)

    def predict(self, spec: Spec, *, explain: bool = False) -> Prediction:
        """Predict the startup that ``spec`` describes.

        Raises UnknownModel, AmbiguousHardware and InvalidInput.
        """
        resolved = self._resolver.asked(spec)
        near, rung, count = self._evidence(resolved)
        extrapolated, widening = self._beyond(resolved)
        scenes = self._scenes(resolved, spec)
        spreads = self._fit.spreads[near]
        ranges = {target: self._range(target, scenes, spreads[target], resolved, widening) for target in TARGETS}
        total = ranges["total"]
        stages = [self._stage(stage, scenes, ranges[stage], explain) for stage in STAGES]
        return Prediction(
            total=TotalPrediction(
                seconds=sum(stage.seconds for stage in stages),
                lower_seconds=total.lower,
                upper_seconds=total.upper,
                p90_seconds=total.p90,
                p99_seconds=total.p99,
            ),
            stages=stages,
            basis=Basis(
                rung=rung,
                measurements=count,
                fit_id=self._fit_id,
                fitted_at=self.fitted_at,
                bounds=Bounds.CONFORMAL if spreads["total"].conformal and widening == 1 else Bounds.PARAMETRIC,
                assumed=[*resolved.case.assumed, *_assumed_states(resolved.case, scenes)],
                extrapolated=extrapolated,
            ),
        )

    def _evidence(self, resolved: Resolved) -> tuple[str, Rung, int]:
        """Return how near the evidence is, the rung that says so, and the measurements at that rung."""
        fit, known = self._fit, resolved.hardware
        if known is None or not resolved.same_hardware:
            return "pooled", *((Rung.POOLED, fit.own) if fit.own else (Rung.REFERENCE, fit.measurements))
        pairs = [fit.pairs.get(f"{resolved.case.model}@{machine.key.text()}", (0, 0)) for machine in resolved.alike]
        own, reference = (sum(counts) for counts in zip(*pairs, strict=True))
        if own:
            return "history", Rung.HISTORY, own
        near = "history" if reference else "hardware"
        if known.own:
            return near, Rung.HARDWARE, sum(machine.own for machine in resolved.alike)
        return near, Rung.REFERENCE, sum(machine.measurements for machine in resolved.alike)

    def _beyond(self, resolved: Resolved) -> tuple[list[str], float]:
        """Say where the spec lies outside what was measured, and by how much that widens the bounds."""
        seen = resolved.hardware.tensor_parallel if resolved.hardware else self._tensor_parallel
        asked = resolved.case.tensor_parallel
        if asked <= seen:
            return [], 1.0
        told = f"engine.tensor_parallel_size: {asked:.0f}, where at most {seen} was measured"
        return [told], 1.0 + BEYOND_WIDTH * math.log2(asked / seen)

    def _scenes(self, resolved: Resolved, spec: Spec) -> list[_Scene]:
        case = resolved.case
        asked = (case.weights, spec.cache.compile or "unknown", spec.cache.model_inspection or "unknown")
        seen = resolved.seen_states(self._fit.catalogue.hardware)
        fitting = {states: times for states, times in seen.items() if _fits(asked, states)}
        shares: dict[tuple[str, ...], float] = {}
        for states, times in (fitting or seen).items():
            filled = tuple(a if a != "unknown" else s for a, s in zip(asked, states, strict=True))
            shares[filled] = shares.get(filled, 0.0) + times
        whole = sum(shares.values(), 0.0)
        if not whole:
            shares, whole = {asked: 1.0}, 1.0
        fraction = spec.cache.weights_cached_fraction
        merged: dict[tuple[str, ...], _Scene] = {}
        for states, share in sorted(shares.items()):
            scene_case = resolved.at(states, fraction if case.weights != "unknown" else None)
            told = (scene_case.weights, scene_case.compile, scene_case.inspection)
            if told in merged:
                merged[told].share += share / whole
            else:
                merged[told] = self._scene(share / whole, scene_case, resolved)
        return list(merged.values())

    def _scene(self, share: float, case: Case, resolved: Resolved) -> _Scene:
        parts = {part: self._part_seconds(part, case, resolved) for part in Part}
        if case.weights in ("disk", "network", "unknown"):
            # What a colder place adds is never negative, however the two were measured.
            warmer = resolved.at(("page_cache", case.compile, case.inspection))
            parts[Part.WEIGHT_LOADING] = max(
                parts[Part.WEIGHT_LOADING], self._part_seconds(Part.WEIGHT_LOADING, warmer, resolved)
            )
        stages = {stage: sum(parts[part] for part in PARTS_OF[stage]) for stage in STAGES}
        return _Scene(share, case, parts, stages, sum(stages.values()))

    def _part_seconds(self, part: Part, case: Case, resolved: Resolved) -> float:
        base = sum(coefficient * feature.value(case) for feature, coefficient in self._coefficients[part])
        effect = effect_of(part, case, self._fit.effects, self._fit.recipe)
        seconds = self._times(base, min(max(effect, -MAX_EFFECT), MAX_EFFECT))
        known = resolved.hardware
        if known and _STAGE[part] not in known.stages:
            seconds *= self._unattributed(case.model, known.key.text())
        return seconds

    def _unattributed(self, model: str, hardware: str) -> float:
        """Return the factor that totals put on the stages which were never observed on this hardware."""
        factors = self._fit.unattributed
        return math.exp(factors.get(hardware, 0.0) + factors.get(f"{model}@{hardware}", 0.0))

    def _range(
        self, target: str, scenes: Sequence[_Scene], spread: Spread, resolved: Resolved, widening: float
    ) -> _Range:
        """Bound a target: the widest of the states that are likely enough."""
        least = 0.0
        if resolved.hardware:
            least = REPEATABILITY_WIDTH * self._fit.repeatability.get(resolved.hardware.key.text(), 0.0)
        width = widening * max(spread.two_sided, least)
        likely = [scene for scene in scenes if scene.share >= MIN_SHARE] or list(scenes)
        seconds = [scene.total if target == "total" else scene.stages[Stage(target)] for scene in likely]
        mean = sum(s.share * (s.total if target == "total" else s.stages[Stage(target)]) for s in scenes)
        low, high = min([*seconds, mean]), max([*seconds, mean])
        upper = self._times(high, width)
        p90 = min(upper, self._times(high, widening * spread.p90))
        p99 = None if spread.p99 is None else max(upper, self._times(high, widening * spread.p99))
        return _Range(self._times(low, -width), upper, max(p90, mean), p99)

    def _times(self, seconds: float, exponent: float) -> float:
        return max(0.0, (seconds + self._floor) * math.exp(exponent) - self._floor)

    def _stage(self, stage: Stage, scenes: Sequence[_Scene], bounds: _Range, explain: bool) -> StagePrediction:
        parts = []
        for part in PARTS_OF[stage]:
            seconds = sum(scene.share * scene.parts[part] for scene in scenes)
            parts.append(
                PartPrediction(
                    part=part, seconds=seconds, terms=self._terms(part, scenes, seconds) if explain else None
                )
            )
        return StagePrediction(
            stage=stage,
            seconds=sum(part.seconds for part in parts),
            lower_seconds=bounds.lower,
            upper_seconds=bounds.upper,
            parts=parts,
        )

    def _terms(self, part: Part, scenes: Sequence[_Scene], seconds: float) -> list[Term]:
        """Say what each feature contributes, averaged over the states; the terms sum to ``seconds``."""
        terms = []
        for feature, coefficient in self._coefficients[part]:
            value = sum(scene.share * feature.value(scene.case) for scene in scenes)
            spent = sum(
                scene.share * self._spent(part, scene, coefficient * feature.value(scene.case)) for scene in scenes
            )
            per_unit = spent / value if value else 0.0
            speed = 1.0 / per_unit if feature.is_bytes and per_unit else None
            terms.append(
                Term(feature=feature.name, value=value, coefficient=per_unit, seconds=spent, bytes_per_second=speed)
            )
        rest = seconds - sum(term.seconds for term in terms)
        if abs(rest) > 1e-12:
            terms.append(Term(feature="offset", value=1.0, coefficient=rest, seconds=rest, bytes_per_second=None))
        return terms

    def _spent(self, part: Part, scene: _Scene, seconds: float) -> float:
        """Scale what a feature costs by what this hardware, engine and model make of the part."""
        base = sum(c * feature.value(scene.case) for feature, c in self._coefficients[part])
        return (
            seconds * min(scene.parts[part] / base, (scene.parts[part] + self._floor) / (base + self._floor))
            if base
            else 0.0
        )


def _fits(asked: tuple[str, ...], states: tuple[str, ...]) -> bool:
    return all(a in ("unknown", state) for a, state in zip(asked, states, strict=True))


_STAGE = {part: stage.value for stage, parts in PARTS_OF.items() for part in parts}


def _assumed_states(case: Case, scenes: Sequence[_Scene]) -> list[str]:
    """List the states that the spec leaves open and the mixture that answers."""
    assumed = []
    for name, field in zip(_STATE_FIELDS, ("weights", "compile", "inspection"), strict=True):
        if getattr(case, field) != "unknown":
            continue
        shares: dict[str, float] = {}
        for scene in scenes:
            state = getattr(scene.case, field)
            shares[state] = shares.get(state, 0.0) + scene.share
        told = ", ".join(f"{state} {share:.0%}" for state, share in sorted(shares.items(), key=lambda s: -s[1]))
        assumed.append(f"{name}: not given; a mixture of {told}, as seen so far")
    return assumed
