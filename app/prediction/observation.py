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
    total_seconds: float | None
    """From exec to the first healthy answer; None where nobody clocked it."""
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
        """Take from a measurement what the mathematics needs.

        The total of a published mean was rebuilt from its stages and lacks what belongs to none. Where the bootstrap
        was stamped in whole seconds, what the stages leave of the total is off by as much: no ``other`` of its own.
        """
        told = measurement.facts.keys() if reference else set()
        stages = measurement.stage_seconds
        if told & {"aggregate", "stamps"}:
            stages.pop(Stage.OTHER, None)
        return cls(
            key=f"{measurement.source}/{measurement.id}",
            spec=measurement.spec,
            total_seconds=None if "aggregate" in told else measurement.total_seconds,
            stages=stages,
            parts=measurement.part_seconds,
            reference=reference,
            reporter=measurement.source,
        )
