"""Times on log lines: what a stamp says, and the seconds between two of them."""

import re
from typing import NamedTuple

__all__ = ["Moment", "elapsed", "find_stamp", "year_seconds"]

_DAY = 86_400.0
# vLLM's stamps carry no year, so all stamps are counted in a leap year, in which every date exists.
_DAYS_BEFORE = (0, 31, 60, 91, 121, 152, 182, 213, 244, 274, 305, 335)
_YEAR = 366 * _DAY
_LEAP_DAY = 59 * _DAY
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")

_CLOCK = r"(?P<hour>\d\d):(?P<minute>\d\d):(?P<second>\d\d(?:[.,]\d{1,9})?)"
_ISO = re.compile(rf"\d{{4}}-(?P<month>\d\d)-(?P<day>\d\d)[T ]{_CLOCK}")
_SYSLOG = re.compile(rf"\b(?P<month>{'|'.join(_MONTHS)}) +(?P<day>\d{{1,2}}) {_CLOCK}", re.IGNORECASE)
_SINCE_START = re.compile(r"^\W?\[ *(?P<seconds>\d{1,7}\.\d{1,9})\] ")


class Moment(NamedTuple):
    """When a line was written, by each of the clocks that stamped it; None for a clock that did not.

    ``since_start`` counts seconds from the start of the process, ``outer`` and ``own`` from the start of the year:
    ``outer`` by what collected the log (Docker, Kubernetes, journald, …), ``own`` by the process that wrote the line.
    """

    since_start: float | None = None
    outer: float | None = None
    own: float | None = None


def elapsed(first: Moment, last: Moment) -> float | None:
    """Seconds from ``first`` to ``last`` by the best clock that stamped both; negative where the clock ran backwards.

    A collector's clock goes before the process's own: it is one for all processes and finer than whole seconds.
    """
    for clock, (a, b) in enumerate(zip(first, last, strict=True)):
        if a is not None and b is not None:
            return b - a if clock == 0 else _across_years(a, b)
    return None


def _across_years(a: float, b: float) -> float:
    seconds = b - a
    if abs(seconds) > _YEAR / 2:  # The year turned in between; no startup takes half a year.
        seconds -= _YEAR if seconds > 0 else -_YEAR
    if a < _LEAP_DAY and b >= _LEAP_DAY + _DAY and seconds > _DAY:
        seconds -= _DAY  # From 28 February to 1 March: no startup takes a whole day, so there was no 29th.
    return seconds


def find_stamp(prefix: str) -> Moment:
    """Read the collector's stamp in what stands before a process's own text."""
    if match := _SINCE_START.match(prefix):
        return Moment(since_start=float(match["seconds"]))
    if match := _ISO.search(prefix):
        return Moment(outer=year_seconds(match["month"], match["day"], match["hour"], match["minute"], match["second"]))
    if match := _SYSLOG.search(prefix):
        month = str(_MONTHS.index(match["month"].lower()) + 1)
        return Moment(outer=year_seconds(month, match["day"], match["hour"], match["minute"], match["second"]))
    return Moment()


def year_seconds(month: str, day: str, hour: str, minute: str, second: str) -> float | None:
    """Seconds since the year began, or None for a month that does not exist."""
    if not 1 <= int(month) <= 12:
        return None
    days = _DAYS_BEFORE[int(month) - 1] + int(day) - 1
    return days * _DAY + int(hour) * 3600 + int(minute) * 60 + float(second.replace(",", "."))
