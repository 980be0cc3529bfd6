"""The meaning of thread axes: which memory scopes the threads along each axis share, and its extent.

A program with thread loops may be read loop by loop, as if all were serial: each thread then does for itself whatever
stands below it. That reading always gives the right values, and is what all checks and the interpreters go by. Scripts
in which a thread reads what others wrote in the same loop are given that form when they are read: see
`pegbox.loops.threads.barrier`. Below the threads of a block, one more loop of the same axis is cooperation: the threads
share that work, between barriers. `pegbox.loops.threads.cooperation` finds it, and lets it be done once.
"""

from __future__ import annotations

from pegbox.compute.thread_axis import BLOCK_TAGS, THREAD_TAGS
from pegbox.loops.nodes import For, ForKind, thread_tag


def is_block(loop: For) -> bool:
    """Is the loop bound to blocks of threads?"""
    return thread_tag(loop) in BLOCK_TAGS


def is_thread(loop: For) -> bool:
    """Is the loop bound to the threads of a block (virtual ones do not count)?"""
    return thread_tag(loop) in THREAD_TAGS


def in_block(loop: For) -> bool:
    """Do the loop's iterations run in one block: is it bound to threads, virtual ones included?"""
    return loop.kind is ForKind.THREAD and not is_block(loop)


def is_global(scope: str) -> bool:
    """Is it the memory that all threads share, which may have a name, as in "global.accumulator"?"""
    return scope.partition(".")[0] == "global"


def is_shared(scope: str, loop: For) -> bool:
    """Do the iterations of a thread loop see one buffer of that scope together?

    All threads share "global" memory, those of a block "shared" memory, those along threadIdx.x "warp" memory; "local"
    memory belongs to one thread. What is computed below the loop into such a buffer is for all of its iterations.
    """
    if loop.kind is not ForKind.THREAD or scope == "local":
        return False
    if scope == "warp":
        return thread_tag(loop) == "threadIdx.x"
    return is_global(scope) or in_block(loop)
