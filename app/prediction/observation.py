"""The observation: one ready startup as the mathematics sees it."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from app.schemas.measurement import Measurement
from app.schemas.spec import Spec
from app.stages import Part, Stage

__all__ = ["Observation"]


@dataclass(frozen=True, slots=True)
class Observation:
    """One ready startup: its spec, its total, and the seconds of the stages and parts that were observed."""

    key: str
    """Stable id: breaks ties, and names the observation where it is left out."""
    spec: Spec
    """What was known before."""
    total_seconds: float
    """From exec to the first healthy answer."""
    stages: Mapping[Stage, float] = field(default_factory=dict)
    """The observed stages; ``other`` where all six are observed."""
    parts: Mapping[Part, float] = field(default_factory=dict)
    """The observed parts."""
    reference: bool = False
    """Whether it is a shipped reference measurement."""
    reporter: str = ""
    """Who reported it."""

    @classmethod
    def of(cls, measurement: Measurement, *, reference: bool = False) -> "Observation":
        """Take from a measurement what the mathematics needs."""
        return cls(
            key=f"{measurement.source}/{measurement.id}",
            spec=measurement.spec,
            total_seconds=measurement.total_seconds,
            stages=measurement.stage_seconds,
            parts=measurement.part_seconds,
            reference=reference,
            reporter=measurement.source,
        )
