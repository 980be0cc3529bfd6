"""`bound`: functions of tensors with further arguments, which are equal if these are."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class _Bound:
    function: Callable[..., Any]
    arguments: tuple[Hashable, ...]
    options: tuple[tuple[str, Hashable], ...]

    def __call__(self, *tensors: Any) -> Any:
        return self.function(*self.arguments, *tensors, **dict(self.options))


def bound(function: Callable[..., Any], /, *arguments: Hashable, **options: Hashable) -> Callable[..., Any]:
    """Return a function that passes these arguments before its own, as `functools.partial` does.

    Unlike partials, two with the same function and arguments are equal, so that nodes of one meaning share a
    computation.
    """
    return _Bound(function, arguments, tuple(options.items()))
