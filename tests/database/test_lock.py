"""One service a data directory."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from app.database.lock import hold
from app.errors import DataDirectoryBusy

HOLDER = """
import sys
from pathlib import Path
from app.database.lock import hold
with hold(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_a_second_holder_is_told_who_holds_it(tmp_path: Path) -> None:
    with hold(tmp_path / "new"):
        with (
            pytest.raises(DataDirectoryBusy, match=f"Process {os.getpid()} .*COLDCAST_DATA_DIR"),
            hold(tmp_path / "new"),
        ):
            pass
        with hold(tmp_path / "other"):
            pass
    with hold(tmp_path / "new"):
        pass


def test_a_killed_holder_holds_nothing(tmp_path: Path) -> None:
    command = [sys.executable, "-c", HOLDER, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        assert process.stdout.readline() == "held\n"
        with pytest.raises(DataDirectoryBusy, match=f"Process {process.pid} "), hold(tmp_path):
            pass
        process.send_signal(signal.SIGKILL)
        process.wait()
    with hold(tmp_path):
        pass
