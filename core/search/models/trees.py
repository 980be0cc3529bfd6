"""`Trees`: pretrained regression trees, evaluated in NumPy.

Loading a package for gradient boosting takes as long as a whole prediction may take, so pegbox ships only the trees.
They are complete: a leaf above the last level is repeated below itself. All rows then descend all trees one level at a
time, without branches (Kim et al., "FAST: Fast Architecture Sensitive Tree Search", SIGMOD 2010).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from pegbox.search.protocols import Features, Floats

_ROWS = 32
"""The number of rows that descend together, so few that their places stay in cache."""


@dataclass(frozen=True, eq=False)
class Trees:
    """A sum of regression trees of equal depth.

    Attributes:
        features: the columns that the inner nodes test, (trees, 2^depth - 1), the root first, then each level.
        thresholds: the nodes' thresholds, of the same shape; a row with a smaller value goes left.
        values: the values of the leaves, (trees, 2^depth).
    """

    features: npt.NDArray[np.int16]
    thresholds: npt.NDArray[np.float32]
    values: npt.NDArray[np.float32]

    def __call__(self, rows: Features) -> Floats:
        """Compute the sum of the trees for rows of features, (n, columns); shape (n,)."""
        parts = [self._sums(rows[start : start + _ROWS]) for start in range(0, len(rows), _ROWS)]
        return np.concatenate([np.empty(0), *parts])

    def _sums(self, rows: Features) -> Floats:
        count, inner = self.features.shape
        trees = np.arange(count)
        columns, thresholds = self.features.ravel(), self.thresholds.ravel()
        first = (np.arange(len(rows)) * rows.shape[1])[:, None]
        values = np.ascontiguousarray(rows, dtype=np.float32).ravel()
        node = np.zeros((len(rows), count), dtype=np.intp)
        while node[0, 0] < inner:
            place = node + trees * inner
            node = 2 * node + 1 + (values.take(first + columns.take(place)) >= thresholds.take(place))
        leaves: Floats = self.values.ravel().take(node - inner + trees * (inner + 1)).sum(axis=1, dtype=np.float64)
        return leaves

    @classmethod
    def of_xgboost(cls, models: Sequence[dict[str, Any]], depth: int) -> Trees:
        """Read the trees of boosters from `json.loads(booster.save_raw("json"))`; their sums are averaged.

        Args:
            depth: the number of tests on the longest way to a leaf.
        """
        trees = [tree for model in models for tree in model["learner"]["gradient_booster"]["model"]["trees"]]
        inner = 2**depth - 1
        features = np.zeros((len(trees), inner), np.int16)
        thresholds = np.full((len(trees), inner), np.inf, np.float32)
        values = np.zeros((len(trees), inner + 1), np.float32)

        def place(number: int, node: int, at: int) -> None:
            tree = trees[number]
            left, right = tree["left_children"][node], tree["right_children"][node]
            if at >= inner:
                values[number, at - inner] = tree["split_conditions"][node] / len(models)
            elif left < 0:
                place(number, node, 2 * at + 1)  # the threshold is infinite, so that no row goes right
            else:
                features[number, at] = tree["split_indices"][node]
                thresholds[number, at] = tree["split_conditions"][node]
                place(number, left, 2 * at + 1)
                place(number, right, 2 * at + 2)

        for number in range(len(trees)):
            place(number, 0, 0)
        return cls(features, thresholds, values)
