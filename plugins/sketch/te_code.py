"""Sketches as te code: the computation, the knobs, and the schedule."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pegbox.compute import ComputeOp, Tensor, post_order, te_lines, tensor_names
from pegbox.loops import literal

RESERVED = ("s", "cfg", "pb", "np", "math", "list", "ValueError")
"""The names in a template's code that are not te code."""


def compute_lines(arguments: Sequence[Tensor], tensors: Mapping[str, Tensor]) -> list[str]:
    """Return the te code of a computation, inputs in the order of the arguments first."""
    outputs = [t.op for t in arguments if isinstance(t.op, ComputeOp)]
    given = [t.op for t in arguments if not isinstance(t.op, ComputeOp)]
    ops = [*given, *(op for op in post_order(outputs) if op not in given)]
    return list(te_lines(ops, {tensor.buffer: name for name, tensor in tensors.items()}))


def plain_lines(outputs: Sequence[Tensor], tensors: Mapping[str, Tensor]) -> list[str]:
    """Return the te code of a function that computes other outputs from the inputs named by `tensors`."""
    ops = [op for op in post_order([t.op for t in outputs]) if isinstance(op, ComputeOp)]
    given = {tensor.buffer: name for name, tensor in tensors.items() if not isinstance(tensor.op, ComputeOp)}
    names = {**tensor_names(ops, {*RESERVED, *given.values()}), **given}
    return [*te_lines(ops, names), f"return [{', '.join(names[t.buffer] for t in outputs)}]"]


def list_of(values: Iterable[Any]) -> str:
    """Return a list of numbers, strings and tuples of them."""
    return f"[{', '.join(map(literal, values))}]"
