"""The types and limits that every schema shares."""

import json
import math
import re
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any

from pydantic import AfterValidator, AwareDatetime, BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints
from pydantic_core import PydanticCustomError

__all__ = [
    "MAX_JSON_BYTES",
    "NUMBER",
    "Bytes",
    "Count",
    "Fraction",
    "FreeJson",
    "Label",
    "Name",
    "PastDatetime",
    "Seconds",
    "Strict",
    "Time",
    "Tolerant",
    "field_error",
    "json_problem",
    "require_json",
]

MAX_SECONDS = 24 * 3600.0  # Real stages reach hours (a cold download over a slow network); a day is a broken clock.
MAX_BYTES = 10**15  # 1 PB: a thousand times the largest checkpoint known.
MAX_JSON_BYTES = 256 * 1024  # The largest Hugging Face configs known are about 100 KiB.
MAX_JSON_DEPTH = 16
MAX_CLOCK_SKEW = timedelta(minutes=5)

# No control characters: Postgres cannot store NUL, and the others only ever break logs and tables.
_PRINTABLE = r"^[^\x00-\x1f\x7f]*$"


def _number(value: Any) -> Any:
    """Refuse booleans and numeric strings where a number is meant: JSON has numbers of its own."""
    if isinstance(value, bool | str):
        raise ValueError("send a JSON number")
    return value


NUMBER = BeforeValidator(_number)

Seconds = Annotated[float, Field(ge=0, le=MAX_SECONDS, allow_inf_nan=False), NUMBER]
Bytes = Annotated[int, Field(ge=0, le=MAX_BYTES), NUMBER]
Count = Annotated[int, Field(ge=0, le=10**7), NUMBER]
Fraction = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False), NUMBER]
Name = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=256, pattern=_PRINTABLE)]
Label = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=64, pattern=_PRINTABLE)]


Path = tuple[str | int, ...]


def field_error(advice: str, path: Path = ()) -> PydanticCustomError:
    """Return what a validator raises about the field at ``path`` below the value that it validates."""
    return PydanticCustomError("field_error", "{advice}", {"advice": advice, "path": path})


def json_problem(value: Any, path: Path = ()) -> tuple[Path, str] | None:
    """Return where ``value`` cannot be stored as JSON in Postgres and what to do about it, or None where it can."""
    if advice := _advice(value, len(path)):
        return path, advice
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


def require_json(value: Any) -> None:
    """Refuse what cannot be stored as JSON in Postgres, and name the field."""
    if problem := json_problem(value):
        path, advice = problem
        raise field_error(advice, path)


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
    require_json(value)
    if len(json.dumps(value)) > MAX_JSON_BYTES:
        raise ValueError(f"send at most {MAX_JSON_BYTES // 1024} KiB here")
    return value


FreeJson = Annotated[dict[str, Any], AfterValidator(_storable)]


_RFC3339 = re.compile(r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d")


def _rfc3339(value: Any) -> Any:
    """Refuse numbers as times, also in quotes: whether 1700000000 means seconds or milliseconds is a guess."""
    if not isinstance(value, datetime) and not (isinstance(value, str) and _RFC3339.match(value)):
        raise ValueError("send an RFC 3339 time with a zone, such as 2026-11-30T12:00:00Z")
    return value


def _in_utc(value: datetime) -> datetime:
    try:
        return value.astimezone(UTC)
    except OverflowError:  # The zone carries it out of the years 1 to 9999.
        raise ValueError("is out of range: check the clock of the reporting node") from None


def _not_ahead(value: datetime) -> datetime:
    if value > datetime.now(UTC) + MAX_CLOCK_SKEW:
        raise ValueError("lies in the future: check the clock of the reporting node")
    return value


Time = Annotated[AwareDatetime, BeforeValidator(_rfc3339), AfterValidator(_in_utc)]
PastDatetime = Annotated[Time, AfterValidator(_not_ahead)]


class Strict(BaseModel):
    """A schema that refuses fields it does not know: a misspelt field must not be silently ignored."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True, allow_inf_nan=False)


class Tolerant(BaseModel):
    """A schema that keeps fields it does not know, so that a newer agent loses nothing on an older service."""

    model_config = ConfigDict(extra="allow", frozen=True, use_attribute_docstrings=True, allow_inf_nan=False)
