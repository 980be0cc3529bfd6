"""`OwnCall`: objects with a call function of their own."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

_SIGNATURE = inspect.signature(lambda *arrays, out=None: out)


class OwnCall:
    """A base class for objects that each have a call function of their own, such as machine code.

    A method that calls such a function would take longer than the machine code of a small kernel.
    """

    if TYPE_CHECKING:

        def __call__(self, *arrays: Any, out: Any = None) -> Any: ...

    else:
        __slots__ = {"__call__": "Compute from arrays: f(a, b, out=c)."}

    def call_by(self, function: Callable[..., Any]) -> None:
        """Call the object by this function; derived classes reach it by `super().__call__`."""
        _slot.__set__(self, function)
        self.__signature__ = _SIGNATURE


_slot: Any = vars(OwnCall).get("__call__")
