"""The parent side of a worker process: start it, send jobs, receive replies, kill it."""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Sequence
from typing import Any

from pegbox.errors import MeasureError
from pegbox.measure.channel import READY, TOKEN_BYTES, BrokenReply, ChannelTimeout, read_reply, write_request
from pegbox.measure.child import how_it_ended, start
from pegbox.descendants import kill_marked

_START_SECONDS = 60.0
_END_SECONDS = 5.0
_TAIL_BYTES = 2000
_MOST_REPLY = 1 << 24


class WorkerDied(MeasureError):
    """The worker ended during a job. `signal` is the signal's number or None, `tail` the end of its stderr."""

    def __init__(self, returncode: int | None, tail: str) -> None:
        self.signal = -returncode if returncode is not None and returncode < 0 else None
        self.tail = tail
        super().__init__(how_it_ended(returncode) + (f"; its last words: {tail}" if tail else ""))


class WorkerTimeout(MeasureError):
    """The worker did not answer in time and was killed."""


class JobError(MeasureError):
    """The job raised an exception inside the worker; the worker goes on."""


class Worker:
    """One process that runs the functions of the module `jobs`, one at a time.

    The process starts at once and in the background; the first call waits for it. It is in a session of its own, so
    Ctrl-C on the terminal does not reach it, and it exits when this process is gone. `memory` limits what it may
    allocate, in bytes. Jobs give data, which is what JSON has, or bytes: replies are never unpickled, and those above
    `most_reply` bytes are refused. Calls come from one thread at a time; `kill` may come from any.
    """

    def __init__(
        self, jobs: str, *, cores: Sequence[int] = (), memory: int | None = None, most_reply: int = _MOST_REPLY
    ) -> None:
        self._mark = secrets.token_hex(TOKEN_BYTES)
        theirs, self._requests = os.pipe()
        self._replies, answers = os.pipe()
        # They live as long as the process.
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115
        self._files = [self._stderr, os.fdopen(self._requests, "wb", 0), os.fdopen(self._replies, "rb", 0)]
        os.set_blocking(self._requests, False)
        setting = {"jobs": jobs, "cores": list(cores), "memory": memory}
        try:
            self._child = start(
                setting, mark=self._mark, standard=(theirs, answers, self._stderr.fileno()), heard=self._replies
            )
        except BaseException:
            self._release()
            raise
        finally:
            os.close(theirs)
            os.close(answers)
        self._most_reply = most_reply
        self._expected = deque([READY])
        self._called = False
        self._collected = False
        self._returncode: int | None = None
        self._said = 0
        self._ending = threading.Lock()

    @property
    def pid(self) -> int:
        return self._child.pid

    @property
    def alive(self) -> bool:
        """Whether the process runs. One that has ended is left for `kill` to collect: until then its number, which is
        that of its group, belongs to no other."""
        return not self._collected and self._child.alive

    def wait_ready(self) -> None:
        """Wait until the process has started and has done every posted job; raises `MeasureError` when it cannot."""
        deadline = time.monotonic() + _START_SECONDS
        try:
            while self._expected:
                self._read_answer(deadline)
        except (JobError, BrokenReply) as error:
            raise MeasureError(f"a worker process could not be set up: {error}") from None
        except ChannelTimeout:
            self.kill()
            raise MeasureError(f"a worker process did not start within {_START_SECONDS:g} s: {self._tail()}") from None
        except EOFError as error:
            self.kill()
            reason = self._tail() or str(error)
            raise MeasureError(f"a worker process ({sys.executable}) could not start: {reason}") from None

    def post(self, job: str, *arguments: object) -> None:
        """Give the worker a job without waiting for it; the next `call` or `wait_ready` waits for it first."""
        self._post(job, arguments, time.monotonic() + _START_SECONDS)

    def call(self, job: str, *arguments: object, timeout: float) -> Any:
        """Run a job and return its value. `timeout` is in seconds and starts when the worker has started.

        Raises `WorkerDied`, `WorkerTimeout`, `BrokenReply` (all three leave the worker dead) or `JobError`.
        """
        self.wait_ready()
        self._said = os.fstat(self._stderr.fileno()).st_size
        self._called = True
        deadline = time.monotonic() + timeout
        try:
            self._post(job, arguments, deadline)
            return self._read_answer(deadline)
        except ChannelTimeout:
            self.kill()
            raise WorkerTimeout(f"no answer within {timeout:g} s") from None
        except BrokenReply:
            self.kill()
            raise
        except EOFError:
            raise WorkerDied(self._end(), self._tail()) from None

    def kill(self) -> None:
        """End the process at once, and what it has started; harmless when it is dead already."""
        with self._ending:
            if not self._collected:
                with contextlib.suppress(EOFError, ChannelTimeout, BrokenReply):  # it never began
                    self._collect(self._child.pid)
                self._collected = True

    def close(self) -> None:
        """Kill the process and release the pipes."""
        self.kill()
        self._child.close()
        self._release()

    def _collect(self, pid: int) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(pid, signal.SIGKILL)
        self._returncode = self._child.wait()
        if self._called:
            kill_marked(self._mark)

    def _release(self) -> None:
        for file in self._files:
            file.close()

    def _post(self, job: str, arguments: tuple[object, ...], deadline: float) -> None:
        self._expected.append(secrets.token_bytes(TOKEN_BYTES))
        with contextlib.suppress(BrokenPipeError):  # the next read tells why it died
            write_request(self._requests, (self._expected[-1], job, arguments), deadline=deadline)

    def _read_answer(self, deadline: float) -> Any:
        reply = read_reply(
            self._replies, self._expected.popleft(), most=self._most_reply, deadline=deadline, ended=self._child.ended
        )
        if reply.raised:
            text, place = reply.value
            raise JobError(f"{text} ({place})" if place else text)
        return reply.value

    def _end(self) -> int | None:
        """The exit status of a worker that closed its pipe."""
        deadline = time.monotonic() + _END_SECONDS
        while self.alive and time.monotonic() < deadline:
            time.sleep(0.001)
        self.kill()
        return self._returncode

    def _tail(self) -> str:
        """What the worker wrote to stderr since the last job began, at most its last 2000 bytes."""
        size = os.fstat(self._stderr.fileno()).st_size
        start = max(self._said, size - _TAIL_BYTES)
        # The file may be shorter than it was: it is the worker's, too.
        return os.pread(self._stderr.fileno(), max(0, size - start), start).decode(errors="replace").strip()
