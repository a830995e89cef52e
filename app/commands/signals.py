"""Signals as an exception, so that whatever was started is stopped on the way out."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

__all__ = ["Stopped", "raise_if_stopped", "stopping_on_signals"]

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Stopped(BaseException):
    """A signal asked this process to stop; like KeyboardInterrupt, no handler of errors may swallow it."""


@contextmanager
def stopping_on_signals() -> Iterator[None]:
    """Turn signals into an exception that unwinds; while it does, further ones are ignored so that nothing is left."""

    def stop(number: int, _frame: FrameType | None) -> None:
        for each in _SIGNALS:
            signal.signal(each, signal.SIG_IGN)
        raise Stopped(number)

    previous = {number: signal.signal(number, stop) for number in _SIGNALS}
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


def raise_if_stopped() -> None:
    """Raise Stopped where a signal came and its exception was lost: Python drops those that hit a weak reference."""
    if signal.getsignal(signal.SIGTERM) is signal.SIG_IGN:
        raise Stopped(signal.SIGTERM)
