"""The commands show and flush, as a person runs them."""

import json
import socket
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from agent.commands_flush import flush
from agent.commands_show import show
from agent.spool import Spool
from tests.agent.machines import write_model

APP = typer.Typer()
APP.command()(show)
APP.command()(flush)


def run(*words: str, **environment: str) -> tuple[int, str]:
    result = CliRunner().invoke(APP, list(words), env=environment)
    return result.exit_code, result.output


def test_show_prints_the_spec_as_json(tmp_path: Path) -> None:
    model = write_model(tmp_path / "tiny")
    code, output = run("show", "--json", "--", "vllm", "serve", str(model), "-tp", "2", COLDCAST_NODE="rack-7")
    shown = json.loads(output)
    assert code == 0
    assert shown["spec"]["model"]["name"] == "tiny"
    assert shown["spec"]["hardware"]["gpu_count"] == 2
    assert shown["spec"]["hardware"]["node"] == "rack-7"
    assert shown["probes"]["cpu"]["success"] is True


def test_show_prints_tables_for_people_and_needs_no_command() -> None:
    code, output = run("show")
    assert code == 0
    assert "hardware.cpu_cores" in output
    assert "the command line names no model" in output


def test_flush_says_that_there_is_nothing(tmp_path: Path) -> None:
    code, output = run("flush", COLDCAST_SPOOL_DIR=str(tmp_path))
    assert (code, output) == (0, "sent 0, refused 0, waiting 0, dropped so far 0\n")


def test_flush_says_why_some_still_wait(tmp_path: Path) -> None:
    Spool(tmp_path, 10**6).put({"id": "a"})
    with socket.socket() as other:  # A port that is free again once this is closed.
        other.bind(("127.0.0.1", 0))
        port = other.getsockname()[1]
    code, output = run(
        "flush", COLDCAST_SPOOL_DIR=str(tmp_path), COLDCAST_URL=f"http://127.0.0.1:{port}", COLDCAST_SEND_SECONDS="0"
    )
    assert code == 1
    assert "waiting 1" in output
    assert "does not answer" in output


@pytest.mark.parametrize("name", ["COLDCAST_URL", "COLDCAST_SPOOL_MAX_BYTES", "COLDCAST_SEND_SECONDS"])
def test_flush_names_the_setting_that_cannot_be_used(name: str) -> None:
    code, output = run("flush", **{name: "x"})
    assert code == 2
    assert name in output
