"""Measurements from files: the format of the reference file, or measurements as they cross the wire."""

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from app.errors import InvalidInput
from app.reference.dataset import Dataset, to_wire
from app.schemas.measurement import Measurement
from app.schemas.problem import invalid_input

__all__ = ["parse_file"]


def parse_file(path: Path) -> list[Measurement]:
    """Return the measurements in ``path``, validated, in its order.

    It may hold a file in the format of the reference file, one measurement, an array of them, a batch
    (``{"measurements": [...]}``), or JSON Lines. InvalidInput names the file, the line or the entry, and the field.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise InvalidInput(f"{path} cannot be read: {error.strerror}.") from error
    except UnicodeDecodeError as error:
        raise InvalidInput(f"{path} is not UTF-8 at byte {error.start}: save it as UTF-8.") from error
    try:
        return [_measurement(path, where, value) for where, value in _entries(path, text)]
    except RecursionError as error:
        raise InvalidInput(f"{path} nests JSON hundreds of levels deep: a measurement needs a dozen.") from error


def _entries(path: Path, text: str) -> Iterator[tuple[str, Any]]:
    """Yield where each measurement stands, and its JSON value.

    A file is JSON Lines where its first line is a whole JSON value and others follow.
    """
    first, _, rest = text.strip().partition("\n")
    if rest.strip() and _is_json(first):
        lines = ((number, line) for number, line in enumerate(text.split("\n"), 1) if line.strip())
        yield from ((f"line {number}", _loads(path, line, number)) for number, line in lines)
        return
    match _loads(path, text, 1):
        case {"format_version": _} as dataset:
            yield from _numbered(_expanded(path, dataset))
        case {"measurements": list(measurements)} if measurements:
            yield from _numbered(measurements)
        case list(measurements):
            yield from _numbered(measurements)
        case value:
            yield "the file", value


def _numbered(values: Iterable[Any]) -> Iterator[tuple[str, Any]]:
    return ((f"measurement {number}", value) for number, value in enumerate(values, 1))


def _expanded(path: Path, value: dict[str, Any]) -> list[dict[str, Any]]:
    try:
        return list(to_wire(Dataset.model_validate(value)))
    except ValidationError as error:
        raise _located(path, "the file", error) from error
    except KeyError as error:
        raise InvalidInput(
            f"{path}: a measurement names {error}, which is neither a model nor a node in it."
        ) from error


def _measurement(path: Path, where: str, value: Any) -> Measurement:
    try:
        return Measurement.model_validate(value)
    except ValidationError as error:
        raise _located(path, where, error) from error


def _located(path: Path, where: str, error: ValidationError) -> InvalidInput:
    problem = invalid_input(error)
    return InvalidInput(f"{path}, {where}: {problem.detail}", errors=problem.errors)


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


def _loads(path: Path, text: str, line: int) -> Any:
    """Parse ``text``, which begins at ``line`` of the file."""
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        at = f"line {line + error.lineno - 1}, column {error.colno}"
        raise InvalidInput(f"{path}, {at} is not JSON: {error.msg[:1].lower() + error.msg[1:]}.") from error
    except ValueError as error:  # An integer of more digits than Python converts.
        raise InvalidInput(f"{path}, line {line} cannot be read as JSON: {error}.") from error
