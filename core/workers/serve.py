"""The child side of a worker process: receive jobs as pickles, run them one at a time, answer with data.

A supervisor starts it, not `multiprocessing`, whose spawn imports the user's `__main__` again, and whose fork hangs
under OpenMP. Nothing here imports llvmlite; the module of jobs does so if it needs it.
"""

from __future__ import annotations

import contextlib
import fcntl
import importlib
import os
import queue
import resource
import signal
import sys
import threading
import traceback
from types import ModuleType
from typing import Any, NoReturn

from pegbox.workers.affinity import pin
from pegbox.workers.channel import READY, Reply, encode_reply, read_request, write_all

_MOST_STDERR = 64 << 20
_MOST_TEXT = 10_000
# The kernel needs eight bytes for each number below the highest open one.
_HIGHEST_DESCRIPTOR = 1 << 16


def serve(setting: dict[str, Any]) -> NoReturn:
    """Serve until the pipe closes, with the setting: jobs (a module's name), cores, memory (bytes or None)."""
    requests, replies = _take_pipes()
    pin(setting["cores"])
    _be_expendable()
    jobs = importlib.import_module(setting["jobs"])
    _limit_memory(setting["memory"])
    inbox: queue.SimpleQueue[tuple[bytes, str, tuple[Any, ...]]] = queue.SimpleQueue()
    threading.Thread(target=_receive, args=(requests, inbox), daemon=True).start()
    write_all(replies, encode_reply(READY, Reply(None, raised=False)))
    while True:
        token, name, arguments = inbox.get()
        reply = _perform(token, jobs, name, arguments)
        try:
            write_all(replies, reply)
        except OSError:
            # The parent is gone, or a candidate has closed the pipe. Python's normal exit would wait for its threads.
            traceback.print_exc()
            sys.stderr.flush()
            os._exit(1)


def _take_pipes() -> tuple[int, int]:
    """Move the pipes off fds 0 and 1, so that no print of a library or a candidate lands among the replies."""
    requests, replies = _hidden(0), _hidden(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    return requests, replies


def _hidden(fd: int) -> int:
    """Copy a descriptor to a number that is hard to guess, if possible above those in use."""
    given, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    top = _HIGHEST_DESCRIPTOR if most == resource.RLIM_INFINITY else min(most, _HIGHEST_DESCRIPTOR)
    bottom = given if 0 <= given < top // 2 else top // 2
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(given, top) if given >= 0 else given, most))
    random = int.from_bytes(os.urandom(8), "little")  # the module secrets is slow to import
    try:
        # Stay 16 below the top, as dup takes the next number if this one is in use.
        return fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, bottom + random % max(1, top - bottom - 16))
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (given, most))


def _receive(requests: int, inbox: queue.SimpleQueue[tuple[bytes, str, tuple[Any, ...]]]) -> NoReturn:
    """Read jobs on a separate thread, which notices the parent's end even while a candidate loops forever."""
    try:
        while True:
            inbox.put(read_request(requests))
    except EOFError:
        if os.getpgrp() == os.getpid():
            os.killpg(0, signal.SIGKILL)  # with everything that candidates started
    finally:
        os._exit(0)


def _perform(token: bytes, jobs: ModuleType, name: str, arguments: tuple[Any, ...]) -> bytes:
    """Run a job; return the encoded reply."""
    try:
        return encode_reply(token, Reply(getattr(jobs, name)(*arguments), raised=False))
    except Exception as error:
        text = "".join(traceback.format_exception_only(error)).strip()
        place = "".join(traceback.format_tb(error.__traceback__)[-1:]).strip()
        return encode_reply(token, Reply([text[:_MOST_TEXT], place[:_MOST_TEXT]], raised=True))


def _be_expendable() -> None:
    """Prepare for a violent end: no core files, no endless log, the first victim if memory runs out."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for number in (signal.SIGALRM, signal.SIGPROF):  # the signals of timers
        signal.signal(number, signal.SIG_DFL)
    _set_limit(resource.RLIMIT_CORE, 0)
    _set_limit(resource.RLIMIT_FSIZE, _MOST_STDERR)
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:
        file.write("1000")


def _limit_memory(memory: int | None) -> None:
    """Allow `memory` bytes of address space beyond what the interpreter and its libraries already hold."""
    if memory is None:
        return
    with contextlib.suppress(OSError), open("/proc/self/statm") as file:
        _set_limit(resource.RLIMIT_AS, int(file.read().split()[0]) * resource.getpagesize() + memory)


def _set_limit(what: int, value: int) -> None:
    """Set a limit, but not above the present one."""
    soft, hard = resource.getrlimit(what)
    resource.setrlimit(
        what, (min([value, *(limit for limit in (soft, hard) if limit != resource.RLIM_INFINITY)]), hard)
    )
