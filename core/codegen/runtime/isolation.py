"""LLVM in a process of its own, which may end or take forever."""

from __future__ import annotations

import atexit
import os
import signal
import sys

from pegbox.codegen.runtime.llvm import Form, OutOfTime, Passes, ProcessDied, TargetMachine
from pegbox.workers.pool import Pool
from pegbox.workers.process import Worker, WorkerDied, WorkerTimeout

_IDLE = 60.0  # seconds without work after which the process ends
_MOST_CODE = 1 << 30


def translate_apart(text: str, machine: TargetMachine, form: Form, passes: Passes, *, timeout: float) -> bytes:
    """Translate as `llvm.translate_or_end` does, in a process of its own. The first call starts it.

    It answers later calls too, and ends with this process or after a minute without work. What LLVM says in it is shown
    here.

    Raises:
        RuntimeError: LLVM rejects the text; `ProcessDied`: it has ended the process.
        OutOfTime: it takes longer than `timeout` seconds; the process is ended.
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
    """Leave the process to the one that this one was forked from."""
    global _pool
    _pool = Pool(_start, 1, idle=_IDLE)


os.register_at_fork(after_in_child=_forget)
atexit.register(lambda: _pool.close())
