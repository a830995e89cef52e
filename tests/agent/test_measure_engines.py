"""The script that measures real vLLM releases, as far as that takes no release."""

from pathlib import Path
from typing import Any

import pytest

from scripts.measure_engines import main, remarks, table


def measurement(**fields: Any) -> dict[str, Any]:
    row = {"outcome": "ready", "total_seconds": 10.0, "stages": {}, "parts": {}, "facts": {"hook_seconds": 0.05}}
    return row | fields


def test_what_a_release_did_not_show_is_a_dash_and_no_zero() -> None:
    whole = measurement(stages={"model_loading": 3.0, "cuda_graph_capture": 0.0}, parts={"weight_loading": 2.5})
    lines = table({"1 first": whole, "1 second": measurement()})
    assert lines[0] == "| | 1 first | 1 second |"
    assert "| **model_loading** | 3.00 | - |" in lines
    assert "| weight_loading | 2.50 | - |" in lines
    assert "| **cuda_graph_capture** | 0.00 | - |" in lines
    assert lines[-2:] == ["| **total** | 10.00 | 10.00 |", "| hook's own | 0.050 | 0.050 |"]


def test_errors_and_notes_are_told_beside_the_table() -> None:
    facts = {
        "hook_seconds": 0.0,
        "last_error": "ImportError: no",
        "notes": ["this vLLM lacks, in process 7: tokenizer"],
    }
    said = remarks({"1 first": measurement(facts=facts), "1 second": measurement()})
    assert said == ["- 1 first: ImportError: no", "- 1 first: this vLLM lacks, in process 7: tokenizer"]


def test_a_release_that_cannot_be_started_or_is_not_known_ends_in_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "0.1").mkdir()
    assert main(tmp_path, ["0.1", "0.2"]) == 1
    printed = capsys.readouterr().out
    assert "0.1 was not measured: " in printed
    assert "0.2 is not among RELEASES" in printed
    assert (tmp_path / "0.1").exists()  # Whoever made it may want it.
