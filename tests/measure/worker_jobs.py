"""Jobs for the tests of worker processes."""

from __future__ import annotations

import os
import signal
import sys
import time


def add(a: int, b: int) -> int:
    return a + b


def big(count: int) -> bytes:
    return b"x" * count


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


def interrupt_handler() -> str:
    return repr(signal.getsignal(signal.SIGINT))


def cores() -> list[int]:
    return sorted(os.sched_getaffinity(0))


def swallow(count: int) -> int:
    return len(bytearray(count))


def main_module() -> str | None:
    return getattr(sys.modules["__main__"], "__file__", None)
