"""Wrong measurements, made on purpose."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from app.prediction.observation import Observation

__all__ = ["corrupt", "scaled"]

WRONG_SHARE = 0.05
WRONG_FACTORS = (10.0, 0.1)
WRONG_MODEL_FACTOR = 3.0


def corrupt(observations: Sequence[Observation], seed: int) -> list[Observation]:
    """Make one observation in twenty wrong by a factor of ten up or down, and all of one model by a factor of three."""
    random = np.random.default_rng(seed)
    factors = np.ones(len(observations))
    models = [observation.spec.model.name for observation in observations]
    factors[np.array(models) == random.choice(sorted(set(models)))] = WRONG_MODEL_FACTOR
    wrong = random.choice(len(observations), round(WRONG_SHARE * len(observations)), replace=False)
    factors[wrong] *= random.choice(WRONG_FACTORS, len(wrong))
    return [scaled(observation, float(factor)) for observation, factor in zip(observations, factors, strict=True)]


def scaled(observation: Observation, factor: float) -> Observation:
    """Return the observation with every second of it multiplied."""
    return replace(
        observation,
        total_seconds=None if observation.total_seconds is None else observation.total_seconds * factor,
        stages={stage: seconds * factor for stage, seconds in observation.stages.items()},
        parts={part: seconds * factor for part, seconds in observation.parts.items()},
    )
