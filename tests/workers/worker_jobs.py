"""Jobs for the tests of worker processes."""

from __future__ import annotations

import ctypes
import fcntl
import os
import resource
import signal
import stat
import sys
import threading
import time

_warmed: list[int] = []


def warm_up() -> None:
    _warmed.append(os.getpid())


def warmed_by() -> int | None:
    """The number of the process that has called `warm_up`."""
    return _warmed[0] if _warmed else None


def add(a: int, b: int) -> int:
    return a + b


def big(count: int | bytes) -> bytes:
    return b"x" * (count if isinstance(count, int) else len(count))


def chatter() -> str:
    print("on Python's stdout")
    os.write(1, b"on fd 1\n")
    print("on stderr", file=sys.stderr, flush=True)
    return "done"


def fail() -> None:
    raise ValueError("seven is odd")


def die(number: int) -> None:
    print("farewell", file=sys.stderr, flush=True)
    os.kill(os.getpid(), number)


def leave(status: int) -> None:
    os._exit(status)


def spin() -> None:
    while True:
        pass


def nap(seconds: float) -> None:
    time.sleep(seconds)


def parent() -> int:
    return os.getppid()


def signal_parent(number: int) -> int:
    os.kill(os.getppid(), number)
    return os.getppid()


def kill_parent_and_spin() -> None:
    signal_parent(9)
    spin()


def inherited(name: str) -> list[str | None]:
    """Return the inheritance of a process: a variable, as Python and as the C library have it; the folder; the path."""
    getenv = ctypes.CDLL(None).getenv
    getenv.restype = ctypes.c_char_p
    value = getenv(name.encode())
    return [os.environ.get(name), value and value.decode(), os.getcwd(), sys.path[0]]


def leave_behind() -> int:
    """A process in a session of its own that goes on with this program."""
    pid = os.fork()
    if pid == 0:
        os.setsid()
        time.sleep(600)
        os._exit(0)
    return pid


def interrupt_handler() -> str:
    return repr(signal.getsignal(signal.SIGINT))


def cores() -> list[int]:
    return sorted(os.sched_getaffinity(0))


def swallow(count: int) -> int:
    return len(bytearray(count))


def main_module() -> str | None:
    return getattr(sys.modules["__main__"], "__file__", None)


def reply_descriptor() -> int:
    """The write end of the worker's replies: the only pipe that is open for writing."""
    (found,) = [int(fd) for fd in os.listdir("/proc/self/fd") if _is_pipe_to_write(int(fd))]
    return found


def _is_pipe_to_write(fd: int) -> bool:
    try:
        return stat.S_ISFIFO(os.fstat(fd).st_mode) and fcntl.fcntl(fd, fcntl.F_GETFL) & os.O_ACCMODE == os.O_WRONLY
    except OSError:
        return False


def answer_with(content: bytes) -> None:
    """Write something where the replies go, before the reply does."""
    os.write(reply_descriptor(), content)


def answer_later(content: bytes) -> None:
    """The same on a thread, once the job is done."""
    threading.Timer(0.2, answer_with, [content]).start()


def answer_nothing_more() -> None:
    os.close(reply_descriptor())


def forget_stderr() -> None:
    os.ftruncate(2, 0)
    os.abort()


def strange() -> object:
    return {1, 2}


def stop() -> None:
    """Leave the process unable to take another job."""
    threading.Timer(0.1, os.kill, [os.getpid(), signal.SIGSTOP]).start()


def standing() -> list[int]:
    """Return the limit of open files, the mask of permissions and the priority."""
    mask = os.umask(0)
    return [resource.getrlimit(resource.RLIMIT_NOFILE)[0], mask, os.getpriority(os.PRIO_PROCESS, 0)]
