"""Doing several things at the same moment."""

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

__all__ = ["at_once"]

T = TypeVar("T")


def at_once(actions: Sequence[Callable[[], T]]) -> list[T]:
    """Start all ``actions`` together, each in a thread, and return their results in order."""
    barrier = threading.Barrier(len(actions), timeout=30)

    def run(action: Callable[[], T]) -> T:
        barrier.wait()
        return action()

    with ThreadPoolExecutor(len(actions)) as pool:
        return list(pool.map(run, actions))
