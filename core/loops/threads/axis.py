"""Thread axes, to which loops are bound so that each iteration is a thread or a block of threads."""

from __future__ import annotations

from pegbox.checks import check_flag, check_text
from pegbox.compute.axis import IterVar, Range
from pegbox.errors import ComputeError
from pegbox.expr.dtypes import integer
from pegbox.loops.kind import ForKind
from pegbox.shown import value_text

TAGS = tuple(kind.value for kind in ForKind if kind.is_thread)


class ThreadAxis(IterVar):
    """A thread axis: `thread_tag` says which; `fixed_extent` is the number of threads, if it was given."""

    __slots__ = ("fixed_extent", "thread_tag")

    def __init__(self, name: str, extent: int | None, tag: str) -> None:
        super().__init__(name, Range(0, extent or 1), "thread")
        self.fixed_extent = extent
        self.thread_tag = tag


def thread_axis(dom: int | tuple[int, int] | Range | str | None = None, tag: str = "", name: str = "") -> ThreadAxis:
    """An axis for `s[T].bind(loop, axis)`.

    Args:
        dom: the number of threads, or (0, number); without it the loop's extent decides. The tag may stand here.
        tag: blockIdx.x/y/z (blocks, which know nothing of each other), threadIdx.x/y/z (the threads of a block, which
            share memory), vthread or vthread.x/y/z (one thread's work, strided).
        name: by default the tag.

    Raises:
        ComputeError: an unknown tag, or a domain that does not start at zero.
    """
    if isinstance(dom, str):
        if check_flag("thread_axis: tag", tag, error=ComputeError):
            raise ComputeError(
                f"thread_axis({value_text(dom)}, {value_text(tag)}): two tags; write thread_axis((0, extent), "
                f"{value_text(tag)})"
            )
        tag, dom = dom, None
    check_text("thread_axis: name", name, error=ComputeError)
    if not isinstance(tag, str) or tag not in TAGS:
        raise ComputeError(f"thread_axis: unknown thread axis {tag!r}; use one of {', '.join(TAGS)}")
    return ThreadAxis(name or tag, _extent(dom, tag), tag)


def _extent(dom: object, tag: str) -> int | None:
    if dom is None:
        return None
    if isinstance(dom, Range):
        dom = (dom.min, dom.extent)
    low, extent = dom if isinstance(dom, tuple | list) and len(dom) == 2 else (0, dom)
    number = integer(extent)
    if integer(low) != 0 or number is None or number < 1:
        raise ComputeError(f"thread_axis({dom!r}, {tag!r}): threads count from 0; give (0, extent) with extent >= 1")
    return number
