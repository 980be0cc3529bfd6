"""The records in effect: those of the innermost `apply_history_best`, in a module that loads nothing else."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Protocol
from weakref import WeakSet

if TYPE_CHECKING:
    from pegbox.records.history import History

_history: ContextVar[History | None] = ContextVar("pegbox_history", default=None)
_blocks: list[History] = []
_followers: WeakSet[Follower] = WeakSet()
_lock = threading.Lock()


def _after_fork() -> None:
    global _lock
    _lock = threading.Lock()  # a thread that is not in this process may have held it


os.register_at_fork(after_in_child=_after_fork)


class Follower(Protocol):
    """An object that has to know when a block begins."""

    def records_apply(self) -> None:
        """Ask for the records in effect from now on, as long as `any_in_effect`."""


def in_effect() -> History | None:
    """Return the history of the innermost block around the caller, in its thread or task."""
    return _history.get()


def any_in_effect() -> bool:
    """Decide whether any thread or task is in such a block."""
    return bool(_blocks)


def follow(follower: Follower) -> None:
    """Let an object hear of blocks as long as it lives."""
    with _lock:
        _followers.add(follower)


@contextmanager
def applied(history: History) -> Iterator[History]:
    """A block in which a history is in effect."""
    with _lock:
        _blocks.append(history)
        followers = list(_followers)
    for each in followers:
        each.records_apply()
    token = _history.set(history)
    try:
        yield history
    finally:
        _history.reset(token)
        with _lock:
            _blocks.remove(history)
