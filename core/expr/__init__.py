"""Expressions: nodes, building, simplification, bounds, evaluation, printing."""

# Loading `build` is what gives expressions their operators.
from pegbox.expr import build as build
