"""Einsum."""

from __future__ import annotations

from functools import reduce
from typing import Any

from pegbox import te
from pegbox.plugins.onnx.operator import OperatorNode, operator
from pegbox.plugins.onnx.operators.computed import computed
from pegbox.plugins.onnx.operators.shapes import Index


@operator("Einsum")
def einsum(node: OperatorNode, *tensors: te.Tensor) -> te.Tensor:
    text = node.get("equation").replace(" ", "")
    given, arrow, wanted = text.partition("->")
    terms = given.split(",")
    if len(terms) != len(tensors):
        raise node.refuse(f"{text!r} has {len(terms)} terms for {len(tensors)} inputs")
    rank = max(
        (x.ndim - len(t.replace("...", "")) for t, x in zip(terms, tensors, strict=True) if "..." in t), default=0
    )
    labels = [_labels(term, x.ndim) for term, x in zip(terms, tensors, strict=True)]
    extents: dict[str, int] = {}
    for own, x in zip(labels, tensors, strict=True):
        for label, extent in zip(own, x.shape, strict=True):
            if extents.get(label, 1) not in (1, extent) and extent != 1:
                raise node.refuse(f"{text!r}: the index {label} has the extents {extents[label]} and {extent}")
            extents[label] = max(extents.get(label, 1), extent)
    if not arrow:  # the indices that occur once, in alphabetical order
        letters = given.replace("...", "").replace(",", "")
        wanted = "..." + "".join(sorted(each for each in set(letters) if letters.count(each) == 1))
    result = _labels(wanted, rank + len(wanted.replace("...", "")))
    summed = {label: te.reduce_axis((0, e), name=f"r_{label}") for label, e in extents.items() if label not in result}

    def element(*at: Index) -> Any:
        places = {**summed, **dict(zip(result, at, strict=True))}
        factors = [
            x(*(0 if e == 1 else places[label] for label, e in zip(own, x.shape, strict=True)))
            for own, x in zip(labels, tensors, strict=True)
        ]
        value = reduce(lambda a, b: a * b, factors)
        return te.sum(value, axis=list(summed.values())) if summed else value

    return computed([extents[label] for label in result], element, name="Einsum")


def _labels(term: str, rank: int) -> list[str]:
    """Return the labels of a term's axes: letters, and numbers from the end for those of an ellipsis."""
    before, ellipsis, after = term.partition("...")
    hidden = rank - len(before) - len(after) if ellipsis else 0
    return [*before, *(str(n) for n in range(hidden, 0, -1)), *after]
