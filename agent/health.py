"""Where an engine says that it is healthy, from its command line, and whether it does."""

import http.client
import socket
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

__all__ = ["HealthCheck"]

_ANYWHERE = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104  # Where the engine binds, not we.
_DEFAULT_PORT = 8000  # vLLM's.


@dataclass(frozen=True)
class HealthCheck:
    """The address of one engine's ``/health``."""

    host: str
    port: int
    path: str = "/health"
    tls: bool = False
    socket_path: str | None = None
    """A Unix socket, in place of host and port."""

    @classmethod
    def of_options(cls, options: Mapping[str, Any]) -> "HealthCheck | None":
        """Return where an engine with these options answers; None for one that serves nothing.

        Raises ``ValueError`` where the port is no number.
        """
        if options.get("headless"):
            return None
        host = str(options.get("host") or "")
        return cls(
            host=_ANYWHERE.get(host, host),
            port=int(options.get("port") or _DEFAULT_PORT),
            tls=bool(options.get("ssl_certfile")),
            socket_path=options.get("uds"),
        )

    @classmethod
    def of_url(cls, url: str) -> "HealthCheck":
        """Return the check of an explicit ``url``. Raises ``ValueError`` where it is none."""
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"{url} is no http URL: give one such as http://127.0.0.1:8000/health")
        tls = parts.scheme == "https"
        return cls(parts.hostname, parts.port or (443 if tls else 80), parts.path or "/health", tls)

    def passes(self, timeout: float = 1.0) -> bool:
        """Tell whether the engine answers 200 now; whatever else happens is a no."""
        connection = self._connection(timeout)
        try:
            connection.request("GET", self.path)
            return connection.getresponse().status == http.HTTPStatus.OK
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()

    def _connection(self, timeout: float) -> http.client.HTTPConnection:
        if self.socket_path is not None:
            return _UnixConnection(self.socket_path, timeout)
        if self.tls:
            # It is our own child that is asked, under a name that its certificate need not have.
            context = ssl._create_unverified_context()  # noqa: S323
            return http.client.HTTPSConnection(self.host, self.port, timeout=timeout, context=context)
        return http.client.HTTPConnection(self.host, self.port, timeout=timeout)


class _UnixConnection(http.client.HTTPConnection):
    """HTTP over a Unix socket."""

    def __init__(self, path: str, timeout: float) -> None:
        super().__init__("localhost", timeout=timeout)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)
