"""One startup, gathered line by line: which process said what, and how far it came. Pure."""

import re

from agent.stage_log.clock import Moment
from agent.stage_log.events import EVENTS, find_events
from agent.stage_log.facts import FACT_LITERALS, SpecFacts
from agent.stage_log.failure import ERROR_WORDS, Failure
from agent.stage_log.rank import ESTIMATE_ENDS, Rank
from agent.stage_log.wrappers import Line

__all__ = ["Startup"]

MAX_RANKS = 4096  # No engine has more processes; what further ones say counts, but as one process.

_TELLING = tuple(dict.fromkeys((*(event.literal for event in EVENTS), *FACT_LITERALS, *ERROR_WORDS)))
_STAMPED = re.compile(r"\d\d:\d\d:\d\d|\[ *\d+\.\d+\]|\.py:\d")
_BEGINNING = ("vLLM API server version ", "non-default args: ")
_NO_PROGRESS = frozenset(("failed", "frame", "trouble", "waiting"))
# What proves that a web server which is up is vLLM's, where a log holds several programs.
_ENGINE_IS_UP = frozenset(("loaded", "weights", "captured", "engine_ready", "server_start"))


class Startup:
    """What the lines of one startup tell, taken in one at a time."""

    def __init__(self) -> None:
        self.is_vllm = False
        self.is_ready = False
        self.sources: set[str | None] = set()  # Programs that spoke as vLLM; a log may hold others too.
        self.failure = Failure()
        self.facts = SpecFacts()
        self.ranks: dict[tuple[int | None, str | None], Rank] = {}
        self.seen: dict[str, Moment] = {}
        self.first: Moment | None = None
        self.last = Moment()

    def wants(self, raw: str) -> bool:
        """Whether a raw line may tell something; most of a long log does not, and opening a line is what takes time."""
        for literal in _TELLING:  # A loop is faster here than any(), and both than one pattern of all the literals.
            if literal in raw:
                return True
        return (self.first is None or not self.is_vllm) and _STAMPED.search(raw) is not None

    def take(self, line: Line) -> None:
        """Take in one line."""
        if line.has_vllm_head:
            self._is_from_engine(line)
        self._keep_time(line)
        self.facts.read(line)
        for event, match in find_events(line.text):
            self._rank(line).take(event, match, line.at)
            # Another host's own clock may be off; its collector's is everyone's.
            self.seen[event.name] = line.at._replace(own=None) if line.process.ip else line.at
            if event.name in ESTIMATE_ENDS:
                self.seen.pop("capture_start", None)
                self.seen.pop("captured", None)
            self._advance(event.name, line)
        if line.source in self.sources:
            self.failure.read(line)

    def is_begun_again_by(self, line: Line) -> bool:
        """Whether ``line`` begins another startup: this one went wrong, and something started the engine anew."""
        return self.failure.happened and any(beginning in line.text for beginning in _BEGINNING)

    def _is_from_engine(self, line: Line) -> None:
        self.is_vllm = True
        self.sources.add(line.source)

    def _advance(self, event: str, line: Line) -> None:
        if event in ("ready", "served"):
            self.is_ready = line.source in self.sources and not _ENGINE_IS_UP.isdisjoint(self.seen)
        elif event == "trouble":
            self.failure.is_trouble |= line.source in self.sources
        else:
            self._is_from_engine(line)
            self.failure.is_stated |= event == "failed"
            if event not in _NO_PROGRESS and not self.failure.is_stated:
                self.failure = Failure()  # The startup went on, so what looked like a failure was none.

    def _rank(self, line: Line) -> Rank:
        key = (line.process.pid, line.process.ip)
        if key not in self.ranks and len(self.ranks) >= MAX_RANKS:
            key = (None, None)
        rank = self.ranks.setdefault(key, Rank(line.process))
        if line.process.name:
            rank.process = line.process  # A worker's name gains its number once it knows it.
        return rank

    def _keep_time(self, line: Line) -> None:
        """Remember the first and the last stamp, but of no other host, whose clock may be off."""
        if line.process.ip is None and line.at != Moment():
            self.first = self.first or line.at
            stamps = zip(line.at, self.last, strict=True)
            self.last = Moment(*(old if new is None else new for new, old in stamps))
