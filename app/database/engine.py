"""Connections: one engine a process, sessions that commit at the edge, and foreign errors mapped in one place."""

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
from sqlalchemy import Engine, create_engine
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError
from sqlalchemy.orm import Session, sessionmaker
from sqlalchemy.pool import NullPool, QueuePool

from app.errors import DatabaseUnavailable, SettingsError

__all__ = ["Sessions", "database_errors", "make_database_engine", "psycopg_url", "sessions_of"]

Sessions = sessionmaker[Session]

CONNECT_SECONDS = 5
LOCK_MILLISECONDS = 4_000
IDLE_TRANSACTION_MILLISECONDS = 60_000  # A worker that hangs in a transaction must not hold its locks for ever.


def make_database_engine(url: str, *, pool_size: int = 0, statement_timeout_ms: int = 15_000) -> Engine:
    """Build an engine on Postgres through psycopg 3; ``pool_size`` 0 opens a connection each time (commands).

    Raises:
        SettingsError: ``url`` names no Postgres.
    """
    options = {
        "statement_timeout": statement_timeout_ms,
        "lock_timeout": LOCK_MILLISECONDS,
        "idle_in_transaction_session_timeout": IDLE_TRANSACTION_MILLISECONDS,
    }
    return create_engine(
        _parsed(url).set(drivername="postgresql+psycopg"),
        connect_args={
            "connect_timeout": CONNECT_SECONDS,
            "application_name": "coldcast",
            "options": " ".join(f"-c {name}={value}" for name, value in options.items()),
        },
        **(
            {
                "poolclass": QueuePool,
                "pool_size": pool_size,
                "max_overflow": 0,
                "pool_pre_ping": True,
                "pool_timeout": 5,
            }
            if pool_size
            else {"poolclass": NullPool}
        ),
    )


def sessions_of(engine: Engine) -> Sessions:
    """Return the factory of sessions on ``engine``; use ``sessions.begin()`` so that leaving the block commits."""
    return sessionmaker(engine, expire_on_commit=False)


def psycopg_url(url: str) -> str:
    """Return ``url`` as libpq reads it, for a connection that LISTENs."""
    return _parsed(url).set(drivername="postgresql").render_as_string(hide_password=False)


def _parsed(url: str) -> URL:
    try:
        parsed = make_url(url)
        if parsed.get_backend_name() in ("postgresql", "postgres"):
            return parsed
    except ArgumentError:
        pass
    raise SettingsError("DATABASE_URL names no Postgres: write postgresql://USER:PASSWORD@HOST:PORT/NAME.")


@contextmanager
def database_errors() -> Iterator[None]:
    """Turn "Postgres does not answer" of every layer into DatabaseUnavailable; any other error is a defect."""
    try:
        yield
    except (OperationalError, PoolTimeoutError, psycopg.OperationalError) as error:
        raise DatabaseUnavailable from error
    except DBAPIError as error:
        if error.connection_invalidated:
            raise DatabaseUnavailable from error
        raise
