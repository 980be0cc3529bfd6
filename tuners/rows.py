"""Configurations as rows of digits, for tuners' array operations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from pegbox.space import Config, ConfigSpace, ListedSpace

Digits: TypeAlias = npt.NDArray[np.int64]
"""Configurations as rows of digits, one column per knob: shape (n, knobs)."""
Places: TypeAlias = npt.NDArray[np.intp]
"""Indices of rows."""

WHOLE = 8192
"""The largest number of configurations to score the whole space: a search would examine as many, and miss some."""


def rows_of(configs: Sequence[Config]) -> Digits:
    """Return configurations as rows of digits, shape (n, knobs)."""
    return np.array([config.digits for config in configs], dtype=np.int64)


def keys_of(rows: Digits) -> list[bytes]:
    """Return one hashable key for each row; keys are equal if the rows are."""
    raw = np.ascontiguousarray(rows).tobytes()
    width = rows.shape[1] * rows.itemsize
    return [raw[start : start + width] for start in range(0, len(raw), width)] if width else [b""] * len(rows)


def every_row(space: ConfigSpace) -> Digits | None:
    """Return every valid configuration, if the space has few points or is a short list; shape (n, knobs)."""
    if isinstance(space, ListedSpace):
        return space.rows if len(space.rows) <= WHOLE else None
    if space.size > WHOLE:
        return None
    found = [config.digits for config in space.iterate()]
    return np.array(found, dtype=np.int64).reshape(len(found), len(space.knobs))
