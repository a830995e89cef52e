"""Bringing the tables to the newest version."""

from alembic import command
from alembic.config import Config
from sqlalchemy import Engine, text

import migrations

__all__ = ["alembic_config", "upgrade"]

_MIGRATION_LOCK = 7_209_411  # Any constant: it tells our advisory lock from others'.


def alembic_config(engine: Engine) -> Config:
    """Return Alembic's configuration for ``engine``; the scripts come with the package."""
    config = Config()
    config.set_main_option("script_location", next(iter(migrations.__path__)))
    config.attributes["engine"] = engine
    return config


def upgrade(engine: Engine) -> None:
    """Bring the tables to the newest version; two at once wait for each other."""
    with engine.connect() as guard:
        guard.execute(text("SET lock_timeout = 0"))
        guard.execute(text("SET statement_timeout = 0"))
        guard.execute(text("SELECT pg_advisory_lock(:key)"), {"key": _MIGRATION_LOCK})
        guard.commit()
        try:
            command.upgrade(alembic_config(engine), "head")
        finally:
            guard.execute(text("SELECT pg_advisory_unlock(:key)"), {"key": _MIGRATION_LOCK})
            guard.commit()
