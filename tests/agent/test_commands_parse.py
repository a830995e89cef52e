import json
from pathlib import Path

import typer
from typer.testing import CliRunner

from agent.commands_parse import parse
from tests.agent.startup_lines import startup

app = typer.Typer()
app.command()(parse)
run = CliRunner()


def write(path: Path, lines: list[str]) -> str:
    path.write_text("\n".join(lines))
    return str(path)


def test_each_log_is_one_json_object(tmp_path: Path) -> None:
    logs = [write(tmp_path / "a.log", startup()), write(tmp_path / "b.log", startup()[:-1])]
    result = run.invoke(app, logs)
    assert result.exit_code == 0
    objects = [json.loads(line) for line in result.stdout.splitlines()]
    assert [(found["log"], found["outcome"]) for found in objects] == [(logs[0], "ready"), (logs[1], "incomplete")]
    assert objects[0]["stages"]["model_loading"] == 5.5
    assert objects[0]["parts"]["weight_loading"] == 3.25


def test_a_log_that_cannot_be_read_is_named_and_the_others_are_parsed(tmp_path: Path) -> None:
    good, bad = write(tmp_path / "a.log", startup()), write(tmp_path / "b.log", ["no log"])
    result = run.invoke(app, [bad, str(tmp_path / "missing"), str(tmp_path), good])
    assert result.exit_code == 1
    assert json.loads(result.stdout)["log"] == good
    bad_line, missing, folder = result.stderr.splitlines()
    assert bad_line.startswith(f"{bad}: No line of this is vLLM's")
    assert missing == f"{tmp_path / 'missing'}: No such file or directory"
    assert folder == f"{tmp_path}: Is a directory"
