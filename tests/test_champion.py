"""The champion in memory: swapped whole, kept on any failure."""

import pytest

from app.champion import Champion
from app.database.engine import Sessions, make_database_engine, sessions_of
from app.database.fits import publish_fit
from app.database.tables import FitRow
from app.errors import NotReady


def test_no_champion_is_not_ready(empty_sessions: Sessions) -> None:
    champion = Champion(empty_sessions)
    champion.reload()
    assert not champion.loaded
    assert champion.fit_id is champion.fitted_at is None
    with pytest.raises(NotReady):
        champion.predictor()


def test_reloading_the_same_champion_keeps_the_predictor(sessions: Sessions) -> None:
    champion = Champion(sessions)
    champion.reload()
    predictor = champion.predictor()
    champion.reload()
    assert champion.predictor() is predictor
    assert champion.database_ok


def test_a_fit_that_cannot_be_read_leaves_the_old_one(sessions: Sessions) -> None:
    champion = Champion(sessions)
    champion.reload()
    predictor, fit_id = champion.predictor(), champion.fit_id
    with sessions.begin() as session:
        row = FitRow(
            status="promoted",
            reason="r",
            fingerprint="f",
            measurements=1,
            content={"format_version": 999},
            scores={},
            left_out=[],
        )
        assert publish_fit(session, row, expected_champion=fit_id)
    champion.reload()
    assert champion.predictor() is predictor
    assert champion.fit_id == fit_id


def test_a_database_that_is_away_leaves_the_old_one(sessions: Sessions) -> None:
    champion = Champion(sessions)
    champion.reload()
    predictor = champion.predictor()
    champion.sessions = sessions_of(make_database_engine("postgresql://postgres@127.0.0.1:1/nowhere"))
    champion.reload()
    assert champion.predictor() is predictor
    assert not champion.database_ok
    champion.sessions = sessions
    champion.reload()
    assert champion.database_ok
