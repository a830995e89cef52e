"""The predictor: a fit, ready to answer. No I/O, nothing learned; one to three milliseconds a spec."""

import math
from collections import Counter
from collections.abc import Sequence
from datetime import datetime

from app.prediction.bounds import TARGETS, scale_of
from app.prediction.case import Case
from app.prediction.effects import is_familiar, is_known_on
from app.prediction.explanation import terms_of
from app.prediction.fit import Fit
from app.prediction.intervals import Evidence, Interval, interval
from app.prediction.resolver import Resolved, Resolver
from app.prediction.scales import Standing, chain_of
from app.prediction.scenes import Scene, SceneBuilder
from app.schemas.prediction import (
    Basis,
    Bounds,
    PartPrediction,
    Prediction,
    Rung,
    StagePrediction,
    TotalPrediction,
)
from app.schemas.spec import Spec
from app.stages import PARTS_OF, STAGES, Part, Stage

__all__ = ["Predictor"]

BEYOND_WIDTH = 0.5  # Each doubling beyond what was measured widens the bounds by half.
_STATE_FIELDS = ("cache.weights", "cache.compile", "cache.model_inspection", "cache.kernels")


class Predictor:
    """Answers specs from one fit."""

    def __init__(self, fit: Fit, *, fit_id: int | None = None, fitted_at: datetime | None = None) -> None:
        self.fitted_at = fitted_at
        self._fit, self._fit_id = fit, fit_id
        self._resolver = Resolver(fit.catalogue)
        self._builder = SceneBuilder(fit)
        self._models_on = _models_on(fit)
        self._tensor_parallel = max((known.tensor_parallel for known in fit.catalogue.hardware), default=1)

    def predict(self, spec: Spec, *, explain: bool = False) -> Prediction:
        """Predict the startup that ``spec`` describes.

        Raises UnknownModel, AmbiguousHardware and InvalidInput.
        """
        resolved = self._resolver.asked(spec)
        near, rung, count = self._rung(resolved)
        extrapolated, widening = self._beyond(resolved)
        evidence = self._evidence(resolved, near, widening)
        scenes = self._builder.build(resolved, spec)
        intervals = {target: interval(target, scenes, evidence) for target in TARGETS}
        stages = [self._stage(stage, scenes, intervals[stage], explain) for stage in STAGES]
        total = intervals["total"]
        conformal = total.conformal and widening == 1
        return Prediction(
            total=TotalPrediction(
                seconds=sum(stage.seconds for stage in stages),
                lower_seconds=total.lower,
                upper_seconds=total.upper,
                p90_seconds=total.p90,
                p99_seconds=total.p99 if conformal else None,
            ),
            stages=stages,
            basis=Basis(
                rung=rung,
                measurements=count,
                fit_id=self._fit_id,
                fitted_at=self.fitted_at,
                bounds=Bounds.CONFORMAL if conformal else Bounds.PARAMETRIC,
                assumed=[*resolved.case.assumed, *_assumed_states(resolved.case, scenes)],
                extrapolated=extrapolated,
            ),
        )

    def _rung(self, resolved: Resolved) -> tuple[str, Rung, int]:
        """Return how near the evidence is, the rung that says so, and the measurements at that rung."""
        fit, known = self._fit, resolved.hardware
        if known is None or not resolved.same_hardware:
            return "pooled", *((Rung.POOLED, fit.own) if fit.own else (Rung.REFERENCE, fit.measurements))
        pairs = [fit.pairs.get(f"{resolved.case.model}@{machine.key.text()}", (0, 0)) for machine in resolved.alike]
        own, reference = (sum(counts) for counts in zip(*pairs, strict=True))
        if own:
            return "history", Rung.HISTORY, own
        near = "history" if reference else "elsewhere" if resolved.measured_model else "hardware"
        if known.own:
            return near, Rung.HARDWARE, sum(machine.own for machine in resolved.alike)
        return near, Rung.REFERENCE, sum(machine.measurements for machine in resolved.alike)

    def _peers(self, resolved: Resolved, near: str) -> int:
        """Return the models that tell of this hardware; of the model's own history, its startups there."""
        machines = [machine.key.text() for machine in resolved.alike]
        if near == "history":
            return sum(sum(self._fit.pairs.get(f"{resolved.case.model}@{machine}", ())) for machine in machines)
        return sum(self._models_on[machine] for machine in machines)

    def _beyond(self, resolved: Resolved) -> tuple[list[str], float]:
        """Say where the spec lies outside what was measured, and by how much that widens the bounds."""
        seen = resolved.hardware.tensor_parallel if resolved.hardware else self._tensor_parallel
        asked = resolved.case.tensor_parallel
        if asked <= seen:
            return [], 1.0
        told = f"engine.tensor_parallel_size: {asked:.0f}, where at most {seen} was measured"
        return [told], 1.0 + BEYOND_WIDTH * math.log2(asked / seen)

    def _evidence(self, resolved: Resolved, near: str, widening: float) -> Evidence:
        calibrations, known = self._fit.calibrations, resolved.hardware
        repeatability = self._fit.repeatability.get(known.key.text(), 0.0) if known else 0.0

        peers = self._peers(resolved, near)

        seen: dict[tuple[Part, int], float] = {}  # Each is asked for by the total and by its stage.

        def scale(part: Part, case: Case) -> float:
            if (key := (part, id(case))) not in seen:
                # Another GPU beside a familiar CPU leaves what runs on the CPU as sure as it was.
                familiar = is_familiar(part, case, self._fit.effects)
                standing = Standing(peers, familiar, resolved.measured_model)
                # What known hardware has not shown, such as its first start with a cold cache, is new to it.
                here = familiar or is_known_on(part, case, self._fit.effects)
                seen[key] = scale_of(calibrations, near if here else "pooled", chain_of(part, case), standing)
            return seen[key]

        return Evidence(calibrations[near], scale, repeatability, widening, self._fit.recipe.floor_seconds)

    def _stage(self, stage: Stage, scenes: Sequence[Scene], bounds: Interval, explain: bool) -> StagePrediction:
        floor = self._fit.recipe.floor_seconds
        parts = [
            PartPrediction(
                part=part,
                seconds=sum(scene.share * scene.parts[part] for scene in scenes),
                terms=terms_of(part, scenes, self._builder.coefficients[part], floor) if explain else None,
            )
            for part in PARTS_OF[stage]
        ]
        return StagePrediction(
            stage=stage,
            seconds=sum(part.seconds for part in parts),
            lower_seconds=bounds.lower,
            upper_seconds=bounds.upper,
            parts=parts,
        )


def _models_on(fit: Fit) -> Counter[str]:
    """Count the models that were measured on each hardware; names of models and nodes may hold an @ of their own."""
    hardware = {known.key.text() for known in fit.catalogue.hardware}
    tails = (pair[at + 1 :] for pair in fit.pairs for at, sign in enumerate(pair) if sign == "@")
    return Counter(tail for tail in tails if tail in hardware)


def _assumed_states(case: Case, scenes: Sequence[Scene]) -> list[str]:
    """List the states that the spec leaves open and the mixture that answers."""
    assumed = []
    for name, field in zip(_STATE_FIELDS, ("weights", "compile", "inspection", "kernels"), strict=True):
        if getattr(case, field) != "unknown":
            continue
        shares: dict[str, float] = {}
        for scene in scenes:
            state = getattr(scene.case, field)
            shares[state] = shares.get(state, 0.0) + scene.share
        told = ", ".join(f"{state} {share:.0%}" for state, share in sorted(shares.items(), key=lambda s: -s[1]))
        assumed.append(f"{name}: not given; a mixture of {told}, as seen so far")
    return assumed
