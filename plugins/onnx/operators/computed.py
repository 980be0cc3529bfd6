"""`computed`, the single stage of most operators."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pegbox import te


def computed(shape: Sequence[int], element: Callable[..., Any], *, name: str) -> te.Tensor:
    """Make a tensor from a function of the indices."""
    made: te.Tensor = te.compute(tuple(shape), element, name=name)
    return made
