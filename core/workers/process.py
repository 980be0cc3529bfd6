"""The parent side of a worker process: start it, send jobs, receive replies, kill it."""

from __future__ import annotations

import contextlib
import os
import secrets
import select
import signal
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Sequence
from typing import Any

from pegbox.errors import MeasureError
from pegbox.workers.channel import (
    READY,
    TOKEN_BYTES,
    BrokenReply,
    ChannelTimeout,
    NotStarted,
    await_readable,
    encode_request,
    read_reply,
    write_all,
)
from pegbox.workers.fork_client import Child, how_it_ended

_START_SECONDS = 60.0
_ATTEMPTS = 3
_TAIL_BYTES = 2000
_MOST_REPLY = 1 << 24


# The signals of a process's own faults; others come from outside.
_FAULTS = frozenset(
    (signal.SIGABRT, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGSEGV, signal.SIGSYS, signal.SIGTRAP)
)


class GivenUp(Exception):
    """The search has given up the thing that a thread waited for."""


class WorkerDied(MeasureError):
    """The worker ended during a job. `signal` is the signal's number or None, `tail` the end of its stderr.

    `by_itself` means that the job ended it, by a fault or an exit.
    """

    def __init__(self, returncode: int | None, tail: str) -> None:
        self.by_itself = returncode is not None and (returncode >= 0 or -returncode in _FAULTS)
        self.signal = -returncode if returncode is not None and returncode < 0 else None
        self.tail = tail
        super().__init__(how_it_ended(returncode) + (f"; its last words: {tail}" if tail else ""))


class WorkerTimeout(MeasureError):
    """The worker did not answer in time and was killed."""


class JobError(MeasureError):
    """The job raised an exception inside the worker, which continues."""


