"""Made-up startups for the tests of the mathematics."""

import random
from collections.abc import Mapping
from typing import Any

from app.prediction.observation import Observation
from app.schemas.spec import Spec
from app.stages import SIX_STAGES, Part, Stage

STAGE_SECONDS: Mapping[Stage, float] = dict(zip(SIX_STAGES, (8.0, 0.4, 2.5, 10.5, 1.6, 1.2), strict=True))
TOTAL_SECONDS = 26.0
CACHE = {"weights": "page_cache", "compile": "warm"}
NODE = {"gpu": "NVIDIA Zeta 900", "cpu": "Foo 12", "cpu_cores": 12, "node": "made-up"}
MODEL = {"name": "made/model-x", "weight_bytes": 16_000_000_000, "num_layers": 32}


def spec(model: Any = None, hardware: Any = None, **others: Any) -> Spec:
    return Spec.of(model or MODEL, hardware or NODE, **{"cache": CACHE, **others})


def startup(
    key: str,
    *,
    of: Spec,
    stages: Mapping[Stage, float] = STAGE_SECONDS,
    total_seconds: float = TOTAL_SECONDS,
    parts: Mapping[Part, float] | None = None,
    reference: bool = False,
    reporter: str = "agent",
) -> Observation:
    """Build one observation; ``other`` is what the total leaves where all six stages are given."""
    told = dict(stages)
    if all(stage in told for stage in SIX_STAGES):
        told[Stage.OTHER] = max(0.0, total_seconds - sum(told.values()))
    return Observation(key, of, total_seconds, told, dict(parts or {}), reference, reporter)


def node(factor: float, *, of: Spec, count: int = 20, scatter: float = 0.02, seed: int = 1) -> list[Observation]:
    """Build ``count`` startups of one spec, ``factor`` times as long as a usual one, with some scatter."""
    random_numbers = random.Random(seed)
    startups = []
    for i in range(count):
        wobble = factor * random_numbers.uniform(1 - scatter, 1 + scatter)
        stages = {stage: seconds * wobble for stage, seconds in STAGE_SECONDS.items()}
        startups.append(startup(f"agent/{i}", of=of, stages=stages, total_seconds=TOTAL_SECONDS * wobble))
    return startups
