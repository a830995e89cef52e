"""The other commands as real processes: what they print, and how they fail."""

import json
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import func, select
from typer.testing import CliRunner

from app.__main__ import app
from app.database.engine import Sessions
from app.database.tables import FitRow, MeasurementRow
from tests.factories import make_measurement
from tests.processes import run


def measurements(sessions: Sessions) -> int:
    with sessions() as session:
        return session.scalar(select(func.count()).select_from(MeasurementRow)) or 0


def test_help_is_for_people() -> None:
    def help_of(*arguments: str) -> str:
        result = CliRunner().invoke(app, [*arguments, "--help"])
        assert result.exit_code == 0
        return result.output

    for command in ("serve", "migrate", "refit", "import", "predict"):
        assert command in help_of()
        assert len(help_of(command)) > 100
    assert "until-stdin-closes" not in help_of("refit")
    assert CliRunner().invoke(app, []).exit_code == 2
    missing = CliRunner().invoke(app, ["predict", "a"])
    assert missing.exit_code == 2
    assert "give MODEL and GPU" in missing.output


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("COLDCAST_PORT", "ninety"),
        ("COLDCAST_REFIT_SECONDS", "0"),
        ("DATABASE_URL", "not a url"),
        ("DATABASE_URL", "sqlite://"),
    ],
)
def test_a_bad_setting_is_one_line(name: str, value: str, data_dir: Path) -> None:
    failed = run("serve", **{"COLDCAST_DATA_DIR": str(data_dir), name: value})
    assert failed.returncode == 1
    assert name in failed.stderr
    assert "Traceback" not in failed.stderr


def test_a_database_that_does_not_answer_is_one_line() -> None:
    for command in (["migrate"], ["refit"], ["serve"]):
        failed = run(*command, DATABASE_URL="postgresql://nobody@127.0.0.1:1/nowhere")
        assert failed.returncode == 1, failed.stderr
        assert "does not answer" in failed.stderr
        assert "Traceback" not in failed.stderr


def test_migrate_twice(empty_database: str) -> None:
    first = run("migrate", DATABASE_URL=empty_database)
    assert first.returncode == 0, first.stderr
    assert "promoted" in first.stderr
    second = run("migrate", DATABASE_URL=empty_database)
    assert second.returncode == 0, second.stderr
    assert "0 reference measurements are new" in second.stderr
    assert "first fit" not in second.stderr


def test_refit_says_what_came_of_it(own_database: str, own_sessions: Sessions) -> None:
    done = run("refit", DATABASE_URL=own_database)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("nothing_new: ")
    with own_sessions() as session:
        assert session.scalar(select(func.count()).select_from(FitRow)) == 1


def test_import_of_good_files(own_database: str, own_sessions: Sessions, tmp_path: Path) -> None:
    before = measurements(own_sessions)
    wires = [make_measurement() for _ in range(5)]
    one, array, batch, lines = (tmp_path / name for name in ("one.json", "array.json", "batch.json", "lines.jsonl"))
    one.write_text(json.dumps(wires[0]))
    array.write_text(json.dumps(wires[1:3]))
    batch.write_text(json.dumps({"measurements": wires[2:4]}))
    lines.write_text("\n".join(json.dumps(wire) for wire in wires))
    done = run("import", str(one), str(array), str(batch), str(lines), DATABASE_URL=own_database)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        f"{one}: 1 new, 0 known, 0 conflicts",
        f"{array}: 2 new, 0 known, 0 conflicts",
        f"{batch}: 1 new, 1 known, 0 conflicts",
        f"{lines}: 1 new, 4 known, 0 conflicts",
    ]
    assert measurements(own_sessions) == before + 5


def test_import_tells_conflicts(own_database: str, tmp_path: Path) -> None:
    wire = make_measurement()
    file = tmp_path / "conflict.jsonl"
    file.write_text("\n".join(json.dumps({**wire, "total_seconds": total}) for total in (30.0, 31.0)))
    done = run("import", str(file), DATABASE_URL=own_database)
    assert "1 new, 0 known, 1 conflicts" in done.stdout
    assert f"the id {wire['id']} is taken" in " ".join(done.stderr.split())


def test_import_of_a_bad_file_stores_none_of_it(own_database: str, own_sessions: Sessions, tmp_path: Path) -> None:
    before = measurements(own_sessions)
    good: dict[str, Any] = make_measurement()
    file = tmp_path / "bad.jsonl"
    for bad, message in [
        (json.dumps({**good, "total_seconds": -1}), "line 2: Correct and send again: /total_seconds"),
        ("{", "line 2"),
        (json.dumps({**good, "facts": {"a": "\x00"}}), "/facts/a"),
        ("NaN", "line 2"),
    ]:
        file.write_text(f"{json.dumps(good)}\n{bad}\n")
        failed = run("import", str(file), DATABASE_URL=own_database)
        assert failed.returncode == 1
        assert message in " ".join(failed.stderr.split())
        assert "Traceback" not in failed.stderr
    assert run("import", str(tmp_path / "nowhere.json"), DATABASE_URL=own_database).returncode == 1
    assert measurements(own_sessions) == before


def test_predict_without_a_service_says_how_to_start_one() -> None:
    failed = run("predict", "a", "b", "--url", "http://127.0.0.1:1")
    assert failed.returncode == 1
    assert "scripts/serve" in failed.stderr
    assert "Traceback" not in failed.stderr
