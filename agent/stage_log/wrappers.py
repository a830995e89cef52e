"""From a raw line to what a process said, whatever wrapped it on its way into the file. Pure.

Wrappers are not listed by product. Escape codes go; JSON records (a logger's or a collector's) are rewritten as the
plain line that they stand for; pieces of a line that a container runtime cut are joined. Then vLLM's own head (level,
stamp, file) or the process in brackets is searched for near the start: what stands before it is the wrapper's.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from agent.stage_log.clock import Moment, find_stamp, year_seconds
from agent.stage_log.reading import MAX_LINE

__all__ = ["Line", "Process", "open_line", "unwrap"]

_NEAR = 300  # Wrappers put less than this before a line's own text.

# The escape byte, also as viewers and collectors spell it or with it lost.
_ANSI = re.compile(r"(?:\x1b|\\x1b|\\u001b|\\033|\^\[|#033)\[[0-9;?]*[ -/]*[@-~]|\[\d{1,3}(?:;\d{1,3})*m|\x1b[@-Z\\-_]")
_CRI = re.compile(r"^(?P<head>.{0,160}?\d\d:\d\d:\d\d\S* )(?:stdout|stderr) (?P<flag>[PF]) ?(?P<body>.*)$")
_BOX = re.compile(r"^\s*[│┃║|]\s?(?P<inside>.*?)\s*[│┃║|]?\s*$")
_HEAD = re.compile(
    r"(?P<level>DEBUG|INFO|WARNING|ERROR|CRITICAL) "
    r"(?:(?P<month>\d\d)-(?P<day>\d\d) (?P<hour>\d\d):(?P<minute>\d\d):(?P<second>\d\d(?:[.,]\d{1,9})?) )?"
    r"(?:\[?(?P<file>[\w./-]{1,80}\.py):\d+\] ?)?"
)
_TAG = re.compile(
    r"\((?:(?P<name>[A-Za-z_][\w -]{0,60}?) )?(?:rank=(?P<rank>\d{1,5}) )?pid=(?P<pid>\d{1,10})"
    r"(?:, ip=(?P<ip>[^()]{1,64}))?\) ?"
)
_WRAPPER = re.compile(
    r"(?:\s+|\d+[:\t]|[│┃║>]"  # Blanks, line numbers, boxes.
    r"|\[?\d{4}-\d\d-\d\d[T ][\d:.,]+(?:Z|[+-]\d\d:?\d\d)?\]?|\[ *\d+\.\d+\]|[A-Z][a-z]{2} +\d+ [\d:]{8} \S+ \S+:(?= )"
    r"|(?:stdout|stderr) [PF](?= )|\[?[\w./-]{1,80}\]? *\|(?= )|\[[A-Z]+ *\](?= )|\[rank\d+\]:|- )*+"
)
# The name that a collector of several programs puts before a line: ``name | `` or ``[pod/name] ``.
_SOURCE = re.compile(r"\[?(?P<name>[\w./-]{1,120})\]? *\| |\[(?P<path>[\w.-]{1,80}/[\w./-]{1,160})\] ")
_TEXT_KEYS = ("message", "msg", "log", "text", "MESSAGE", "textPayload", "line")
_TIME_KEYS = ("asctime", "time", "timestamp", "@timestamp", "ts")
_NAME_KEYS = ("vllm_process_name", "processName", "process_name")
_LEVEL_KEYS = ("levelname", "level", "severity")


class Process(NamedTuple):
    """The process that wrote a line, as far as the line says."""

    name: str | None = None
    pid: int | None = None
    rank: int | None = None
    ip: str | None = None


class Line(NamedTuple):
    """One line: its whole text, what the process itself said, who said it, from which file, and when.

    ``source`` is the program's name where a collector gives one.
    """

    text: str
    message: str
    level: str | None
    file: str | None
    has_vllm_head: bool
    process: Process
    source: str | None
    at: Moment


def unwrap(lines: Iterable[str], is_wanted: Callable[[str], bool]) -> Iterator[str]:
    """Yield the wanted lines plain: escape codes and boxes gone, the pieces of a cut line joined, JSON opened."""
    pending = ""
    for raw in lines:
        if not (pending or is_wanted(raw) or _may_be_piece(raw)):
            continue
        plain = _ANSI.sub("", raw)
        box = _BOX.match(plain)
        head, body, is_piece = _piece(box["inside"] if box else plain)
        text = pending + body if pending else head + body
        pending = text[:MAX_LINE] if is_piece else ""
        if not is_piece:
            yield _open_json(text)
    if pending:
        yield _open_json(pending)


def _may_be_piece(raw: str) -> bool:
    return " P " in raw or ('{"log":' in raw and "\\n" not in raw)


def _piece(text: str) -> tuple[str, str, bool]:
    """Return a container runtime's prefix, what it put into the file, and whether more of that line follows."""
    if match := _CRI.match(text):
        return match["head"], match["body"], match["flag"] == "P"
    record, start = _record(text)
    log = record.get("log")
    if isinstance(log, str):  # Docker's own files: only the last piece of a line has the newline.
        return text[:start] + _plain_head(record), _ANSI.sub("", log).rstrip("\r\n"), not log.endswith("\n")
    return "", text, False


