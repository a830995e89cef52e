"""The environment, read once."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from app.errors import SettingsError

__all__ = ["Settings"]


@dataclass(frozen=True)
class Settings:
    """How this process runs.

    Attributes:
        database_url: Postgres to use; None starts the embedded one in ``data_dir``.
        listen_url: direct Postgres URL for LISTEN, where ``database_url`` goes through a pooler.
        host, port: where the API listens.
        data_dir: where the embedded Postgres and the lock lie.
        refit_seconds: seconds between refits.
        pool_size: database connections of one API process.
        statement_timeout_ms: longest time one statement may take.
    """

    database_url: str | None = field(default=None, repr=False)  # It may hold a password.
    listen_url: str | None = field(default=None, repr=False)
    host: str = "127.0.0.1"
    port: int = 8000
    data_dir: Path = Path(".coldcast")
    refit_seconds: float = 60.0
    pool_size: int = 10
    statement_timeout_ms: int = 15_000

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> "Settings":
        """Read ``DATABASE_URL`` and the ``COLDCAST_*`` variables.

        Raises:
            SettingsError: a variable holds a value that cannot be used; the message names it.
        """
        read = _Reader(environment)
        return cls(
            database_url=environment.get("DATABASE_URL") or None,
            listen_url=environment.get("COLDCAST_LISTEN_URL") or None,
            host=environment.get("COLDCAST_HOST") or cls.host,  # An empty one would mean every interface.
            port=read.whole("COLDCAST_PORT", cls.port, 0, 65535),
            data_dir=Path(environment.get("COLDCAST_DATA_DIR") or cls.data_dir).expanduser(),
            refit_seconds=read.number("COLDCAST_REFIT_SECONDS", cls.refit_seconds, 1, 86400),
            pool_size=read.whole("COLDCAST_POOL_SIZE", cls.pool_size, 1, 1000),
            statement_timeout_ms=read.whole("COLDCAST_STATEMENT_TIMEOUT_MS", cls.statement_timeout_ms, 100, 600_000),
        )


@dataclass(frozen=True)
class _Reader:
    environment: Mapping[str, str]

    def number(self, name: str, default: float, least: float, most: float) -> float:
        text = self.environment.get(name)
        if not text:
            return default
        try:
            value = float(text)
        except ValueError:
            value = float("nan")
        if not least <= value <= most:
            raise SettingsError(
                f"{name}={text!r}: set a number from {least:g} to {most:g}, or unset it for {default:g}."
            )
        return value

    def whole(self, name: str, default: int, least: int, most: int) -> int:
        value = self.number(name, default, least, most)
        if value != int(value):
            raise SettingsError(f"{name}={value:g}: set a whole number, or unset it for {default}.")
        return int(value)
