"""Signals as an exception: once, and not lost."""

import os
import signal
import weakref
from collections.abc import Callable

import pytest

from app.commands.signals import Stopped, raise_if_stopped, stopping_on_signals


def stopped_by(block: Callable[[], None]) -> Stopped:
    with pytest.raises(Stopped) as stopped, stopping_on_signals():
        block()
    return stopped.value


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_unwinds_and_further_ones_are_ignored(number: signal.Signals) -> None:
    before, unwound = signal.getsignal(number), []

    def block() -> None:
        try:
            os.kill(os.getpid(), number)
        finally:
            os.kill(os.getpid(), number)  # Somebody is impatient.
            unwound.append(True)

    assert stopped_by(block).args == (number,)
    assert unwound == [True]
    assert signal.getsignal(number) is before


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_signal_whose_exception_was_lost_is_not_forgotten() -> None:
    class Thing:
        pass

    def block() -> None:
        raise_if_stopped()  # Nothing yet.
        thing = Thing()
        reference = weakref.ref(thing, lambda _: os.kill(os.getpid(), signal.SIGTERM))
        del thing  # The callback raises, and Python drops it.
        assert reference() is None
        raise_if_stopped()

    stopped_by(block)
