"""The limit on bodies: counted while they arrive, so that an oversized one is refused before it fills memory."""

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.api.problems import problem_response
from app.errors import BodyTooLarge

__all__ = ["BATCH_BYTES", "SINGLE_BYTES", "LimitBody"]

SINGLE_BYTES = 1024 * 1024
BATCH_BYTES = 64 * 1024 * 1024


class LimitBody:
    """ASGI middleware: bodies of at most 1 MiB, on routes that end in ``/batch`` 64 MiB."""

    def __init__(self, app: ASGIApp) -> None:
        """Wrap ``app``."""
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer 413 once the body is over the limit, else pass it on."""
        if scope["type"] != "http":
            return await self.app(scope, receive, send)
        limit = BATCH_BYTES if scope["path"].endswith("/batch") else SINGLE_BYTES
        try:
            declared = int(dict(scope["headers"]).get(b"content-length", b"0"))
        except ValueError:
            declared = 0
        body = None if declared > limit else await _read(receive, limit)
        if body is None:
            detail = f"Send at most {limit // (1024 * 1024)} MiB on this route."
            return await problem_response(BodyTooLarge(detail))(scope, receive, send)
        return await self.app(scope, _replay(body, receive), send)


async def _read(receive: Receive, limit: int) -> bytes | None:
    chunks: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] != "http.request":
            return b"".join(chunks)
        chunks.append(message.get("body", b""))
        size += len(chunks[-1])
        if size > limit:
            return None
        if not message.get("more_body", False):
            return b"".join(chunks)


def _replay(body: bytes, receive: Receive) -> Receive:
    pending: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def replay() -> Message:
        return pending.pop() if pending else await receive()

    return replay
