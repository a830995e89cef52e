"""Limits that every schema shares."""

import json
import math
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from app.schemas.base import MAX_JSON_DEPTH, Bytes, Count, Fraction, FreeJson, Name, Seconds, Time, json_problem

ANY_TEXT = st.text(st.characters(), max_size=8)  # NUL characters and lone surrogates among them.
ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**65), 2**65) | st.floats() | ANY_TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(ANY_TEXT, inner, max_size=3),
    max_leaves=8,
)


def storable(value: Any, depth: int = 0) -> bool:
    """Say the same as ``json_problem`` in other words."""
    if depth > MAX_JSON_DEPTH:
        return False
    if isinstance(value, dict):
        return all(storable(key, depth) and storable(item, depth + 1) for key, item in value.items())
    if isinstance(value, list):
        return all(storable(item, depth + 1) for item in value)
    if isinstance(value, str):
        return not any(char == "\x00" or "\ud800" <= char <= "\udfff" for char in value)
    if isinstance(value, float):
        return math.isfinite(value)
    return value is None or abs(value) < 2**63


@given(ANY_JSON)
def test_json_problem_finds_what_cannot_be_stored(value: Any) -> None:
    assert (json_problem(value) is None) == storable(value)


@given(ANY_JSON)
def test_json_problem_names_a_place_that_exists(value: Any) -> None:
    if problem := json_problem(value):
        path, advice = problem
        for step in path:
            value = value[step]
        assert advice


def test_depth() -> None:
    def nested(levels: int) -> Any:
        value: Any = 1
        for _ in range(levels):
            value = [value]
        return value

    assert json_problem(nested(MAX_JSON_DEPTH)) is None
    assert json_problem(nested(MAX_JSON_DEPTH + 1)) is not None
    assert json_problem(nested(900)) is not None


@given(st.floats())
def test_seconds(value: float) -> None:
    adapter = TypeAdapter(Seconds)
    if 0 <= value <= 86_400:
        assert adapter.validate_python(value) == value
    else:
        with pytest.raises(ValidationError):
            adapter.validate_python(value)


@pytest.mark.parametrize("kind", [Seconds, Bytes, Count, Fraction])
@pytest.mark.parametrize("value", [True, False, "1", "", None, [], {}, "NaN", -1])
def test_numbers_are_json_numbers(kind: Any, value: Any) -> None:
    with pytest.raises(ValidationError):
        TypeAdapter(kind).validate_python(value)


@pytest.mark.parametrize("kind", [Bytes, Count])
def test_whole_floats_are_integers_and_others_are_not(kind: Any) -> None:
    assert TypeAdapter(kind).validate_python(7.0) == 7
    with pytest.raises(ValidationError):
        TypeAdapter(kind).validate_python(7.5)


def test_names_are_stripped_and_hold_no_control_characters() -> None:
    adapter = TypeAdapter(Name)
    assert adapter.validate_python("  a b ") == "a b"
    for text in ("", "   ", "a\nb", "a\x7fb", "a\x1fb", "x" * 257):
        with pytest.raises(ValidationError):
            adapter.validate_python(text)


ZONES = st.integers(-14 * 60, 14 * 60).map(lambda minutes: timezone(timedelta(minutes=minutes)))


@given(st.datetimes(timezones=ZONES).filter(lambda moment: 1 < moment.year < 9999))
def test_times_are_kept_to_the_microsecond_in_utc(moment: datetime) -> None:
    read = TypeAdapter(Time).validate_python(moment.isoformat())
    assert read == moment
    assert read.tzinfo is UTC


def test_free_json_has_a_size() -> None:
    adapter = TypeAdapter(FreeJson)
    assert adapter.validate_python({"a": "x" * 200_000})
    with pytest.raises(ValidationError, match="256 KiB"):
        adapter.validate_python({"a": "x" * 300_000})


def test_json_numbers_of_any_size_are_parsed_before_they_are_refused() -> None:
    assert json_problem(json.loads('{"a": 1e999}')) == (
        ("a",),
        "send a finite number or null instead of NaN or an infinity",
    )
