"""The environment, read once."""

from pathlib import Path

import pytest

from app.errors import SettingsError
from app.settings import Settings


def test_an_empty_environment_serves_on_this_machine_alone() -> None:
    settings = Settings.from_environment({})
    assert (settings.host, settings.port, settings.database_url) == ("127.0.0.1", 8000, None)
    assert settings.data_dir == Path(".coldcast")


def test_every_variable() -> None:
    settings = Settings.from_environment(
        {
            "DATABASE_URL": "postgresql://a",
            "COLDCAST_LISTEN_URL": "postgresql://b",
            "COLDCAST_HOST": "0.0.0.0",
            "COLDCAST_PORT": "0",
            "COLDCAST_DATA_DIR": "~/data",
            "COLDCAST_REFIT_SECONDS": "1.5",
            "COLDCAST_POOL_SIZE": "3",
            "COLDCAST_STATEMENT_TIMEOUT_MS": "2000",
        }
    )
    assert settings == Settings("postgresql://a", "postgresql://b", "0.0.0.0", 0, Path.home() / "data", 1.5, 3, 2000)


def test_empty_variables_are_unset_ones() -> None:
    names = ("DATABASE_URL", "COLDCAST_PORT", "COLDCAST_DATA_DIR", "COLDCAST_LISTEN_URL", "COLDCAST_HOST")
    assert Settings.from_environment(dict.fromkeys(names, "")) == Settings()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("COLDCAST_PORT", "http"),
        ("COLDCAST_PORT", "65536"),
        ("COLDCAST_PORT", "-1"),
        ("COLDCAST_PORT", "80.5"),
        ("COLDCAST_REFIT_SECONDS", "nan"),
        ("COLDCAST_REFIT_SECONDS", "0"),
        ("COLDCAST_POOL_SIZE", "0"),
        ("COLDCAST_STATEMENT_TIMEOUT_MS", "inf"),
    ],
)
def test_a_bad_value_is_named(name: str, value: str) -> None:
    with pytest.raises(SettingsError, match=name):
        Settings.from_environment({name: value})


def test_the_database_url_is_not_shown() -> None:
    assert "secret" not in repr(Settings.from_environment({"DATABASE_URL": "postgresql://a:secret@b"}))
