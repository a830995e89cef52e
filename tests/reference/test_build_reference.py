"""The shipped file is what the script makes of the tables, byte for byte."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SHIPPED = ROOT / "app" / "reference" / "measurements.json"


def test_rebuilding_gives_the_shipped_file(shared: Path, tmp_path: Path) -> None:
    output = tmp_path / "measurements.json"
    command = [sys.executable, ROOT / "scripts" / "build_reference.py", "--tables", shared / "data" / "paper"]
    subprocess.run([*command, "--output", output], check=True, env={**os.environ, "PYTHONPATH": str(ROOT)})
    assert output.read_bytes() == SHIPPED.read_bytes()


def test_a_measurement_takes_a_line() -> None:
    lines = SHIPPED.read_text().splitlines()
    rows = [line for line in lines if line.startswith('{"model":')]
    assert lines[lines.index(rows[0]) :] == [*rows, "]}"]
