"""A process that forks the supervisors of workers: it has loaded their modules, and runs one thread.

It never answers. Its clients learn about their workers from the supervisors, which no longer need it once they are
forked. The user's process never forks: locks held by its threads, such as those of OpenMP, would never be released in
the fork.
"""

from __future__ import annotations

import gc
import importlib
import os
import select
import signal
import socket
from types import FrameType
from typing import NoReturn

from pegbox.workers.descendants import resume_when_orphaned
from pegbox.workers.supervisor import supervise

DESCRIPTORS = 5
"""The number of descriptors in a message: the link to the client, and the arguments of `supervise`."""

IDLE = 60.0
"""The seconds without work and workers after which the server ends."""


def main(warm: str = "") -> NoReturn:
    """Serve until the socket, descriptor 0, closes and the last worker has ended.

    `warm` is a module whose `warm_up` is called first; "" for none.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    resume_when_orphaned()
    # Another holder of the socket would keep messages alive that a dead server will not read.
    asked = socket.socket(fileno=os.dup(0))
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    if warm:
        importlib.import_module(warm).warm_up()
    # Exclude the present objects: a collection in a worker would only copy the pages that all workers share.
    gc.collect()
    gc.freeze()
    signal.signal(signal.SIGCHLD, _collect)
    while True:
        if not select.select([asked], [], [], IDLE)[0]:
            if not _has_children():
                break
            continue
        message, descriptors, _, _ = socket.recv_fds(asked, 1, DESCRIPTORS)
        if not message:
            break
        _fork(asked, descriptors)
    asked.close()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    while _has_children(wait=True):
        pass
    os._exit(0)


def _collect(number: int, frame: FrameType | None) -> None:
    _has_children()


def _has_children(*, wait: bool = False) -> bool:
    """Reap the supervisors that have ended; return whether others are left. With `wait`, wait for one first."""
    try:
        while os.waitpid(-1, 0 if wait else os.WNOHANG)[0]:
            wait = False
    except ChildProcessError:
        return False
    return True


def _fork(asked: socket.socket, descriptors: list[int]) -> None:
    """Fork a supervisor. If that fails, its client notices the closed link."""
    link, *others = descriptors
    try:
        if os.fork() == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            asked.close()
            supervise(link, others)
    except OSError as error:
        os.write(others[2], f"it could not be forked: {error}".encode())
    finally:
        for descriptor in descriptors:
            os.close(descriptor)
