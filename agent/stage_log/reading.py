"""Reading: from the bytes of a log to its lines, in memory that does not grow with the log."""

import codecs
import re
from collections.abc import Iterator
from typing import Protocol

__all__ = ["MAX_LINE", "ByteStream", "read_lines"]

CHUNK_BYTES = 1 << 18
MAX_LINE = 1 << 16  # vLLM's longest line, its resolved configuration, is about 8 KiB; what goes beyond this is cut.

# A carriage return ends a frame of a progress bar, and the frame is a line of its own.
_BREAK = re.compile(r"[\r\n]+")


class ByteStream(Protocol):
    """What is read from: a buffered binary file, or standard input's buffer."""

    def read1(self, size: int, /) -> bytes:
        """Return up to ``size`` bytes as soon as there are any; none at the end."""
        ...


def read_lines(stream: ByteStream) -> Iterator[str]:
    """Yield the lines of ``stream`` without their ends; bytes that are no text become U+FFFD."""
    chunk = stream.read1(CHUNK_BYTES)
    decoder = codecs.getincrementaldecoder(_encoding(chunk))(errors="replace")
    rest = ""
    while chunk:
        *lines, rest = _BREAK.split(rest + decoder.decode(chunk))
        for line in lines:
            yield line[:MAX_LINE]
        rest = rest[:MAX_LINE]
        chunk = stream.read1(CHUNK_BYTES)
    yield rest


def _encoding(start: bytes) -> str:
    """UTF-8, unless the first bytes say UTF-16 (PowerShell's ``>`` writes it)."""
    return "utf-16" if start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) else "utf-8-sig"