def _open_json(text: str) -> str:
    """Rewrite a JSON record as the plain line that it stands for; a record may hold another one."""
    record, start = _record(text)
    said = next((value for key in _TEXT_KEYS if isinstance(value := record.get(key), str)), None)
    if said is None:
        return text
    return text[:start] + _plain_head(record) + _open_json(_ANSI.sub("", said).strip("\r\n"))


def _record(text: str) -> tuple[dict[str, Any], int]:
    """The JSON object that a line ends with, and where it starts; an empty one where there is none."""
    start = text.find('{"', 0, _NEAR)
    if start >= 0 and text.rstrip().endswith("}"):
        try:
            record = json.loads(text[start:])
        except (ValueError, RecursionError):
            return {}, 0
        if isinstance(record, dict):
            return record, start
    return {}, 0


def _plain_head(record: dict[str, Any]) -> str:
    """Spell a record's time, process and level as vLLM's plain formatter would."""
    time = _first(record, _TIME_KEYS) or ""
    head = f"{time} " if re.match(r"\d{4}-", time) else ""
    if name := _first(record, _NAME_KEYS):
        pid = record.get("process", record.get("pid"))
        head += f"({name} pid={pid}) " if isinstance(pid, int) else f"({name}) "
    if level := _first(record, _LEVEL_KEYS):
        stamp = re.search(r"\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?", time)
        head += f"{level.upper()} " + (stamp[0].replace("T", " ") + " " if stamp else "")
    return head


def _first(record: dict[str, Any], keys: tuple[str, ...]) -> str | None:
    return next((value for key in keys if isinstance(value := record.get(key), str)), None)


def open_line(text: str) -> Line:
    """Find in a plain line who wrote it, when, and what it says."""
    near = text[:_NEAR]
    head = _head(near)
    before = near[: head.start()] if head else near
    tags = list(_TAG.finditer(before)) if "pid=" in before else []
    own = head.start() if head else tags[-1].end() if tags else _after_wrapper(text)
    message = text[head.end() :] if head else text[own:]
    prefix = near[: tags[0].start() if tags else own]
    return Line(
        text=text,
        message=message,
        level=head["level"] if head else None,
        file=head["file"] if head else None,
        has_vllm_head=head is not None and head["month"] is not None and head["file"] is not None,
        process=_process(tags[-1]) if tags else Process(),
        source=_source(text),
        at=find_stamp(prefix)._replace(own=_own_stamp(head, message)),
    )


def _head(near: str) -> re.Match[str] | None:
    """Find vLLM's head: a level alone is none, it takes a stamp or a file."""
    return next((m for m in _HEAD.finditer(near) if m["month"] or m["file"]), None)


def _after_wrapper(text: str) -> int:
    match = _WRAPPER.match(text)
    return match.end() if match else 0


def _source(text: str) -> str | None:
    match = _SOURCE.match(text)
    return (match["name"] or match["path"]) if match else None


def _process(tag: re.Match[str]) -> Process:
    name = tag["name"]
    numbered = re.search(r"TP(\d{1,5})", name) if name else None
    rank = tag["rank"] or (numbered[1] if numbered else None)
    return Process(name, int(tag["pid"]), None if rank is None else int(rank), tag["ip"])


def _own_stamp(head: re.Match[str] | None, message: str) -> float | None:
    """The engine's own stamp, or that of a library which logs in a format of its own."""
    if head is None:
        return find_stamp(message[:32]).outer
    if head["month"] is None:
        return None
    return year_seconds(head["month"], head["day"], head["hour"], head["minute"], head["second"])
