"""What every probe is given, and what it gives back."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agent.probes.command_line import EngineArguments
from agent.probes.model_files import ModelFiles

__all__ = ["Context", "Found", "NoData", "home_of"]


class NoData(Exception):
    """There is nothing of this kind on the machine, which is no failure; the message says what was looked for."""


@dataclass(frozen=True)
class Context:
    """The machine and the engine about to start on it.

    ``root`` stands for ``/`` wherever a probe reads ``/proc`` and ``/sys``. ``pause`` waits for so many seconds.
    """

    root: Path
    command: tuple[str, ...]
    environment: Mapping[str, str]
    arguments: EngineArguments
    files: ModelFiles
    pause: Callable[[float], None]

    def read(self, path: str) -> str:
        """Return the text of ``path`` below the root. Raises ``OSError``."""
        return (self.root / path).read_text(errors="replace")


@dataclass(frozen=True)
class Found:
    """What a probe found: fields of the spec by section (model, hardware, engine, cache), and raw facts beside them."""

    spec: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    facts: Mapping[str, Any] = field(default_factory=dict)


def home_of(environment: Mapping[str, str]) -> Path:
    """Return the home folder that the engine will see."""
    return Path(environment.get("HOME") or Path.home())
