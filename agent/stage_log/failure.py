"""Telling a failed startup from one that only met trouble, and finding the line that says what failed. Pure."""

import re
from dataclasses import dataclass

from agent.masking import mask
from agent.stage_log.wrappers import Line

__all__ = ["ERROR_WORDS", "Failure"]

# One of these stands in every line that :meth:`Failure.read` keeps.
ERROR_WORDS = ("ERROR", "CRITICAL", "Error", "Exception", "Interrupt", "Exit", "Failure", "NotFound", "Killed")

MAX_ERROR = 500  # An error line that says more than this says it at its beginning.

_EXCEPTION = re.compile(r"(?:\w{1,80}\.){0,9}\w{0,80}(?:Error|Exception|Interrupt|Exit|Failure|NotFound)(?:: .*|$)")
# What only says that something failed; another line says what.
_GENERIC = re.compile(
    r"Traceback \(most|EngineCore (?:failed|hit)|WorkerProc (?:failed|hit|init)|.*See (?:root cause|stack trace)"
    r"|SystemExit|.*\bKilled\b|.*\(core dumped\)"
)
_FATAL = re.compile(
    r"\*{3} SIG|HW Exception|Fatal Python error|.*Segmentation fault|.*died with exit code|.*\bvllm(?: \w+)?: error: "
)
_SERIOUS = (None, "ERROR", "CRITICAL")  # Tracebacks often come without a level.
_WRITER = re.compile(r"(?:\[rank\d+\]:? *)+")


@dataclass
class Failure:
    """Whether the startup failed, and the last line that says why.

    A failure that vLLM states is one. A traceback, an error or a killed process is trouble, and a failure only where
    the startup goes no further.
    """

    is_stated: bool = False
    is_trouble: bool = False
    exception: str | None = None
    error: str | None = None
    generic: str | None = None

    @property
    def happened(self) -> bool:
        """Whether the startup failed, if nothing follows."""
        return self.is_stated or self.is_trouble

    def read(self, line: Line) -> None:
        """Keep ``line`` if it says what went wrong."""
        message = _WRITER.sub("", line.message.strip())
        if not message:
            return
        if _GENERIC.match(message):
            self.generic = message
        elif line.level in _SERIOUS and _EXCEPTION.match(message):
            self.is_trouble, self.exception = True, message
        elif _FATAL.match(message) or (line.level and line.level in _SERIOUS and not line.message.startswith(" ")):
            self.error = message

    def last_error(self) -> str | None:
        """Return the last line that says what failed, secrets masked."""
        error = self.exception or self.error or self.generic
        return None if error is None else mask(error)[:MAX_ERROR]
