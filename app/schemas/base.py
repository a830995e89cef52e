"""The types and limits that every schema shares."""

import json
import math
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any

from pydantic import AfterValidator, AwareDatetime, BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints

__all__ = [
    "MAX_JSON_BYTES",
    "Bytes",
    "Count",
    "Fraction",
    "FreeJson",
    "Label",
    "Name",
    "PastDatetime",
    "Seconds",
    "Strict",
    "Tolerant",
    "json_problem",
]

MAX_SECONDS = 24 * 3600.0  # Real stages reach hours (a cold download over a slow network); a day is a broken clock.
MAX_BYTES = 10**15  # 1 PB: a thousand times the largest checkpoint known.
MAX_JSON_BYTES = 256 * 1024  # The largest Hugging Face configs known are about 100 KiB.
MAX_JSON_DEPTH = 16
MAX_CLOCK_SKEW = timedelta(minutes=5)

# No control characters: Postgres cannot store NUL, and the others only ever break logs and tables.
_PRINTABLE = r"^[^\x00-\x1f\x7f]*$"


def _finite(value: Any) -> Any:
    """Refuse booleans and numeric strings where a number is meant: JSON has numbers of its own."""
    if isinstance(value, bool | str):
        raise ValueError("send a JSON number")
    return value


_NUMBER = BeforeValidator(_finite)

Seconds = Annotated[float, Field(ge=0, le=MAX_SECONDS, allow_inf_nan=False), _NUMBER]
Bytes = Annotated[int, Field(ge=0, le=MAX_BYTES), _NUMBER]
Count = Annotated[int, Field(ge=0, le=10**7), _NUMBER]
Fraction = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False), _NUMBER]
Name = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=256, pattern=_PRINTABLE)]
Label = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=64, pattern=_PRINTABLE)]


def json_problem(value: Any, path: tuple[str | int, ...] = ()) -> str | None:
    """Return why ``value`` cannot be stored as JSON in Postgres and where it stands, or None where it can."""
    advice = _advice(value, len(path))
    if advice:
        return f"at /{'/'.join(map(str, path[:4]))}: {advice}".replace("\x00", "\\0") if path else advice
    match value:
        case dict():
            inner = (
                p for key, item in value.items() if (p := json_problem(key, path) or json_problem(item, (*path, key)))
            )
        case list():
            inner = (p for place, item in enumerate(value) if (p := json_problem(item, (*path, place))))
        case _:
            return None
    return next(inner, None)


def _advice(value: Any, depth: int) -> str | None:
    if depth > MAX_JSON_DEPTH:
        return f"nest JSON at most {MAX_JSON_DEPTH} levels deep"
    match value:
        case str() if "\x00" in value or not _is_unicode(value):
            return "remove NUL characters and lone surrogates from strings"
        case float() if not math.isfinite(value):
            return "send a finite number or null instead of NaN or an infinity"
        case int() if abs(value) >= 2**63:
            return "send integers of at most 64 bits"
    return None


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _storable(value: dict[str, Any]) -> dict[str, Any]:
    if problem := json_problem(value):
        raise ValueError(problem)
    if len(json.dumps(value)) > MAX_JSON_BYTES:
        raise ValueError(f"send at most {MAX_JSON_BYTES // 1024} KiB here")
    return value


FreeJson = Annotated[dict[str, Any], AfterValidator(_storable)]


def _not_ahead(value: datetime) -> datetime:
    if value > datetime.now(UTC) + MAX_CLOCK_SKEW:
        raise ValueError("lies in the future: check the clock of the reporting node")
    return value.astimezone(UTC)


def _iso_text(value: Any) -> Any:
    """Refuse numbers as times: whether 1700000000 means seconds or milliseconds is a guess."""
    if not isinstance(value, str | datetime):
        raise ValueError("send an RFC 3339 time with a zone, such as 2026-11-30T12:00:00Z")
    return value


PastDatetime = Annotated[AwareDatetime, BeforeValidator(_iso_text), AfterValidator(_not_ahead)]


class Strict(BaseModel):
    """A schema that refuses fields it does not know: a misspelt field must not be silently ignored."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True, allow_inf_nan=False)


class Tolerant(BaseModel):
    """A schema that keeps fields it does not know, so that a newer agent loses nothing on an older service."""

    model_config = ConfigDict(extra="allow", frozen=True, use_attribute_docstrings=True, allow_inf_nan=False)
