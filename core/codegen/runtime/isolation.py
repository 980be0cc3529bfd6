"""LLVM in a separate process, which may die or run forever."""

from __future__ import annotations

import atexit
import os
import signal
import sys

from pegbox.codegen.runtime.llvm import Form, OutOfTime, Passes, ProcessDied, TargetMachine
from pegbox.workers.pool import Pool
from pegbox.workers.process import Worker, WorkerDied, WorkerTimeout

_IDLE = 60.0  # the seconds without work after which the process ends
_MOST_CODE = 1 << 30


def translate_apart(text: str, machine: TargetMachine, form: Form, passes: Passes, *, timeout: float) -> bytes:
    """Translate as `llvm.translate_or_end` does, in a separate process. The first call starts the process.

    It also answers later calls, and ends with this process or after a minute without work. LLVM's output there is shown
    here.

    Raises:
        RuntimeError: LLVM rejects the text; `ProcessDied`: LLVM has ended the process.
        OutOfTime: LLVM takes longer than `timeout` seconds; the process is ended.
        MeasureError: the process cannot be started, or breaks.
    """
    try:
        with _pool.worker() as worker:
            reply = worker.call("answer", text, tuple(machine), form, passes, timeout=timeout)
            sys.stderr.write(worker.said())
    except WorkerTimeout:
        raise OutOfTime(timeout) from None
    except WorkerDied as death:
        reason = "it takes too long" if death.signal == signal.SIGXCPU else death.tail or str(death)
        raise ProcessDied(reason) from None
    if not isinstance(reply, bytes):
        raise RuntimeError(str(reply))
    return reply


def _start(place: int) -> Worker:
    return Worker("pegbox.codegen.runtime.llvm", most_reply=_MOST_CODE)


_pool = Pool(_start, 1, idle=_IDLE)


def _forget() -> None:
    """Forget the process, which belongs to the parent that this process was forked from."""
    global _pool
    _pool = Pool(_start, 1, idle=_IDLE)


os.register_at_fork(after_in_child=_forget)
atexit.register(lambda: _pool.close())
