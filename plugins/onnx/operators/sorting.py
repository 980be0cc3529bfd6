"""Operators that order elements.

Elements are compared by integers of the same order, in which both zeros are equal and NaN, as in NumPy, is the largest.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pegbox import te
from pegbox.plugins.onnx.operator import OperatorNode, operator
from pegbox.plugins.onnx.operators.computed import computed
from pegbox.plugins.onnx.operators.shapes import Index, at_axis, axis_of

FEW = 4
"""The smallest ratio of all elements to the picked ones for which picking one by one is faster than ranks."""

MANY = 24
"""The number of elements from which finding the last one first is faster than picking one by one."""

LONG = 128
"""The length of rows from which that is faster than ranks, unless nearly all elements are needed."""


@operator("TopK", constants=(1,))
def top_k(node: OperatorNode, x: te.Tensor) -> tuple[te.Tensor, te.Tensor]:
    axis, count = axis_of(node, node.get("axis", -1), x.ndim), node.scalar(1, "k")
    extent, rows = x.shape[axis], (*x.shape[:axis], *x.shape[axis + 1 :])
    if not 1 <= count <= extent:
        raise node.refuse(f"k={count} of {extent} elements")

    def key(*at: Index) -> Any:
        found = _key(x(*at[:axis], at[-1], *at[axis:-1]))
        return found if node.get("largest", 1) else -1 - found

    places = _method(extent, count)(computed((*rows, extent), key, name="keys"), count)
    shape = at_axis(x.shape, axis, count)

    def place(at: Any) -> Any:
        return places(*at[:axis], *at[axis + 1 :], at[axis])

    return (
        computed(shape, lambda *at: x(*at_axis(at, axis, place(at))), name="TopK"),
        computed(shape, lambda *at: te.cast("int64", place(at)), name="indices"),
    )


def _method(extent: int, count: int) -> Callable[[te.Tensor, int], te.Tensor]:
    """Choose the function that finds the places of the `count` largest keys of each row, in order."""
    if count < MANY and FEW * count <= extent:
        return _one_by_one
    return _last_first if extent >= LONG and 4 * count <= 3 * extent else _by_ranks


def _key(x: Any) -> Any:
    """Map a number to an integer of the same order."""
    if x.dtype in ("float16", "bfloat16"):
        x = te.cast("float32", x)
    bits = int(x.dtype.lstrip("uintfloa"))
    key = f"int{max(bits, 32)}"
    if x.dtype.startswith("float"):
        places = te.reinterpret(key, x)
        ordered = te.if_then_else(places < 0, te.min_value(key) - places, places)
        return te.if_then_else(te.isnan(x), te.max_value(key), ordered)
    if x.dtype.startswith("uint") and bits >= 32:
        return te.reinterpret(key, te.bitwise_xor(x, te.const(1 << bits - 1, x.dtype)))
    return te.cast(key, x)


def _by_ranks(keys: te.Tensor, count: int) -> te.Tensor:
    """Find the place of each element by counting those before it, so that steps are independent."""
    *rows, extent = keys.shape
    j = te.reduce_axis((0, extent), name="j")
    i = te.reduce_axis((0, extent), name="i")

    def rank(*at: Index) -> Any:
        own, other = keys(*at), keys(*at[:-1], j)
        return te.sum(_one(te.any(other > own, te.all(other.equal(own), j < at[-1]))), axis=j)

    ranks = computed(keys.shape, rank, name="ranks")

    def place(*at: Index) -> Any:
        here = ranks(*at[:-1], i).equal(te.cast("int32", at[-1]))
        return te.max(te.if_then_else(here, te.cast("int32", i), te.const(0, "int32")), axis=i)

    return computed((*rows, count), place, name="places")


def _one_by_one(keys: te.Tensor, count: int) -> te.Tensor:
    """Find each element as the best after its predecessor. Equal elements keep their order."""
    *rows, extent = keys.shape
    steps = count + 1, *rows
    values, places = te.placeholder(steps, keys.dtype, "values"), te.placeholder(steps, "int32", "places")
    j = te.reduce_axis((0, extent), name="j")
    i = te.reduce_axis((0, extent), name="i")

    def is_left(t: Index, row: Any, place: Index) -> Any:
        own, before = keys(*row, place), values(t - 1, *row)
        return te.any(own < before, te.all(own.equal(before), te.cast("int32", place) > places(t - 1, *row)))

    def value(t: Index, *row: Index) -> Any:
        left = te.if_then_else(is_left(t, row, j), keys(*row, j), te.min_value(keys.dtype))
        return te.max(left, axis=j)

    new_values = computed(steps, value, name="value")

    def place(t: Index, *row: Index) -> Any:
        here = te.all(is_left(t, row, i), keys(*row, i).equal(new_values(t, *row)))
        return te.min(te.if_then_else(here, te.cast("int32", i), te.const(extent - 1, "int32")), axis=i)

    new_places = computed(steps, place, name="place")
    first = (1, *rows)
    starts = [
        computed(first, lambda *at: te.max_value(keys.dtype), name="first"),
        computed(first, lambda *at: te.const(-1, "int32"), name="first"),
    ]
    found = te.scan(starts, [new_values, new_places], [values, places], name="TopK")
    return computed((*rows, count), lambda *at: found[1](at[-1] + 1, *at[:-1]), name="places")


def _last_first(keys: te.Tensor, count: int) -> te.Tensor:
    """Find the last element by its bits, then those before it, and order them by their ranks."""
    *rows, _ = keys.shape
    last = _last(keys, count)
    before = computed(keys.shape, lambda *at: _one(keys(*at) > last(*at[:-1])), name="before")
    equal = computed(keys.shape, lambda *at: _one(keys(*at).equal(last(*at[:-1]))), name="equal")
    chosen = _chosen(te.cumsum(before), te.cumsum(equal), count)
    some = computed((*rows, count), lambda *at: keys(*at[:-1], chosen(*at)), name="some")
    order = _by_ranks(some, count)
    return computed((*rows, count), lambda *at: chosen(*at[:-1], order(*at)), name="places")


def _last(keys: te.Tensor, count: int) -> te.Tensor:
    """Find the smallest key of the `count` largest, bit by bit."""
    (*rows, extent), bits = keys.shape, int(keys.dtype[3:])
    steps = bits + 1, *rows
    least = te.placeholder(steps, keys.dtype, "least")
    j = te.reduce_axis((0, extent), name="j")

    def larger(t: Index, row: Any) -> Any:
        return te.bitwise_xor(least(t - 1, *row), te.shift_left(te.const(1, keys.dtype), te.cast(keys.dtype, bits - t)))

    above = computed(steps, lambda t, *row: te.sum(_one(keys(*row, j) >= larger(t, row)), axis=j), name="above")

    def new(t: Index, *row: Index) -> Any:
        return te.if_then_else(above(t, *row) >= count, larger(t, row), least(t - 1, *row))

    first = computed((1, *rows), lambda *at: te.min_value(keys.dtype), name="first")
    found = te.scan(first, computed(steps, new, name="least"), least, name="last")
    return computed(rows, lambda *row: found(bits, *row), name="last")


def _chosen(before: te.Tensor, equal: te.Tensor, count: int) -> te.Tensor:
    """Find the place of each of `count` elements by bisection of counts: those before the last, its equals."""
    *rows, extent = before.shape
    levels = extent.bit_length()
    steps = (levels + 1, *rows, count)
    place = te.placeholder(steps, "int32", "place")

    def new(t: Index, *at: Index) -> Any:
        *row, r = at
        known, number = place(t - 1, *at), te.cast("int32", r)
        probe = known + te.shift_left(te.const(1, "int32"), te.cast("int32", levels - t))
        seen, first = te.min(probe, extent) - 1, before(*row, extent - 1)
        counted = te.if_then_else(number < first, before(*row, seen), first + equal(*row, seen))
        return te.if_then_else(te.all(probe <= extent, counted <= number), probe, known)

    first = computed((1, *rows, count), lambda *at: te.const(0, "int32"), name="first")
    found = te.scan(first, computed(steps, new, name="place"), place, name="chosen")
    return computed((*rows, count), lambda *at: found(levels, *at), name="chosen")


def _one(condition: Any) -> Any:
    return te.cast("int32", condition)
