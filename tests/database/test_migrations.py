"""The migrations: up, down and up again, and in step with the tables in code."""

from alembic import command
from sqlalchemy import Engine, inspect

from app.database.engine import make_database_engine, sessions_of
from app.database.migrate import alembic_config, upgrade
from app.database.tables import Base
from app.importing import import_reference
from tests.concurrency import at_once


def tables(engine: Engine) -> set[str]:
    return set(inspect(engine).get_table_names()) - {"alembic_version"}


def test_up_down_and_up_again(empty_database: str) -> None:
    engine = make_database_engine(empty_database)
    upgrade(engine)
    assert tables(engine) == set(Base.metadata.tables)
    import_reference(sessions_of(engine))  # Going down must not stumble over rows.
    command.downgrade(alembic_config(engine), "base")
    assert tables(engine) == set()
    upgrade(engine)
    assert tables(engine) == set(Base.metadata.tables)


def test_the_tables_in_code_are_those_of_the_migrations(engine: Engine) -> None:
    command.check(alembic_config(engine))


def test_two_upgrades_at_once_wait_for_each_other(empty_database: str) -> None:
    engines = [make_database_engine(empty_database) for _ in range(3)]
    at_once([lambda engine=engine: upgrade(engine) for engine in engines])
    assert tables(engines[0]) == set(Base.metadata.tables)


def test_every_constraint_follows_the_naming_convention(engine: Engine) -> None:
    inspector = inspect(engine)
    for table in Base.metadata.tables:
        names = [inspector.get_pk_constraint(table)["name"]]
        names += [key["name"] for key in inspector.get_foreign_keys(table)]
        names += [check["name"] for check in inspector.get_check_constraints(table)]
        names += [index["name"] for index in inspector.get_indexes(table)]
        assert all(name and name.split("_", 1)[1].startswith(table) for name in names), names
