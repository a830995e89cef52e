"""The database that a command works on, and what every fresh one needs."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from rich.console import Console

from app.database.embedded import embedded_postgres
from app.database.engine import Sessions, database_errors, make_database_engine, sessions_of
from app.database.fits import champion_id
from app.database.lock import hold
from app.database.migrate import upgrade
from app.importing import import_reference
from app.refit import refit_once
from app.settings import Settings

__all__ = ["database", "prepare", "sessions"]


@contextmanager
def database(settings: Settings) -> Iterator[Settings]:
    """Yield settings that name a running Postgres: the one of DATABASE_URL, or the embedded one, stopped on leaving.

    Raises:
        DataDirectoryBusy: another process runs the embedded one.
    """
    if settings.database_url is not None:
        yield settings
        return
    with hold(settings.data_dir), embedded_postgres(settings.data_dir) as url:
        yield replace(settings, database_url=url)


@contextmanager
def sessions(settings: Settings) -> Iterator[Sessions]:
    """Yield sessions on the database of ``settings``, which is started where it has to be."""
    with database(settings) as running:
        assert running.database_url is not None  # noqa: S101 (database() has set it)
        engine = make_database_engine(running.database_url, statement_timeout_ms=settings.statement_timeout_ms)
        with database_errors():
            yield sessions_of(engine)


def prepare(sessions: Sessions, console: Console) -> None:
    """Bring the tables up to date, import the reference measurements, and make the first fit where there is none."""
    engine = sessions.kw["bind"]
    with console.status("Bringing the tables up to date …"):
        upgrade(engine)
    with console.status("Importing the reference measurements …"):
        imported = import_reference(sessions)
    console.print(
        f"Tables are up to date; {imported.created} reference measurements are new, {imported.unchanged} known."
    )
    with sessions() as session:
        fitted = champion_id(session) is not None
    if not fitted:
        with console.status("Making the first fit …"):
            report = refit_once(sessions)
        console.print(f"The first fit: {report.reason if report else 'another process is making it'}.")
