"""A process that forks the worker processes: it has imported what they need, and runs one thread and nothing else.

A worker that is forked need not import it again. It is never the user's process that forks: locks that its threads
hold, those of OpenMP among them, would never be released in the fork.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import importlib
import os
import resource
import select
import signal
import socket
import struct
import sys
import traceback
from typing import Any, NamedTuple, NoReturn

from pegbox.codegen.runtime.affinity import pin
from pegbox.measure import worker
from pegbox.measure.channel import READY, TOKEN_BYTES, Reply, encode_reply, read_request, write_reply
from pegbox.descendants import MARK

FORK, COLLECT = b"f", b"c"
"""The first byte of a message. The others are a `Birth`, as `write_request` writes it, or the number of a process."""

NUMBER = struct.Struct("<i")
"""A process in what is asked, and a status as of `os.waitpid` in what is answered."""

DESCRIPTORS = 4
"""What comes with a `Birth`: the pipes of requests and replies, a file for stderr, the working folder."""

UNMARKED = "0" * (2 * TOKEN_BYTES)
"""The server's own mark, as long as those of the workers, which take its place."""

IDLE = 60.0
"""Seconds without work and workers after which the server ends."""

_JOBS = "pegbox.measure.run_job"


_LIMITS = sorted({number for name, number in vars(resource).items() if name.startswith("RLIMIT_")})


class Standing(NamedTuple):
    """What the system grants a process: limits by number, each soft and hard; the mask of permissions; priority."""

    limits: dict[int, tuple[int, int]]
    umask: int
    nice: int

    @classmethod
    def own(cls) -> Standing:
        """That of this process. The mask is read where the system shows it: elsewhere it would have to be set."""
        with open("/proc/self/status") as file:
            masks = [int(line.split()[1], 8) for line in file if line.startswith("Umask:")]
        limits = {number: resource.getrlimit(number) for number in _LIMITS}
        return cls(limits, masks[0] if masks else -1, os.getpriority(os.PRIO_PROCESS, 0))

    def take(self) -> None:
        """Make it this process's own, as far as it may: rights that the server had given up do not come back."""
        if self.umask >= 0:
            os.umask(self.umask)
        with contextlib.suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, 0, self.nice)
        for number, limit in self.limits.items():
            with contextlib.suppress(OSError, ValueError):
                if limit != resource.getrlimit(number):
                    resource.setrlimit(number, limit)


class Birth(NamedTuple):
    """What a worker is to be: its setting, and what it would have inherited from its parent."""

    setting: dict[str, Any]
    path: list[str]
    cores: tuple[int, ...]
    environment: dict[str, str | None]
    """What differs from the server's; None where a variable is missing."""
    standing: Standing


def main() -> NoReturn:
    """Serve until the socket, which is descriptor 0, closes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # where it is ignored, nobody learns how a child has ended
    asked = socket.socket(fileno=os.dup(0))
    importlib.import_module(_JOBS).warm_up()
    # What is there now stays: a collection in a worker would only copy the pages that all of them share.
    gc.collect()
    gc.freeze()
    workers = 0
    while select.select([asked], [], [], IDLE)[0] or workers:
        command, descriptors, _, _ = socket.recv_fds(asked, 1, DESCRIPTORS)
        if command == FORK:
            workers += _fork(asked, descriptors, read_request(asked.fileno()))
        elif command == COLLECT:
            (pid,) = NUMBER.unpack(asked.recv(NUMBER.size, socket.MSG_WAITALL))
            asked.sendall(NUMBER.pack(os.waitpid(pid, 0)[1]))
            workers -= 1
        else:
            break
    os._exit(0)


def _fork(asked: socket.socket, descriptors: list[int], birth: Birth) -> bool:
    """Whether there is one worker more. If not, its parent sees that nobody holds the pipe of the replies."""
    try:
        if os.fork() == 0:
            asked.close()
            _become_worker(descriptors, birth)
        return True
    except OSError as error:
        os.write(descriptors[2], f"it could not be forked: {error}".encode())
        return False
    finally:
        for descriptor in descriptors:
            os.close(descriptor)


def _become_worker(descriptors: list[int], birth: Birth) -> NoReturn:
    try:
        os.setsid()
        os.fchdir(descriptors[-1])
        for standard, descriptor in enumerate(descriptors[:-1]):
            os.dup2(descriptor, standard)
        for descriptor in descriptors:
            os.close(descriptor)
        _inherit(birth)
        # Its parent must know whom to kill before anything can go wrong.
        write_reply(1, encode_reply(READY, Reply(os.getpid(), raised=False)))
        worker.serve(birth.setting)
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
    finally:
        os._exit(1)


def _inherit(birth: Birth) -> None:
    birth.standing.take()
    pin(birth.cores)
    sys.path[:] = birth.path
    _mark(birth.environment[MARK] or UNMARKED)
    for name, value in birth.environment.items():
        if value is None:
            del os.environ[name]
        else:
            os.environ[name] = value


def _mark(mark: str) -> None:
    """Put the mark where the system shows it for this process, and for what is forked from it: into the memory that
    held the environment when the program began. What `os.environ` gets is only seen by programs started later."""
    getenv = ctypes.CDLL(None).getenv
    getenv.restype = ctypes.c_void_p
    ctypes.memmove(getenv(MARK.encode()), mark.encode(), len(UNMARKED))
