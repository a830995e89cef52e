"""The embedded Postgres: started, stopped, taken over, and never blocked by what a predecessor left."""

from pathlib import Path

import psutil
import pytest
from sqlalchemy import text

from app.database import embedded
from app.database.embedded import embedded_postgres
from app.database.engine import make_database_engine


def ask(url: str, statement: str) -> object:
    with make_database_engine(url).begin() as connection:
        result = connection.execute(text(statement))
        return result.scalar() if result.returns_rows else None


def postmaster(data_dir: Path) -> psutil.Process:
    return psutil.Process(int((data_dir / "postgres" / "postmaster.pid").read_text().split("\n", 1)[0]))


def test_what_was_stored_is_there_after_a_restart(data_dir: Path) -> None:
    with embedded_postgres(data_dir) as url:
        assert str(ask(url, "SELECT version()")).startswith("PostgreSQL 1")
        ask(url, "CREATE TABLE kept AS SELECT 7 AS seven")
        process = postmaster(data_dir)
    assert not process.is_running() or process.status() == psutil.STATUS_ZOMBIE
    with embedded_postgres(data_dir) as url:
        assert ask(url, "SELECT seven FROM kept") == 7


def test_it_listens_on_no_port(data_dir: Path) -> None:
    with embedded_postgres(data_dir) as url:
        assert ask(url, "SHOW listen_addresses") == ""


def test_a_killed_server_is_started_again(data_dir: Path) -> None:
    with embedded_postgres(data_dir) as url:
        ask(url, "CREATE TABLE kept AS SELECT 7 AS seven")
        family = [postmaster(data_dir), *postmaster(data_dir).children()]
        for process in family:
            process.kill()
        psutil.wait_procs(family, 30)
        with embedded_postgres(data_dir) as again:
            assert ask(again, "SELECT seven FROM kept") == 7


@pytest.mark.parametrize("content", ["", "nonsense", "1\n/elsewhere\n", "999999999\n/elsewhere\n"])
def test_a_stale_pid_file_blocks_no_start(data_dir: Path, content: str) -> None:
    with embedded_postgres(data_dir) as url:
        ask(url, "SELECT 1")
    (data_dir / "postgres" / "postmaster.pid").write_text(content)
    with embedded_postgres(data_dir) as url:
        assert ask(url, "SELECT 1") == 1


def test_a_cluster_whose_making_was_cut_off_is_made_anew(data_dir: Path) -> None:
    folder = data_dir / "postgres"
    folder.mkdir(parents=True)
    (folder / "PG_VERSION").write_text("18\n")
    with embedded_postgres(data_dir) as url:
        assert ask(url, "SELECT 1") == 1


def test_a_finished_cluster_is_never_removed(data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with embedded_postgres(data_dir) as url:
        ask(url, "SELECT 1")
    (data_dir / "postgres" / "global" / "pg_control").unlink()
    monkeypatch.setattr(embedded, "ATTEMPTS", 1)  # It cannot succeed: no need to try for half a minute.
    with pytest.raises(embedded.DatabaseUnavailable, match="log says why"), embedded_postgres(data_dir):
        pass
    assert (data_dir / "postgres" / "base").is_dir()
