"""Alembic's environment: online only, on the engine that `app.database.migrate` hands over, or on DATABASE_URL."""

import os

from alembic import context
from sqlalchemy import Engine

from app.database.engine import make_database_engine
from app.database.tables import Base


def run(engine: Engine) -> None:
    """Run the migrations that were asked for in one transaction."""
    with engine.begin() as connection:
        context.configure(connection=connection, target_metadata=Base.metadata, compare_server_default=True)
        with context.begin_transaction():
            context.run_migrations()


run(context.config.attributes.get("engine") or make_database_engine(os.environ["DATABASE_URL"]))
