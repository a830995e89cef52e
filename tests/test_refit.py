"""refit_once(): one at a time, publishing by compare and swap, and telling what came of it."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import func, select, update

from app.champion import Champion
from app.database import fits
from app.database.engine import Sessions
from app.database.listen import listening
from app.database.tables import ChampionRow, FitRow, LeaseRow, MeasurementRow, RefitRow
from app.prediction.recipe import Recipe
from app.refit import RefitReport, refit_every, refit_once
from app.schemas.records import MeasurementStatus
from app.settings import Settings
from tests.concurrency import at_once
from tests.conftest import running_app
from tests.factories import make_measurement, make_spec, store
from tests.waiting import eventually

QUICK = Recipe(rounds=1, folds=2)  # What a fit is worth is no question here.


def refit(sessions: Sessions) -> RefitReport | None:
    return refit_once(sessions, recipe=QUICK)


def champion_id(sessions: Sessions) -> int | None:
    with sessions() as session:
        return fits.champion_id(session)


def ask(sessions: Sessions) -> int:
    with sessions.begin() as session:
        return fits.ask_for_refit(session).id


def refit_row(sessions: Sessions, refit_id: int) -> RefitRow:
    with sessions() as session:
        return fits.find_refit(session, refit_id)


def fits_stored(sessions: Sessions) -> int:
    with sessions() as session:
        return session.scalar(select(func.count()).select_from(FitRow)) or 0


@pytest.fixture
def few_sessions(own_sessions: Sessions) -> Sessions:
    """A database with few reference measurements, so that a fit takes a moment, and no fit yet."""
    with own_sessions.begin() as session:
        kept = select(MeasurementRow.id).where(MeasurementRow.reference).order_by(MeasurementRow.id).limit(12)
        session.execute(MeasurementRow.__table__.delete().where(MeasurementRow.id.not_in(kept)))
        session.execute(ChampionRow.__table__.delete())
        session.execute(FitRow.__table__.delete())
    return own_sessions


def test_the_first_refit_is_promoted_and_the_next_finds_nothing_new(few_sessions: Sessions) -> None:
    first = refit(few_sessions)
    assert first is not None
    assert first.outcome == "promoted"
    assert champion_id(few_sessions) == first.fit_id
    again = refit(few_sessions)
    assert again is not None
    assert again.outcome == "nothing_new"
    assert again.fit_id == first.fit_id
    assert fits_stored(few_sessions) == 1


def test_nothing_to_fit_is_nothing_new(few_sessions: Sessions) -> None:
    with few_sessions.begin() as session:
        session.execute(MeasurementRow.__table__.delete())
    report = refit(few_sessions)
    assert report is not None
    assert (report.outcome, report.fit_id) == ("nothing_new", None)


def test_a_new_measurement_or_another_recipe_is_something_new(few_sessions: Sessions) -> None:
    refit(few_sessions)
    store(few_sessions, make_measurement())
    report = refit(few_sessions)
    assert report is not None
    assert report.outcome in ("promoted", "rejected")
    store(few_sessions, make_measurement(outcome="failed"))
    report = refit(few_sessions)
    assert report is not None
    assert report.outcome == "nothing_new"
    report = refit_once(few_sessions, recipe=replace(QUICK, floor_seconds=0.2))
    assert report is not None
    assert report.outcome in ("promoted", "rejected")


def test_the_lease_keeps_a_second_one_out(few_sessions: Sessions) -> None:
    with few_sessions.begin() as session:
        assert fits.take_lease(session, "another", timedelta(minutes=1))
    assert refit(few_sessions) is None
    with few_sessions.begin() as session:
        fits.release_lease(session, "a third one")  # Only its holder gives it back.
    assert refit(few_sessions) is None
    with few_sessions.begin() as session:
        fits.release_lease(session, "another")
    assert refit(few_sessions) is not None


def test_an_expired_lease_is_taken_over(few_sessions: Sessions) -> None:
    with few_sessions.begin() as session:
        fits.take_lease(session, "one that died", timedelta(minutes=1))
        session.execute(update(LeaseRow).values(expires_at=func.clock_timestamp() - timedelta(seconds=1)))
    assert refit(few_sessions) is not None


def test_the_lease_is_given_back_also_after_a_failure(few_sessions: Sessions) -> None:
    with few_sessions.begin() as session:
        session.execute(update(MeasurementRow).values(reporter="x"))
        session.execute(FitRow.__table__.delete())
    with suppress(TypeError):
        refit_once(few_sessions, recipe="no recipe")  # type: ignore[arg-type]
    with few_sessions() as session:
        assert session.scalar(select(func.count()).select_from(LeaseRow)) == 0


def test_of_two_at_once_one_refits(few_sessions: Sessions) -> None:
    reports = at_once([lambda: refit(few_sessions)] * 3)
    assert [r.outcome for r in reports if r is not None].count("promoted") == 1
    assert fits_stored(few_sessions) == 1


def test_refits_that_were_asked_for_are_answered(few_sessions: Sessions) -> None:
    first, second = ask(few_sessions), ask(few_sessions)
    report = refit(few_sessions)
    assert report is not None
    for refit_id in (first, second):
        row = refit_row(few_sessions, refit_id)
        assert (row.outcome, row.reason, row.fit_id) == (report.outcome, report.reason, report.fit_id)
        assert row.finished_at is not None
        assert row.finished_at > row.requested_at
    third = ask(few_sessions)
    refit(few_sessions)
    assert refit_row(few_sessions, third).outcome == "nothing_new"


def publish(sessions: Sessions, expected: int | None, *, status: str = "promoted") -> tuple[int, bool]:
    with sessions.begin() as session:
        row = FitRow(status=status, reason="r", fingerprint="f", measurements=1, content={}, scores={}, left_out=[])
        won = fits.publish_fit(session, row, expected_champion=expected)
        return row.id, won


def test_a_lost_race_publishes_nothing(few_sessions: Sessions) -> None:
    first, won = publish(few_sessions, None)
    assert won
    second, won = publish(few_sessions, first)
    assert won
    late, won = publish(few_sessions, first)
    assert not won
    assert champion_id(few_sessions) == second
    _, won = publish(few_sessions, None)  # It began before there was any champion.
    assert not won
    assert champion_id(few_sessions) == second
    assert late != second


def test_of_ten_first_fits_at_once_one_answers(few_sessions: Sessions) -> None:
    results = at_once([lambda: publish(few_sessions, None)] * 10)
    (winner,) = [fit_id for fit_id, won in results if won]
    assert champion_id(few_sessions) == winner


def test_a_rejected_fit_never_answers(few_sessions: Sessions) -> None:
    first, _ = publish(few_sessions, None)
    _, won = publish(few_sessions, first, status="rejected")
    assert not won
    assert champion_id(few_sessions) == first


def test_a_pinned_champion_stays(few_sessions: Sessions) -> None:
    first, _ = publish(few_sessions, None)
    second, _ = publish(few_sessions, first)
    with few_sessions.begin() as session:
        fits.activate_fit(session, first)
    third, won = publish(few_sessions, first)
    assert not won
    assert champion_id(few_sessions) == first
    with few_sessions.begin() as session:
        fits.activate_fit(session, third)
    fourth, won = publish(few_sessions, third)
    assert won
    assert champion_id(few_sessions) == fourth
    assert second != fourth


def test_a_refit_beside_a_pinned_champion_says_so(few_sessions: Sessions) -> None:
    refit(few_sessions)
    with few_sessions.begin() as session:
        session.execute(update(ChampionRow).values(pinned=True))
    before = champion_id(few_sessions)
    store(few_sessions, make_measurement())
    report = refit(few_sessions)
    assert report is not None
    assert report.outcome == "rejected"
    assert champion_id(few_sessions) == before


def test_what_this_version_cannot_read_is_left_out_with_the_reason(few_sessions: Sessions) -> None:
    (bad,) = store(few_sessions, make_measurement())
    with few_sessions.begin() as session:
        row = session.scalars(select(MeasurementRow).where(MeasurementRow.id == bad)).one()
        row.content = {**row.content, "total_seconds": -1}
    report = refit(few_sessions)
    assert report is not None
    with few_sessions() as session:
        fit = fits.find_fit(session, report.fit_id or 0)
    (entry,) = [left for left in fit.left_out if left["key"] == f"test/{bad}"]
    assert "not valid" in entry["reason"]


@pytest.mark.parametrize("pinned", [False, True])
def test_a_champion_of_another_format_is_replaced(few_sessions: Sessions, pinned: bool) -> None:
    with few_sessions.begin() as session:
        row = FitRow(
            status="promoted",
            reason="r",
            fingerprint="f",
            measurements=1,
            content={"format_version": 999},
            scores={},
            left_out=[],
        )
        fits.publish_fit(session, row, expected_champion=None)
        session.execute(update(ChampionRow).values(pinned=pinned))
    report = refit(few_sessions)
    assert report is not None
    assert report.outcome == "promoted"
    assert champion_id(few_sessions) == report.fit_id


def test_the_gate_compares_candidate_and_champion(few_sessions: Sessions) -> None:
    refit(few_sessions)
    store(few_sessions, make_measurement())
    report = refit(few_sessions)
    assert report is not None
    with few_sessions() as session:
        fit = fits.find_fit(session, report.fit_id or 0)
    assert fit.scores["candidate"]
    assert fit.scores["champion"]
    assert fit.reason


def test_the_same_measurements_make_the_same_fit(few_sessions: Sessions) -> None:
    def content(report: Any) -> dict[str, Any]:
        with few_sessions() as session:
            return fits.find_fit(session, report.fit_id).content

    first = content(refit(few_sessions))
    with few_sessions.begin() as session:
        session.execute(update(FitRow).values(fingerprint="another"))
    assert content(refit(few_sessions)) == first


def test_a_refit_releases_what_two_others_agree_with(few_sessions: Sessions) -> None:
    specs = [make_spec(hardware={"gpu": "NVIDIA H100 NVL", "node": node}) for node in "abc"]
    (suspect,) = store(few_sessions, make_measurement(spec=specs[0]), status=MeasurementStatus.QUARANTINED)
    store(few_sessions, *(make_measurement(spec=spec) for spec in specs[1:]))
    refit(few_sessions)
    with few_sessions() as session:
        row = session.scalars(select(MeasurementRow).where(MeasurementRow.id == suspect)).one()
    assert (row.status, row.status_reason) == ("accepted", "two other reporters agree")


@contextmanager
def refitting(sessions: Sessions, url: str) -> Iterator[None]:
    """Run the loop with an interval that no test lives to see, and wait until it has made its first fit."""
    stop = threading.Event()
    loop = threading.Thread(target=refit_every, args=[sessions, url, 3600.0, stop])
    loop.start()
    try:
        eventually(lambda: champion_id(sessions))
        yield
    finally:
        stop.set()
        loop.join(30)
    assert not loop.is_alive()


def test_the_loop_refits_when_it_is_asked(own_database: str, few_sessions: Sessions) -> None:
    with refitting(few_sessions, own_database):
        asked = ask(few_sessions)
        assert eventually(lambda: refit_row(few_sessions, asked).outcome) == "nothing_new"


@pytest.mark.parametrize("batch", [False, True])
def test_the_loop_refits_when_something_begins_to_drift(own_database: str, few_sessions: Sessions, batch: bool) -> None:
    # The chance that none of three lies inside of 90 % bounds is 0.001, of four 0.0001: the fourth is a drift.
    wires = [make_measurement(total_seconds=3000.0 + n, spec=make_spec(hardware="NVIDIA L40S")) for n in range(4)]
    with refitting(few_sessions, own_database), running_app(Settings(database_url=own_database)) as client:
        if batch:
            client.post("/measurements/batch", json={"measurements": wires}).raise_for_status()
        else:
            for wire in wires:
                client.post("/measurements", json=wire).raise_for_status()
        assert eventually(lambda: fits_stored(few_sessions) == 2)


def test_a_notification_swaps_the_champion_in_memory(own_database: str, few_sessions: Sessions) -> None:
    refit(few_sessions)
    champion = Champion(few_sessions)
    champion.reload()
    first, swapped = champion.fit_id, threading.Event()

    def reload() -> None:
        champion.reload()
        if champion.fit_id != first:
            swapped.set()

    with listening(own_database, fits.CHAMPION_CHANNEL, reload, poll_seconds=3600):
        eventually(lambda: listeners(few_sessions))
        store(few_sessions, *(make_measurement() for _ in range(3)))
        report = refit(few_sessions)
        assert report is not None
        if report.outcome != "promoted":  # The gate may prefer the old one; an operator then does the swap.
            with few_sessions.begin() as session:
                fits.activate_fit(session, report.fit_id or 0)
        assert swapped.wait(30)
    assert champion.fit_id == report.fit_id


def listeners(sessions: Sessions) -> int:
    with sessions() as session:
        query = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'LISTEN%' AND datname = current_database()"
        return session.connection().exec_driver_sql(query.replace("%", "%%")).scalar_one()
