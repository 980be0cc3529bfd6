"""Tags of operations from a `with` block, for finding operations."""

from __future__ import annotations

from contextlib import ContextDecorator
from contextvars import ContextVar

from pegbox.checks import check_text
from pegbox.errors import ComputeError

_current: ContextVar[str] = ContextVar("tag", default="")


class TagScope(ContextDecorator):
    """A block, `with te.tag_scope("relu"):`, or a decorator, whose computations get the tag."""

    def __init__(self, tag: str) -> None:
        self.tag = check_text("tag_scope: tag", tag, error=ComputeError)
        if not tag:
            raise ComputeError("tag_scope(''): give a word")

    def __enter__(self) -> TagScope:
        if _current.get():
            raise ComputeError(f"tag_scope({self.tag!r}) inside tag_scope({_current.get()!r}): tags are not nested")
        _current.set(self.tag)
        return self

    def __exit__(self, *error: object) -> None:
        _current.set("")


tag_scope = TagScope


def tag_of(name: str, tag: object) -> str:
    """Return the tag of an operation: its own, or that of the block around.

    Raises:
        ComputeError: it is not a string, or there are both.
    """
    own = check_text(f"{name}: tag", tag, error=ComputeError)
    if own and _current.get():
        raise ComputeError(f"{name}: tag={own!r} inside tag_scope({_current.get()!r}): tags are not nested")
    return own or _current.get()
