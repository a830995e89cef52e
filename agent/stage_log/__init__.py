"""Log parsing: the stage seconds of a startup from nothing but the engine's stock log, of vLLM 0.3 to 0.33.

Lines flow through ``reading`` (bytes to lines), ``wrappers`` (what a process said, and when), ``startup`` (what was
said so far) and ``conclude`` (what that tells); no step keeps the lines.
"""

from collections.abc import Iterable

from agent.stage_log.conclude import conclude
from agent.stage_log.reading import read_lines
from agent.stage_log.result import LogOutcome, NotAVllmLog, ParsedLog, ParsedRank
from agent.stage_log.startup import Startup
from agent.stage_log.wrappers import open_line, unwrap

__all__ = ["LogOutcome", "NotAVllmLog", "ParsedLog", "ParsedRank", "parse_lines", "read_lines"]


def parse_lines(lines: Iterable[str]) -> ParsedLog:
    """Return what the lines of one log tell, up to its first ready line; raises :class:`NotAVllmLog`.

    Where an engine failed and was started anew in the same log, the later startup is told.
    """
    startup = Startup()

    def is_wanted(raw: str) -> bool:
        return startup.wants(raw)

    for text in unwrap(lines, is_wanted):
        line = open_line(text)
        if startup.is_begun_again_by(line):
            startup = Startup()
        startup.take(line)
        if startup.is_ready:
            break
    return conclude(startup)
