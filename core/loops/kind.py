"""Loop kinds: how the iterations of a loop run, and which memory they use together.

A loop that is bound to a thread axis is of the kind of that axis. A program with such loops may be read loop by loop,
as if all were serial: each thread then does for itself whatever stands below it. That reading always gives the right
values, and is what all checks and the interpreters go by. What threads do beyond it is in `pegbox.loops.threads`.
"""

from __future__ import annotations

from enum import Enum


class ForKind(str, Enum):
    """The kind of a loop; the last ten are thread axes.

    Attributes:
        in_order: the iterations run one after the other.
        is_concurrent: threads of a CPU or a GPU share the iterations.
        is_thread: the loop is bound to a thread axis.
        is_block: it is bound to blocks of threads.
        in_block: it is bound to the threads of a block, or to virtual ones.
    """

    SERIAL = "serial"
    PARALLEL = "parallel"
    VECTORIZED = "vectorized"
    UNROLLED = "unrolled"
    BLOCK_X = "blockIdx.x"
    BLOCK_Y = "blockIdx.y"
    BLOCK_Z = "blockIdx.z"
    THREAD_X = "threadIdx.x"
    THREAD_Y = "threadIdx.y"
    THREAD_Z = "threadIdx.z"
    VIRTUAL = "vthread"
    VIRTUAL_X = "vthread.x"
    VIRTUAL_Y = "vthread.y"
    VIRTUAL_Z = "vthread.z"

    def __init__(self, axis: str) -> None:
        self.is_block = axis.startswith("block")
        self.in_block = axis.startswith(("thread", "vthread"))
        self.is_thread = self.is_block or self.in_block
        self.is_concurrent = self.is_thread or axis == "parallel"
        self.in_order = axis in ("serial", "unrolled")

    def __str__(self) -> str:
        return "thread" if self.is_thread else self.value

    @property
    def in_words(self) -> str:
        """The kind as a message says it: "serial", "vectorized", "bound to threadIdx.x"."""
        return f"bound to {self.value}" if self.is_thread else self.value

    def shares(self, scope: str) -> bool:
        """Do the iterations of a thread loop see one buffer of that scope together?

        All threads share "global" memory, those of a block "shared" memory, those along threadIdx.x "warp" memory;
        "local" memory belongs to one thread. What is computed below the loop into such a buffer is for all of its
        iterations.
        """
        if not self.is_thread or scope == "local":
            return False
        if scope == "warp":
            return self is ForKind.THREAD_X
        return is_global(scope) or self.in_block


THREADS = (ForKind.THREAD_X, ForKind.THREAD_Y, ForKind.THREAD_Z)
VIRTUAL = (ForKind.VIRTUAL, ForKind.VIRTUAL_X, ForKind.VIRTUAL_Y, ForKind.VIRTUAL_Z)
SCOPES = ("global", "local", "shared", "shared.dyn", "warp")


def is_global(scope: str) -> bool:
    """Is it the memory that all threads share, which may have a name, as in "global.accumulator"?"""
    return scope.partition(".")[0] == "global"