class Worker:
    """A process that runs the functions of the module `jobs`, one at a time.

    The process starts at once and in the background; the first call waits for it. It has its own session, so Ctrl-C on
    the terminal does not reach it, and it ends with this process, however that ends. `memory` limits its allocations,
    in bytes. Jobs return data, JSON values or bytes: replies are never unpickled, and those above `most_reply` bytes
    are refused. `warm` is a module whose `warm_up` runs before the process begins, in the fork server of all workers
    that name it. Calls come from one thread at a time; `kill` may come from any.
    """

    def __init__(
        self,
        jobs: str,
        *,
        warm: str = "",
        cores: Sequence[int] = (),
        memory: int | None = None,
        most_reply: int = _MOST_REPLY,
    ) -> None:
        self.began = time.monotonic()
        self._setting = {"jobs": jobs, "cores": list(cores), "memory": memory}
        self._warm, self._most_reply = warm, most_reply
        # The file lives as long as the process.
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115
        self._posted: list[bytes] = []
        self._tokens: list[bytes] = []
        self._called = self._killed = False
        self._said = 0
        self._ending = threading.Lock()
        try:
            self._open()
        except BaseException:
            self._stderr.close()
            raise

    @property
    def fresh(self) -> bool:
        """True until the first call."""
        return not self._called

    @property
    def pid(self) -> int:
        self._child.born(time.monotonic() + _START_SECONDS)
        return self._child.pid

    @property
    def alive(self) -> bool:
        """True if the process runs, or is about to."""
        return not self._killed and not self._child.has_ended

    def wait_ready(self) -> None:
        """Wait until the process has started and done every posted job; raise `MeasureError` if it cannot.

        A process that is killed, stopped or silent meanwhile is replaced a few times, and so is a fork server.
        """
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                if attempt > 1:
                    self._reopen()
                self._wait_ready()
                return
            except (NotStarted, OSError) as error:
                if self._killed:
                    raise WorkerDied(-signal.SIGKILL, "") from None
                may_start = isinstance(error, NotStarted) and not error.explained
                if not may_start or self._called or attempt == _ATTEMPTS:
                    self.kill()
                    raise MeasureError(f"a worker process ({sys.executable}) could not start: {error}") from None

    def post(self, job: str, *arguments: object) -> None:
        """Send the worker a job without waiting for it; the next `call` or `wait_ready` waits for it first."""
        request = self._request(job, arguments)
        self._tokens.append(self._expected[-1])
        self._posted.append(request)
        self._unsent.append(request)
        if sum(map(len, self._posted)) <= select.PIPE_BUF:  # the pipe accepts them without blocking
            self._send_all(time.monotonic() + _START_SECONDS)

    def call(self, job: str, *arguments: object, timeout: float) -> Any:
        """Run a job and return its value. `timeout` is in seconds and starts when the worker has started.

        Raises `WorkerDied`, `WorkerTimeout`, `BrokenReply` (all three leave the worker dead) or `JobError`.
        """
        self.wait_ready()
        self._said = os.fstat(self._stderr.fileno()).st_size
        self._called = True
        self._posted, self._tokens = [], []
        deadline = time.monotonic() + timeout
        self._unsent.append(self._request(job, arguments))
        try:
            self._send_all(deadline)
            return self._read_answer(deadline)
        except ChannelTimeout:
            self.kill()
            raise WorkerTimeout(f"no answer within {timeout:g} s") from None
        except BrokenReply:
            self.kill()
            raise
        except EOFError:
            self._child.await_end()
            raise WorkerDied(self._end(), self.said().strip()) from None

    def said(self) -> str:
        """Return the process's output on stderr since the last call began, at most its last 2000 bytes."""
        size = os.fstat(self._stderr.fileno()).st_size
        start = max(self._said, size - _TAIL_BYTES)
        # The worker may have truncated the file.
        return os.pread(self._stderr.fileno(), max(0, size - start), start).decode(errors="replace")

    def kill(self) -> None:
        """End the process at once, with everything that it started; harmless if it is already dead."""
        self._killed = True
        self._end()

    def close(self) -> None:
        """Kill the process and release the pipes."""
        self.kill()
        self._release()
        self._stderr.close()

    def _open(self) -> None:
        """Begin a process with new pipes, as another process may still hold the older ones."""
        theirs, requests = os.pipe()
        replies, answers = os.pipe()
        self._pipes = [os.fdopen(requests, "wb", 0), os.fdopen(replies, "rb", 0)]
        os.set_blocking(requests, False)
        self._expected = deque([READY, *self._tokens])
        self._unsent = deque(self._posted)
        try:
            self._child = Child(
                self._setting,
                standard=(theirs, answers, self._stderr.fileno()),
                deadline=time.monotonic() + _START_SECONDS,
                warm=self._warm,
            )
        except BaseException:
            for pipe in self._pipes:
                pipe.close()
            raise
        finally:
            os.close(theirs)
            os.close(answers)

    def _reopen(self) -> None:
        """Begin another process in place of one that did not start."""
        with self._ending:
            if self._killed:
                return
            self._child.end(marked=self._called)
            self._release()
            self._open()

    def _wait_ready(self) -> None:
        """Wait until the process is ready. Raises `NotStarted` if it does not begin, or ends before that."""
        deadline = time.monotonic() + _START_SECONDS
        try:
            if self._expected:
                self._child.born(deadline)
                self._send_all(deadline)
            while self._expected:
                replies = self._pipes[1].fileno()
                await_readable([replies, self._child.fileno()], pid=self._child.pid, deadline=deadline)
                self._read_answer(deadline)
        except (JobError, BrokenReply) as error:
            raise MeasureError(f"a worker process could not be set up: {error}") from None
        except NotStarted as error:
            reason, explained = str(error), error.explained
        except ChannelTimeout:
            reason, explained = f"it did not answer within {_START_SECONDS:g} s", False
        except EOFError:
            self._child.await_end()
            status = self._end()
            reason, explained = f"it {how_it_ended(status)}", status is not None and status >= 0
        else:
            return
        tail = self.said().strip()
        raise NotStarted(f"{reason}: {tail}" if tail else reason, explained=explained)

    def _end(self) -> int | None:
        """Kill the process, with everything that it started; return its exit status, None if unknown."""
        with self._ending:
            return self._child.end(marked=self._called)

    def _release(self) -> None:
        self._child.close()
        for pipe in self._pipes:
            pipe.close()

    def _request(self, job: str, arguments: tuple[object, ...]) -> bytes:
        """Encode a request, and expect its answer."""
        token = secrets.token_bytes(TOKEN_BYTES)
        request = encode_request((token, job, arguments))  # raises for arguments that cannot be pickled
        self._expected.append(token)
        return request

    def _send_all(self, deadline: float) -> None:
        while self._unsent:
            with contextlib.suppress(BrokenPipeError):  # the next read finds the reason for its death
                write_all(self._pipes[0].fileno(), self._unsent.popleft(), deadline=deadline)

    def _read_answer(self, deadline: float) -> Any:
        reply = read_reply(
            self._pipes[1].fileno(),
            self._expected.popleft(),
            most=self._most_reply,
            deadline=deadline,
            ended=self._child.fileno(),
        )
        if reply.raised:
            text, place = reply.value
            raise JobError(f"{text} ({place})" if place else text)
        return reply.value
