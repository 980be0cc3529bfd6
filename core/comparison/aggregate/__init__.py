"""The aggregate of a comparison over its spaces: performance, targets reached, ranks, and features of the spaces."""

from pegbox.comparison.aggregate.aggregate import Aggregate, Pair, Score, aggregate
from pegbox.comparison.aggregate.suspicion import Suspicion

__all__ = ["Aggregate", "Pair", "Score", "Suspicion", "aggregate"]
