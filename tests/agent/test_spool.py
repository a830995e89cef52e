"""The spool: whole files or none, bounded, shared by several agents."""

import json
import multiprocessing
from pathlib import Path

import pytest

from agent.spool import Spool


def measurement(number: int, *, padding: int = 0) -> dict[str, object]:
    return {"id": f"m-{number}", "number": number, "padding": "x" * padding}


def numbers(spool: Spool) -> list[object]:
    return [found["number"] for path in spool.waiting() if (found := spool.read(path))]


def put_many(folder: Path, first: int, count: int) -> None:
    spool = Spool(folder, max_bytes=10**9)
    for number in range(first, first + count):
        spool.put(measurement(number))


def test_gives_back_what_was_put_oldest_first(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "spool", max_bytes=10**6)
    for number in range(3):
        spool.put(measurement(number))
    assert numbers(spool) == [0, 1, 2]


def test_a_spool_that_was_never_used_is_empty(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "spool", max_bytes=10**6)
    assert spool.waiting() == []
    assert spool.dropped == 0
    assert not spool.folder.exists()


def test_over_its_bound_the_oldest_go_and_are_counted(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    # Each file is a little over 1,000 bytes, so three fit into 4,000 and the fourth drops one.
    spool = Spool(tmp_path, max_bytes=4000)
    for number in range(6):
        spool.put(measurement(number, padding=1000))
    assert numbers(spool) == [3, 4, 5]
    assert spool.dropped == Spool(tmp_path, max_bytes=1).dropped == 3
    assert "measurements_dropped count=1" in caplog.text


def test_a_measurement_larger_than_the_bound_is_still_kept(tmp_path: Path) -> None:
    spool = Spool(tmp_path, max_bytes=100)
    spool.put(measurement(1))
    spool.put(measurement(2, padding=1000))
    assert numbers(spool) == [2]


def test_what_a_crash_left_half_written_is_no_measurement(tmp_path: Path) -> None:
    (tmp_path / "00000000000000000001-abc.part").write_text('{"id": "m-')
    spool = Spool(tmp_path, max_bytes=10**6)
    assert spool.waiting() == []
    spool.put(measurement(1))
    assert numbers(spool) == [1]
    assert not list(tmp_path.glob("*.part"))


@pytest.mark.parametrize("content", [b"", b'{"id": "m-', b"\x00" * 20, b"[1]", b"\xff\xfe"])
def test_a_damaged_file_moves_to_refused_and_is_not_thrown_away(tmp_path: Path, content: bytes) -> None:
    spool = Spool(tmp_path, max_bytes=10**6)
    path = tmp_path / "00000000000000000001-abc.json"
    path.write_bytes(content)
    assert spool.read(path) is None
    assert spool.waiting() == []
    assert (tmp_path / "refused" / path.name).read_bytes() == content
    assert "damaged" in (tmp_path / "refused" / f"{path.stem}.problem.json").read_text()


def test_refused_ones_lie_beside_their_problem(tmp_path: Path) -> None:
    spool = Spool(tmp_path, max_bytes=10**6)
    path = spool.put(measurement(7))
    spool.refuse(path, {"title": "The id is taken", "status": 409})
    assert spool.waiting() == []
    assert json.loads((tmp_path / "refused" / path.name).read_text())["number"] == 7
    assert json.loads((tmp_path / "refused" / f"{path.stem}.problem.json").read_text())["status"] == 409


def test_what_another_agent_took_away_is_no_error(tmp_path: Path) -> None:
    spool = Spool(tmp_path, max_bytes=10**6)
    path = spool.put(measurement(1))
    Spool(tmp_path, max_bytes=10**6).remove(path)
    assert spool.read(path) is None
    spool.remove(path)
    spool.refuse(path, {})
    assert not (tmp_path / "refused").exists()


def test_what_is_no_json_is_refused_before_it_reaches_the_disk(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="JSON"):
        Spool(tmp_path, max_bytes=10**6).put({"id": "m-1", "total_seconds": float("nan")})
    assert list(tmp_path.iterdir()) == []


def test_two_agents_at_once_lose_nothing(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    agents = [context.Process(target=put_many, args=(tmp_path, first, 30)) for first in (0, 100)]
    for agent in agents:
        agent.start()
    for agent in agents:
        agent.join(60)
    assert [agent.exitcode for agent in agents] == [0, 0]
    assert sorted(map(int, map(str, numbers(Spool(tmp_path, max_bytes=10**9))))) == [*range(30), *range(100, 130)]
