"""The engine as this process's child: started, signalled and reaped as if nobody stood between."""

import math
import os
import resource
import signal
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

__all__ = ["Child", "end_like", "hold_signals"]

_FORWARDED = frozenset({signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2})
_AWAITED = _FORWARDED | {signal.SIGCHLD}
_IGNORED_BY_PYTHON = (signal.SIGPIPE, signal.SIGXFSZ)
_SENT_BY_KERNEL = 0x80  # si_code SI_KERNEL: a terminal's Ctrl-C, which reaches the child's group without our help.
_STOPPING = frozenset({signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT})
_LOOK_SECONDS = 10.0  # A SIGCHLD that another thread swallowed would else be waited for until the end of days.


def hold_signals() -> set[signal.Signals]:
    """Keep the signals that are meant for a child until `Child.wait` takes them; return the mask from before.

    To be called before any thread is started: a thread that lacks this mask would get them in its place.
    """
    return {signal.Signals(number) for number in signal.pthread_sigmask(signal.SIG_BLOCK, _AWAITED)}


class Child:
    """A running engine. The signals that it should get are blocked here and taken by `wait`, on the main thread.

    As PID 1, which every orphan of a container falls to, this reaps all of them.
    """

    def __init__(self, pid: int, *, own_group: bool) -> None:
        self.pid = pid
        self.status: int | None = None
        """Exit code, negative for the signal that ended it; None while it runs."""
        self.stopped = False
        """Whether somebody asked for the end."""
        self._own_group = own_group

    @classmethod
    def start(cls, command: Sequence[str], environment: Mapping[str, str], *, log: Path | None = None) -> "Child":
        """Start ``command`` with this process's standard streams, or in a group of its own with a ``log`` file.

        Raises ``OSError`` where the command cannot be started.
        """
        mask = hold_signals()
        actions: list[tuple[Any, ...]] = []
        group: dict[str, Any] = {}
        if log is not None:
            flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
            actions = [
                (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                (os.POSIX_SPAWN_OPEN, 1, str(log), flags, 0o600),
                (os.POSIX_SPAWN_DUP2, 1, 2),
            ]
            group = {"setpgroup": 0}
        pid = os.posix_spawnp(
            command[0],
            list(command),
            dict(environment),
            file_actions=actions,
            setsigmask=mask - _AWAITED,
            setsigdef=_IGNORED_BY_PYTHON,
            **group,
        )
        return cls(pid, own_group=log is not None)

    def wait(self, seconds: float | None = None) -> int | None:
        """Pass on signals until the child ends, or for ``seconds``; return its exit code, or None while it runs."""
        deadline = math.inf if seconds is None else time.monotonic() + seconds
        self._reap()
        while self.status is None and (left := deadline - time.monotonic()) > 0:
            if came := signal.sigtimedwait(_AWAITED, min(left, _LOOK_SECONDS)):
                self._handle(came)
            self._reap()
        return self.status

    def stop(self, grace_seconds: float) -> None:
        """Ask the child to end, and after ``grace_seconds`` make it and its group end."""
        self._send(signal.SIGTERM)
        if self.wait(grace_seconds) is None:
            self._send(signal.SIGKILL)
            self.wait()

    def _handle(self, came: signal.struct_siginfo) -> None:
        if came.si_signo == signal.SIGCHLD:
            return  # `wait` looks after every signal.
        self.stopped = self.stopped or came.si_signo in _STOPPING
        if came.si_code != _SENT_BY_KERNEL or self._own_group:
            self._send(came.si_signo)

    def _reap(self) -> None:
        anyone = os.getpid() == 1
        while self.status is None or anyone:
            try:
                pid, status = os.waitpid(-1 if anyone else self.pid, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if pid == self.pid:
                self.status = os.waitstatus_to_exitcode(status)

    def _send(self, number: int) -> None:
        if self.status is None:
            try:
                (os.killpg if self._own_group else os.kill)(self.pid, number)
            except ProcessLookupError:
                return  # It ended in the meantime, and its SIGCHLD is on the way.


def end_like(status: int) -> int:
    """Return the exit code that passes ``status`` on; where a signal ended the child, end by it too.

    PID 1 cannot kill itself: there, the shell's convention of 128 plus the signal's number has to do.
    """
    if status >= 0:
        return status
    number = -status
    if os.getpid() != 1:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # The child has left its core already, if it left one.
        if number not in (signal.SIGKILL, signal.SIGSTOP):
            signal.signal(number, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {number})
        os.kill(os.getpid(), number)
    return 128 + number
