"""Explanations: what each feature contributes to a part; the terms sum to the part's seconds."""

from collections.abc import Sequence

from app.prediction.features import Feature
from app.prediction.scenes import Scene
from app.schemas.prediction import Term
from app.stages import Part

__all__ = ["terms_of"]


def terms_of(
    part: Part, scenes: Sequence[Scene], features: Sequence[tuple[Feature, float]], floor_seconds: float
) -> list[Term]:
    """Return the terms of a part, averaged over its scenes; a last one, ``offset``, is what no feature scales."""
    terms = []
    for feature, coefficient in features:
        value = sum(scene.share * feature.value(scene.case) for scene in scenes)
        spent = sum(
            scene.share * coefficient * feature.value(scene.case) * _factor(part, scene, features, floor_seconds)
            for scene in scenes
        )
        each = spent / value if value else 0.0
        speed = 1.0 / each if feature.is_bytes and each else None
        terms.append(Term(feature=feature.name, value=value, coefficient=each, seconds=spent, bytes_per_second=speed))
    rest = sum(scene.share * scene.parts[part] for scene in scenes) - sum(term.seconds for term in terms)
    if rest:
        terms.append(Term(feature="offset", value=1.0, coefficient=rest, seconds=rest, bytes_per_second=None))
    return terms


def _factor(part: Part, scene: Scene, features: Sequence[tuple[Feature, float]], floor_seconds: float) -> float:
    """Return what hardware, engine and model make of the features' seconds."""
    base = sum(coefficient * feature.value(scene.case) for feature, coefficient in features)
    seconds = scene.parts[part]
    return min(seconds / base, (seconds + floor_seconds) / (base + floor_seconds)) if base else 0.0
