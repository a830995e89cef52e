import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.errors import InvalidInput
from app.reference import load_reference, parse_file

SHIPPED = Path(__file__).resolve().parents[2] / "app" / "reference" / "measurements.json"
SAME_FILE = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)


def wire(**changes: Any) -> dict[str, Any]:
    plain = {
        "id": "a",
        "started_at": "2026-01-01T00:00:00Z",
        "outcome": "ready",
        "total_seconds": 5.0,
        "spec": {"model": "m", "hardware": "H100"},
    }
    return plain | changes


def dataset(**row: Any) -> dict[str, Any]:
    """A file of the reference format with its first row only, changed by ``row``."""
    whole: dict[str, Any] = json.loads(SHIPPED.read_text())
    return whole | {"measurements": [whole["measurements"][0] | row]}


def ids(path: Path) -> list[str]:
    return [measurement.id for measurement in parse_file(path)]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "measurements.json"


def refused(path: Path, content: Any) -> InvalidInput:
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    with pytest.raises(InvalidInput) as caught:
        parse_file(path)
    assert str(path) in caught.value.detail
    return caught.value


def test_the_shipped_file_parses_to_the_shipped_measurements() -> None:
    assert parse_file(SHIPPED) == [m for m in load_reference() if m.facts["machine"] != "h200"]


@pytest.mark.parametrize("indent", [None, 1])
def test_one_many_and_a_batch(path: Path, indent: int | None) -> None:
    for value, expected in [
        (wire(), ["a"]),
        ([wire(), wire(id="b")], ["a", "b"]),
        ({"measurements": [wire(id="b"), wire()]}, ["b", "a"]),
        ([], []),
    ]:
        path.write_text(json.dumps(value, indent=indent))
        assert ids(path) == expected


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\n\n"])
def test_json_lines(path: Path, newline: str) -> None:
    path.write_bytes(newline.join(json.dumps(wire(id=name)) for name in "abc").encode())
    assert ids(path) == ["a", "b", "c"]


def test_a_byte_order_mark_does_no_harm(path: Path) -> None:
    path.write_text(json.dumps(wire()), encoding="utf-8-sig")
    assert ids(path) == ["a"]


def test_json_lines_name_the_line_and_the_field(path: Path) -> None:
    problem = refused(path, f"{json.dumps(wire())}\n\n{json.dumps(wire(total_seconds=-1))}\n")
    assert "line 3" in problem.detail
    assert [error.pointer for error in problem.errors] == ["/total_seconds"]


def test_broken_json_names_line_and_column(path: Path) -> None:
    assert "line 2, column 2 is not JSON" in refused(path, f"{json.dumps(wire())}\n{{,").detail
    assert "line 2, column 6 is not JSON" in refused(path, '{"a":\n "b",,}').detail


def test_an_array_names_the_entry_and_the_field(path: Path) -> None:
    problem = refused(path, [wire(), wire(spec={"model": "m"})])
    assert "measurement 2" in problem.detail
    assert [error.pointer for error in problem.errors] == ["/spec/hardware"]


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("", "line 1"),
        ("3", "the file"),
        ("1" * 6000, "line 1 cannot be read"),
        ("[" * 100_000, "levels deep"),
        (json.dumps(wire())[:-1] + ',"new":' + "[" * 900 + "]" * 900 + "}", "levels deep"),
        (json.dumps(wire(total_seconds=float("nan"))), "/total_seconds"),
        (dataset() | {"format_version": 2}, "/format_version"),
        (dataset(model="unheard-of"), "unheard-of"),
        (dataset(stages={"warming": 1.0}), "/measurements/0/stages/warming"),
        (dataset(hardware={"gpu_count": 0}), "/spec/hardware/gpu_count"),
        (dataset(total_seconds=1.0), "more than total_seconds"),
    ],
    ids=[
        "empty",
        "a number",
        "a huge integer",
        "deep JSON",
        "a deep unknown field",
        "NaN",
        "another format version",
        "an unknown model",
        "an unknown stage",
        "no GPUs",
        "a sum above the total",
    ],
)
def test_what_is_wrong_is_said(path: Path, content: Any, says: str) -> None:
    assert says in refused(path, content).detail


def test_unreadable_files_are_refused(tmp_path: Path, path: Path) -> None:
    path.write_bytes(b"\xff{}")
    for unreadable in (path, tmp_path, tmp_path / "absent"):
        with pytest.raises(InvalidInput, match=str(unreadable)):
            parse_file(unreadable)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.sampled_from(list(wire())), inner),
    max_leaves=20,
)


@SAME_FILE
@given(content=st.text() | json_values.map(json.dumps) | json_values.map(lambda value: json.dumps(wire(spec=value))))
def test_anything_else_is_invalid_input(path: Path, content: str) -> None:
    path.write_text(content, encoding="utf-8", errors="replace")
    try:
        measurements = parse_file(path)
    except InvalidInput as error:
        said = error.detail
    else:
        said = f"{path} holds {len(measurements)}"
        assert measurements == [] or content.lstrip().startswith(("{", "["))
    assert str(path) in said


@SAME_FILE
@given(totals=st.lists(st.floats(0, 86400), min_size=1, max_size=5))
def test_json_lines_and_arrays_say_the_same(path: Path, totals: list[float]) -> None:
    values = [wire(id=f"m{number}", total_seconds=total) for number, total in enumerate(totals)]
    path.write_text(json.dumps(values))
    from_array = parse_file(path)
    path.write_text("\n".join(map(json.dumps, values)))
    assert [m.digest for m in parse_file(path)] == [m.digest for m in from_array]
    assert [m.total_seconds for m in from_array] == totals
