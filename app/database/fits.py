"""Queries on fits, the champion, refits and the lease."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from sqlalchemy import delete, func, select, text, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session

from app.database.tables import ChampionRow, FitRow, LeaseRow, RefitRow
from app.errors import NotFound, NotReady
from app.schemas.fits import FitStatus, RefitOutcome

__all__ = [
    "CHAMPION_CHANNEL",
    "REFIT_CHANNEL",
    "activate_fit",
    "ask_for_refit",
    "champion",
    "champion_id",
    "find_fit",
    "find_refit",
    "finish_refits",
    "last_fingerprint",
    "list_fits",
    "publish_fit",
    "release_lease",
    "report_miss",
    "take_lease",
]

CHAMPION_CHANNEL = "coldcast_champion"
REFIT_CHANNEL = "coldcast_refit"
_LEASE = "refit"


def champion(session: Session) -> tuple[ChampionRow, FitRow]:
    """Return the champion and its fit.

    Raises:
        NotReady: there is none yet.
    """
    row = session.execute(select(ChampionRow, FitRow).join(FitRow, FitRow.id == ChampionRow.fit_id)).one_or_none()
    if row is None:
        raise NotReady
    return row[0], row[1]


def champion_id(session: Session) -> int | None:
    """Return the number of the champion, or None where there is none yet."""
    return session.scalar(select(ChampionRow.fit_id))


def list_fits(session: Session, limit: int) -> Sequence[FitRow]:
    """Return the newest fits."""
    return session.scalars(select(FitRow).order_by(FitRow.id.desc()).limit(limit)).all()


def find_fit(session: Session, fit_id: int) -> FitRow:
    """Return the fit with this number.

    Raises:
        NotFound: there is none.
    """
    row = session.get(FitRow, fit_id)
    if row is None:
        raise NotFound(f"There is no fit {fit_id}: GET /fits lists them.")
    return row


def last_fingerprint(session: Session) -> str | None:
    """Return which data the newest fit was made from, promoted or rejected."""
    return session.scalar(select(FitRow.fingerprint).order_by(FitRow.id.desc()).limit(1))


def publish_fit(session: Session, fit: FitRow, *, expected_champion: int | None, replace_pinned: bool = False) -> bool:
    """Store a fit and, where it was promoted, make it the champion if nobody else changed the champion meanwhile.

    ``replace_pinned`` is for a champion that this version cannot read: a pin that answers nothing protects nothing.

    Returns:
        Whether it answers from now on: false for a rejected fit, a pinned champion, or a lost race.
    """
    session.add(fit)
    session.flush()
    if fit.status != FitStatus.PROMOTED.value:
        return False
    if expected_champion is None:
        swap = insert(ChampionRow).values(one=True, fit_id=fit.id, pinned=False).on_conflict_do_nothing()
        won = session.execute(swap.returning(ChampionRow.fit_id)).first() is not None
    else:
        unchanged = (ChampionRow.fit_id == expected_champion) & (~ChampionRow.pinned | replace_pinned)
        new = {"fit_id": fit.id, "pinned": False, "changed_at": func.clock_timestamp()}
        change = update(ChampionRow).where(unchanged).values(new)
        won = session.execute(change.returning(ChampionRow.fit_id)).first() is not None
    if won:
        notify(session, CHAMPION_CHANNEL, str(fit.id))
    return won


def activate_fit(session: Session, fit_id: int) -> FitRow:
    """Make a fit the champion by an operator's word.

    The newest promoted fit is followed by its successors; any other is pinned, so that the next refit cannot undo a
    roll-back.
    """
    fit = find_fit(session, fit_id)
    newest = session.scalar(select(func.max(FitRow.id)).where(FitRow.status == FitStatus.PROMOTED.value))
    values = {"fit_id": fit_id, "pinned": fit_id != newest, "changed_at": datetime.now(UTC)}
    change = insert(ChampionRow).values(one=True, **values)
    session.execute(change.on_conflict_do_update(index_elements=[ChampionRow.one], set_=values))
    notify(session, CHAMPION_CHANNEL, str(fit_id))
    return fit


def ask_for_refit(session: Session) -> RefitRow:
    """Record that somebody wants a refit now, and wake the refit process."""
    row = RefitRow()
    session.add(row)
    session.flush()
    notify(session, REFIT_CHANNEL, str(row.id))
    return row


def report_miss(session: Session) -> None:
    """Wake the refit process, to look whether something drifts: a measurement lies outside of its bounds."""
    notify(session, REFIT_CHANNEL, "miss")


def find_refit(session: Session, refit_id: int) -> RefitRow:
    """Return the refit with this number."""
    return session.get_one(RefitRow, refit_id)


def open_refits(session: Session) -> list[int]:
    """Return the refits that were asked for and are not done."""
    return list(session.scalars(select(RefitRow.id).where(RefitRow.finished_at.is_(None))))


def finish_refits(
    session: Session, refit_ids: Sequence[int], outcome: RefitOutcome, reason: str, fit_id: int | None
) -> None:
    """Answer the refits that were asked for before the data was read."""
    session.execute(
        update(RefitRow)
        .where(RefitRow.id.in_(refit_ids))
        .values(finished_at=func.clock_timestamp(), outcome=outcome.value, reason=reason, fit_id=fit_id)
    )


def take_lease(session: Session, holder: str, lasting: timedelta) -> bool:
    """Take or renew the refit lease; false where another holder has it and it has not expired."""
    expires_at = func.clock_timestamp() + lasting
    take = insert(LeaseRow).values(name=_LEASE, holder=holder, expires_at=expires_at)
    free = (LeaseRow.expires_at < func.clock_timestamp()) | (LeaseRow.holder == holder)
    take = take.on_conflict_do_update(
        index_elements=[LeaseRow.name], set_={"holder": holder, "expires_at": expires_at}, where=free
    )
    return session.execute(take.returning(LeaseRow.holder)).first() is not None


def release_lease(session: Session, holder: str) -> None:
    """Give the lease back, if it is still this holder's."""
    session.execute(delete(LeaseRow).where(LeaseRow.name == _LEASE, LeaseRow.holder == holder))


def notify(session: Session, channel: str, payload: str) -> None:
    """NOTIFY on commit, with an id alone as payload."""
    session.execute(text("SELECT pg_notify(:channel, :payload)"), {"channel": channel, "payload": payload})
