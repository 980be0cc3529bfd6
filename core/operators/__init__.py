"""Operators: templates and workloads as functions of arrays."""

from pegbox.operators.operator import Implementation, Operator, operator

__all__ = ["Implementation", "Operator", "operator"]
