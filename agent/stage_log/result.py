"""What a log tells of one startup, as ``coldcast-agent parse`` prints it."""

from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any

from app.errors import ColdcastError

__all__ = ["LogOutcome", "NotAVllmLog", "ParsedLog", "ParsedRank"]


class NotAVllmLog(ColdcastError):
    """No line of this is vLLM's: give the log of a vLLM engine, as text and from its first line on."""


class LogOutcome(StrEnum):
    """How a startup ended, as far as its log goes; an incomplete one is never sent."""

    READY = "ready"
    FAILED = "failed"
    INCOMPLETE = "incomplete"


@dataclass(frozen=True)
class ParsedRank:
    """What one process of the engine printed: seconds by stage and part."""

    process: str | None
    pid: int | None
    node: str | None
    stages: dict[str, float]
    parts: dict[str, float]


@dataclass(frozen=True)
class ParsedLog:
    """One startup as its log tells it. Seconds by stage and part; what the log does not tell is absent.

    ``total_seconds`` is known only where the log's stamps count from the start of the process; ``log_seconds`` is what
    passed from the first stamp to the end of the startup, and so a lower bound of it.
    """

    outcome: LogOutcome
    engine_version: str | None
    total_seconds: float | None
    log_seconds: float | None
    stages: dict[str, float]
    parts: dict[str, float]
    spec: dict[str, dict[str, Any]]
    engine_said: dict[str, float]
    ranks: list[ParsedRank]
    failed_stage: str | None = None
    last_error: str | None = None
    notes: list[str] = field(default_factory=list)

    def as_json(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return asdict(self)
