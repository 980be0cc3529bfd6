"""Encoding of configs as rows of features for cost models.

Each knob brings a table of features, one row per digit; encoding is looking rows up. A knob with a condition gets one
more feature that is 1 where the knob exists; where it does not, all its features are 0.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pegbox.space.digits import Digits
from pegbox.space.structure import Structure


@dataclass(frozen=True)
class Encoder:
    """Feature names, and per knob a float32 table whose row 0 stands for "does not exist"."""

    names: tuple[str, ...]
    tables: tuple[NDArray[np.float32], ...]

    def encode(self, structure: Structure, digits: Digits) -> NDArray[np.float32]:
        """float32 array of shape (len(digits), len(self.names))."""
        rows = np.where(structure.active(digits), digits + 1, 0)
        encoded = np.empty((len(digits), len(self.names)), dtype=np.float32)
        start = 0
        for column, table in enumerate(self.tables):
            encoded[:, start : start + table.shape[1]] = table[rows[:, column]]
            start += table.shape[1]
        return encoded


def encoder(structure: Structure) -> Encoder:
    """Collect the tables of all knobs."""
    names: list[str] = []
    tables: list[NDArray[np.float32]] = []
    for column, knob in enumerate(structure.knobs):
        labels, table = knob.features()
        if column in structure.conditions:
            labels, table = [*labels, f"{knob.name}.exists"], np.column_stack([table, np.ones(len(table))])
        names += labels
        absent = np.zeros((1, table.shape[1]))
        tables.append(np.concatenate([absent, table]).astype(np.float32))
    return Encoder(tuple(names), tuple(tables))
