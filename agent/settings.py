"""The agent's settings: the environment, read once."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from app.errors import SettingsError

__all__ = ["DEFAULT_SPOOL_MAX_BYTES", "AgentSettings", "spool_dir"]

DEFAULT_URL = "http://127.0.0.1:8000"
# About ten thousand measurements of 6 KB: weeks of an outage.
DEFAULT_SPOOL_MAX_BYTES = 64 * 2**20
# A service that restarts is back within a minute; a longer outage is what the spool is for.
DEFAULT_SEND_SECONDS = 60


@dataclass(frozen=True)
class AgentSettings:
    """Where measurements go, and where they wait until they can.

    ``api_key`` is sent as a Bearer token; without one, no header is sent. ``send_seconds`` bounds all
    attempts at one request together.
    """

    url: str = DEFAULT_URL
    spool_dir: Path = Path("spool")
    spool_max_bytes: int = DEFAULT_SPOOL_MAX_BYTES
    send_seconds: float = DEFAULT_SEND_SECONDS
    api_key: str | None = field(default=None, repr=False)

    @classmethod
    def of(cls, environment: Mapping[str, str]) -> "AgentSettings":
        """Read the ``COLDCAST_*`` variables of ``environment``.

        Raises ``SettingsError`` for a value that cannot be used.
        """
        return cls(
            url=_url(environment.get("COLDCAST_URL", DEFAULT_URL)),
            spool_dir=spool_dir(environment),
            spool_max_bytes=_whole(environment, "COLDCAST_SPOOL_MAX_BYTES", "bytes", DEFAULT_SPOOL_MAX_BYTES),
            send_seconds=_whole(environment, "COLDCAST_SEND_SECONDS", "seconds", DEFAULT_SEND_SECONDS),
            api_key=_api_key(environment),
        )


def _url(value: str) -> str:
    if not value.startswith(("http://", "https://")):
        raise SettingsError(f"COLDCAST_URL must begin with http:// or https://, such as {DEFAULT_URL}.")
    return value.rstrip("/")


def _whole(environment: Mapping[str, str], name: str, unit: str, default: int) -> int:
    text = environment.get(name) or str(default)
    if not text.isascii() or not text.isdigit():
        raise SettingsError(f"{name} must be a whole number of {unit}, such as {default}.")
    return int(text)


def spool_dir(environment: Mapping[str, str]) -> Path:
    """Return where measurements wait; no value of a variable makes this fail."""
    if named := environment.get("COLDCAST_SPOOL_DIR"):
        return Path(named)
    state = environment.get("XDG_STATE_HOME") or Path(environment.get("HOME", "/root")) / ".local" / "state"
    return Path(state) / "coldcast" / "spool"


def _api_key(environment: Mapping[str, str]) -> str | None:
    """Return the key itself, or what the key's file holds: a file is what Docker and Kubernetes mount secrets as."""
    if key := environment.get("COLDCAST_API_KEY", "").strip():
        return key
    if not (path := environment.get("COLDCAST_API_KEY_FILE")):
        return None
    try:
        return Path(path).read_text().strip() or None
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"COLDCAST_API_KEY_FILE cannot be read ({type(error).__name__}): check it.") from error
