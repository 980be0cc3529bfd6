"""The size limit of a template's arrays."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from pegbox.errors import TemplateError
from pegbox.expr import nbytes

_MOST_BYTES = 1 << 47
"""The bytes that a process can address."""


def check_array_sizes(name: str, shapes: Iterable[Sequence[int]], dtype: str) -> None:
    """Check that a process can address arrays of these shapes.

    Raises:
        TemplateError: one is too large; the message begins with the name of the template.
    """
    for shape in shapes:
        if math.prod(shape) * nbytes(dtype) > _MOST_BYTES:
            sizes = " × ".join(map(str, shape))
            raise TemplateError(f"{name}: an array of {sizes} {dtype} has more than 2^47 bytes; give smaller sizes")
