"""Waiting for what happens elsewhere: on the condition itself, with a deadline."""

import threading
import time
from collections.abc import Callable
from typing import TypeVar

__all__ = ["eventually"]

T = TypeVar("T")
_never = threading.Event()


def eventually(condition: Callable[[], T], *, seconds: float = 30.0, every: float = 0.05) -> T:
    """Return the first truthy value of ``condition``; fail after ``seconds`` with its last value."""
    deadline = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < deadline, f"not within {seconds} s; the last value was {value!r}"
        _never.wait(every)
    return value
