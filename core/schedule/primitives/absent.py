"""Refusals of primitives that only TVM's `tir.Schedule` has: each message gives the reason and an alternative."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from pegbox.errors import ScheduleError
from pegbox.schedule.errors import add_call

# Name: (the reason that it does not exist, the alternative).
REFUSED = {
    "cache_inplace": (
        "a program that updates a parameter in place keeps its order",
        "use cache_read and cache_write on programs whose results have buffers of their own",
    ),
    "cache_index": (
        "indices are not values of the program",
        "compute them in a block of their own, as a buffer of integers",
    ),
    "unsafe_set_dtype": (
        "it would change what is computed",
        "write the computation with casts: te.cast, or T.cast in a script",
    ),
    "unsafe_hide_buffer_access": (
        "regions that are not true would make later steps wrong",
        "tensorize looks at the accesses themselves: describe them in the intrinsic",
    ),
    "annotate_buffer_access": (
        "regions are worked out from the accesses and checked",
        "write T.reads and T.writes in a script, where they hold all that the block uses",
    ),
    "get_sref": (
        "a schedule has no references to statements other than its loops and blocks",
        "sch.get(block or loop) gives the node of the program",
    ),
}


def refusal(name: str) -> Callable[..., NoReturn]:
    """Return a method that always raises, with the reason that the primitive does not exist."""
    why, remedy = REFUSED[name]

    def refused(_sch: object, *args: Any, **options: Any) -> NoReturn:
        error = ScheduleError(why, remedy)
        add_call(error, name, args, options)
        raise error

    refused.__name__ = name
    refused.__doc__ = f"Always refused: {why}.\n\nRaises:\n    ScheduleError: {remedy}."
    return refused
