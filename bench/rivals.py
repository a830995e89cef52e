"""The rivals: the paper's own method, as the figures in its repository show it, and the same with the caches' state.

Kabakibo, Trivedi, Wang: "Breaking the Ice: Analyzing Cold Start Latency in vLLM", MLSys 2026, arXiv 2606.07362.
"""

from collections.abc import Sequence
from typing import Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from app.prediction.observation import Observation
from app.schemas.spec import CompileCache, Spec, WeightsState
from app.stages import PARTS_OF, SIX_STAGES, Part, Stage, stage_of
from bench.methods import TOTAL, CannotPredict, Estimate

__all__ = ["Paper"]

DEFAULT_CAPTURED_SIZES = 67  # vLLM 0.10's rule: 1, 2, 4 and the multiples of 8 up to 512.
STATES = tuple(WeightsState)

Target = Part | Stage  # The two constants, bootstrap and remainder, are whole stages.


class Paper(BaseEstimator):  # type: ignore[misc]  # scikit-learn ships no types.
    """One least-squares line per part, with an intercept and no constraint.

    Parameters
    ----------
    with_state
        Draw weight loading on bytes, with a slope for each state of the weights, and compile where the cache is cold.
        Without it, weights are drawn on nominal parameters and every startup is taken for a warm one.
    with_remainder
        Add the mean of what the wall clock holds beyond the six stages; the published predictor leaves it out.
    """

    def __init__(self, *, with_state: bool = False, with_remainder: bool = True) -> None:
        self.with_state = with_state
        self.with_remainder = with_remainder

    def fit(self, observations: Sequence[Observation]) -> Self:
        """Draw each line through the observations that have its part and its feature."""
        constants = (Stage.FRAMEWORK_BOOTSTRAP, *((Stage.OTHER,) if self.with_remainder else ()))
        parts = [part for stage in SIX_STAGES[1:] for part in PARTS_OF[stage] if part is not Part.WEIGHT_POSTPROCESS]
        self.lines_ = {target: self._line(target, observations) for target in (*constants, *parts)}
        return self

    def predict(self, spec: Spec) -> Estimate:
        """Add the lines up; raise CannotPredict where a feature is unknown, or was never seen."""
        check_is_fitted(self)
        seconds = dict.fromkeys(map(str, Stage), 0.0)
        for target, line in self.lines_.items():
            if target not in self._skipped(spec):
                stage = target if isinstance(target, Stage) else stage_of(target)
                seconds[stage] += self._evaluate(target, line, spec)
        return Estimate({TOTAL: sum(seconds.values()), **seconds})

    def _skipped(self, spec: Spec) -> tuple[Target, ...]:
        compiles = spec.cache.compile in (CompileCache.COLD, CompileCache.DISABLED)
        return (Part.GRAPH_LOAD,) if self.with_state and compiles else (Part.GRAPH_COMPILE,)

    def _line(self, target: Target, observations: Sequence[Observation]) -> NDArray[np.float64] | None:
        points = [
            ((1.0, *features), seconds)
            for observation in observations
            if (seconds := _seconds(observation, target)) is not None
            and (features := self._features(target, observation.spec)) is not None
        ]
        if not points:
            return None
        design, measured = (np.array(column) for column in zip(*points, strict=True))
        line = np.linalg.lstsq(design, measured, rcond=None)[0]
        return np.where(design.any(axis=0), line, np.nan)  # A state of the weights that it never saw has no slope.

    def _evaluate(self, target: Target, line: NDArray[np.float64] | None, spec: Spec) -> float:
        features = self._features(target, spec)
        if line is None or features is None:
            raise CannotPredict(f"{target} has no line, or the spec lacks its feature")
        seconds = sum(slope * feature for slope, feature in zip(line, (1.0, *features), strict=True) if feature)
        if np.isnan(seconds):
            raise CannotPredict(f"{target} was never seen in this state")
        return float(seconds)

    def _features(self, target: Target, spec: Spec) -> tuple[float, ...] | None:
        model = spec.model
        billions = model.num_parameters and model.num_parameters / 1e9
        sizes = spec.engine.num_cudagraph_sizes or DEFAULT_CAPTURED_SIZES
        match target:
            case Part.WEIGHT_LOADING if self.with_state:
                return _bytes_by_state(spec)
            case Part.WEIGHT_LOADING | Part.KV_CACHE_PROFILING:
                return _known(billions)
            case Part.CUDA_GRAPH_CAPTURE:
                return _known(billions and billions * sizes)
            case Part.DYNAMO_TRANSFORM | Part.GRAPH_COMPILE | Part.GRAPH_LOAD:
                return _known(model.compiled_graph_bytes and model.compiled_graph_bytes / 1e6)
            case Part.TOKENIZER_INIT:
                return _known(model.tokenizer_bytes and model.tokenizer_bytes / 1e6)
        return ()


def _known(value: float | None) -> tuple[float, ...] | None:
    return None if value is None else (value,)


def _bytes_by_state(spec: Spec) -> tuple[float, ...] | None:
    """One column per state of the weights; only the one that they are in is not zero."""
    gigabytes, state = spec.model.weight_bytes, spec.cache.weights
    if gigabytes is None or state is None:
        return None
    return tuple(gigabytes / 1e9 if state is column else 0.0 for column in STATES)


def _seconds(observation: Observation, target: Target) -> float | None:
    if isinstance(target, Stage):
        return observation.stages.get(target)
    seconds = observation.parts.get(target)
    alone = len(PARTS_OF[stage_of(target)]) == 1
    return observation.stages.get(stage_of(target)) if seconds is None and alone else seconds
