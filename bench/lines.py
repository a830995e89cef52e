"""The lines of the benchmark's table, and the verdict on each."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from bench.runner import OURS

__all__ = ["Figures", "Line", "Verdict"]

Figures = Mapping[str, float]
"""Named figures of one method in one line: {"MAPE %": 2.1, "worst %": 14.0}."""

Verdict = str


@dataclass(frozen=True)
class Line:
    """One line: what was asked, what each method reached, and what was to be reached."""

    protocol: str
    what: str
    figures: Mapping[str, Figures | None]
    """By method; None where the method cannot predict, absent where the question makes no sense for it."""
    must: Figures = field(default_factory=dict)
    """The most that each figure may be; empty for lines that only inform."""
    aim: Figures = field(default_factory=dict)
    met: bool = True
    """A condition beyond the figures that ``must`` names."""

    @property
    def verdict(self) -> Verdict:
        """Return ``aim``, ``reached`` or ``missed``; nothing for lines that only inform."""
        ours = self.figures.get(OURS)
        if not self.must:
            return ""
        if ours is None or not self.met or not _within(ours, self.must):
            return "missed"
        return "aim" if self.aim and _within(ours, self.aim) else "reached"


def _within(figures: Figures, limits: Figures) -> bool:
    return all(figures[name] <= limit for name, limit in limits.items())
