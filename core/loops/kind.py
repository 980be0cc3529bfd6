"""Loop kinds: the execution of a loop's iterations, and the memory that they share.

A loop bound to a thread axis has the kind of that axis. A program with such loops may be read loop by loop, as if all
were serial: each thread then does all the work below it by itself. This reading always gives the right values, and all
checks and interpreters use it. `pegbox.loops.threads` handles the cooperation of threads.
"""

from __future__ import annotations

from enum import Enum


class ForKind(str, Enum):
    """The kind of a loop; the last ten are thread axes.

    Attributes:
        in_order: the iterations run one after the other.
        is_concurrent: threads of a CPU or a GPU share the iterations.
        is_bound: the loop is bound to a thread axis.
        waits: it is bound to the threads of a block, which wait for each other, or to virtual ones.
        cooperates: its iterations are the threads of a block, which share work and reduce together.
        has_one_extent: all loops of the kind in a kernel have the same number of iterations.
        word: the name of the kind in scripts.
        option: the name of the argument that distinguishes kinds with the same word; "" if there is only one.
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
        self.waits = axis.startswith(("thread", "vthread"))
        self.cooperates = axis.startswith("thread")
        self.is_bound = self.waits or axis.startswith("block")
        self.has_one_extent = self.is_bound and not axis.startswith("v")
        self.is_concurrent = self.is_bound or axis == "parallel"
        self.in_order = axis in ("serial", "unrolled")
        self.word = "thread_binding" if self.is_bound else "unroll" if axis == "unrolled" else axis
        self.option = "thread" if self.is_bound else ""

    def __str__(self) -> str:
        return "thread" if self.is_bound else self.value

    @property
    def in_words(self) -> str:
        """The kind in messages: "serial", "vectorized", "bound to threadIdx.x"."""
        return f"bound to {self.value}" if self.is_bound else self.value

    def shares(self, scope: str) -> bool:
        """Check if the iterations of a thread loop share one buffer of that scope.

        All threads share "global" memory, those of a block "shared" memory, those along threadIdx.x "warp" memory;
        "local" memory belongs to one thread. A block below the loop computes such a buffer for all iterations.
        """
        if not self.is_bound or scope == "local":
            return False
        if scope == "warp":
            return self is ForKind.THREAD_X
        return is_global(scope) or self.waits


AXES = tuple(kind.value for kind in ForKind if kind.is_bound)
"""The thread axes."""

SCOPES = ("global", "local", "shared", "shared.dyn", "warp")


def is_global(scope: str) -> bool:
    """Check if a scope is the memory that all threads share, which may have a name, as in "global.accumulator"."""
    return scope.partition(".")[0] == "global"
