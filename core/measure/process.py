"""The parent side of a worker process: start it, give it jobs, read its answers, kill it."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from typing import Any

from pegbox.errors import MeasureError
from pegbox.measure.channel import ChannelTimeout, read_message, write_message

# The path comes as arguments: importing anything before it is set would look in the working folder first.
_BOOT = "import sys; sys.path[:] = sys.argv[2:]; from pegbox.measure.worker import main; main()"
_START_SECONDS = 60.0
_TAIL_BYTES = 2000


class WorkerDied(MeasureError):
    """The worker ended during a job. `signal` is the signal's number or None, `tail` the end of its stderr."""

    def __init__(self, returncode: int | None, tail: str) -> None:
        self.signal = -returncode if returncode is not None and returncode < 0 else None
        self.tail = tail
        how = f"was killed by {_signal_name(self.signal)}" if self.signal else f"exited with status {returncode}"
        super().__init__(how + (f"; its last words: {tail}" if tail else ""))


class WorkerTimeout(MeasureError):
    """The worker did not answer in time and was killed."""


class JobError(MeasureError):
    """The job raised an exception inside the worker; the worker goes on."""


class Worker:
    """One process that runs the functions of the module `jobs`, one at a time.

    The process starts at once and in the background; the first call waits for it. It is in a session of its own, so
    Ctrl-C on the terminal does not reach it, and it exits when this process is gone. `memory` limits what it may
    allocate, in bytes. Calls come from one thread at a time; `kill` may come from any.
    """

    def __init__(self, jobs: str, *, cores: Sequence[int] = (), memory: int | None = None) -> None:
        setting = json.dumps({"jobs": jobs, "cores": list(cores), "memory": memory})
        # BLAS threads would only cost start-up time and address space: workers multiply nothing themselves.
        environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115  (lives as long as the process)
        self._process = subprocess.Popen(
            [sys.executable, "-c", _BOOT, setting, *sys.path],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._stderr,
            env=environment,
            start_new_session=True,
            bufsize=0,
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._requests = self._process.stdin.fileno()
        self._replies = self._process.stdout.fileno()
        self._number = 0
        self._answered = 0
        self._ready = False
        self._said = 0
        self._ending = threading.Lock()

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def wait_ready(self) -> None:
        """Wait until the process has started and has done every posted job; raises `MeasureError` when it cannot."""
        deadline = time.monotonic() + _START_SECONDS
        try:
            if not self._ready:
                read_message(self._replies, deadline=deadline)
                self._ready = True
            while self._answered < self._number:
                self._read_answer(deadline)
        except JobError as error:
            raise MeasureError(f"a worker process could not be set up: {error}") from None
        except ChannelTimeout:
            self.kill()
            raise MeasureError(f"a worker process did not start within {_START_SECONDS:g} s: {self._tail()}") from None
        except EOFError:
            self.kill()
            raise MeasureError(f"a worker process ({sys.executable}) could not start: {self._tail()}") from None

    def post(self, job: str, *arguments: object) -> None:
        """Give the worker a job without waiting for it; the next `call` or `wait_ready` waits for it first."""
        self._number += 1
        with contextlib.suppress(BrokenPipeError):  # the next read tells why it died
            write_message(self._requests, (self._number, job, arguments))

    def call(self, job: str, *arguments: object, timeout: float) -> Any:
        """Run a job and return its value. `timeout` is in seconds and starts when the worker has started.

        Raises `WorkerDied`, `WorkerTimeout` (both leave the worker dead) or `JobError`.
        """
        self.wait_ready()
        self._said = os.fstat(self._stderr.fileno()).st_size
        self.post(job, *arguments)
        deadline = time.monotonic() + timeout
        try:
            return self._read_answer(deadline)
        except ChannelTimeout:
            self.kill()
            raise WorkerTimeout(f"no answer within {timeout:g} s") from None
        except EOFError:
            raise WorkerDied(self._end(), self._tail()) from None

    def kill(self) -> None:
        """End the process at once; harmless when it is dead already."""
        with self._ending:
            if self._process.returncode is None:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.killpg(self._process.pid, signal.SIGKILL)
                self._process.wait()

    def close(self) -> None:
        """Kill the process and release the pipes."""
        self.kill()
        for stream in (self._process.stdin, self._process.stdout, self._stderr):
            if stream is not None:
                stream.close()

    def _read_answer(self, deadline: float) -> Any:
        self._answered, kind, value = read_message(self._replies, deadline=deadline)
        if kind == "raised":
            text, place = value
            raise JobError(f"{text} ({place})" if place else text)
        return value

    def _end(self) -> int | None:
        """The exit status of a worker that closed its pipe."""
        try:
            return self._process.wait(timeout=5.0)
        except subprocess.TimeoutExpired:
            self.kill()
            return self._process.returncode

    def _tail(self) -> str:
        """What the worker wrote to stderr since the last job began, at most its last 2000 bytes."""
        size = os.fstat(self._stderr.fileno()).st_size
        start = max(self._said, size - _TAIL_BYTES)
        return os.pread(self._stderr.fileno(), size - start, start).decode(errors="replace").strip()


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
