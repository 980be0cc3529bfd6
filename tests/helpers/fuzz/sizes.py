"""Random TE schedules of computations whose extents are size variables, lowered for several sizes."""

from __future__ import annotations

import random
from typing import Any

import pegbox as pb
from fuzz import dtypes
from fuzz.cases import Tally
from fuzz.checks import machine_code
from fuzz.drawing import Graph
from fuzz.kernels import Effort
from fuzz.schedules import called
from pegbox import te
from pegbox.codegen import Target
from pegbox.compute.tensor import Tensor
from pegbox.errors import ScheduleError

_SIZES = (1, 2, 3, 7, 8, 9, 16, 17, 33, 65, 129)


def draw_sized(rng: random.Random, n: Any, m: Any) -> Graph:
    """A chain of stages over tensors of n rows and about m columns; what is drawn does not depend on the sizes."""
    last = te.placeholder((n, m), dtypes.draw(rng), "A")
    inputs = [last]
    for number in range(rng.randint(1, 3)):
        form, dtype, name = rng.choice(_FORMS), dtypes.draw(rng), f"S{number}"
        last = form(last, dtype, name, inputs, n, m)
    return Graph("sizes", (*inputs, last), (last,))


def _calm(tensor: Tensor, *indices: Any) -> Any:
    low, high = (te.const(number, tensor.dtype) for number in (dtypes.lowest(tensor.dtype, 4), 4))
    return te.maximum(te.minimum(tensor[indices], high), low)


def _convert(a: Any, dtype: str, name: str, inputs: list[Tensor], n: Any, m: Any) -> Any:
    return te.compute(a.shape, lambda i, j: dtypes.cast(dtype, _calm(a, i, j)) + te.cast(dtype, i % 2), name)


def _shift(a: Any, dtype: str, name: str, inputs: list[Tensor], n: Any, m: Any) -> Any:
    zero = te.const(0, a.dtype)
    return te.compute(a.shape, lambda i, j: te.if_then_else(j > 0, _calm(a, i, j - 1), zero), name)


def _border(a: Any, dtype: str, name: str, inputs: list[Tensor], n: Any, m: Any) -> Any:
    return te.compute(
        a.shape, lambda i, j: _calm(a, i, j) + a[te.minimum(i + 1, n - 1), te.maximum(j - 1, 0)] * 0, name
    )


def _columns(a: Any, dtype: str, name: str, inputs: list[Tensor], n: Any, m: Any) -> Any:
    wide, k = dtypes.wide(a.dtype, 4 * max(_SIZES)), te.reduce_axis((0, a.shape[1]), "k")
    rows = te.compute((n,), lambda i: te.sum(te.cast(wide, _calm(a, i, k)), axis=k), f"{name}r")
    return te.compute((n, m), lambda i, j: te.cast("int32", rows[i]) + te.cast("int32", j), name)


def _product(a: Any, dtype: str, name: str, inputs: list[Tensor], n: Any, m: Any) -> Any:
    wide, k = dtypes.wide(a.dtype, 16 * max(_SIZES)), te.reduce_axis((0, a.shape[1]), "k")
    b = te.placeholder((a.shape[1], m), a.dtype, f"{name}b")
    inputs.append(b)
    return te.compute((n, m), lambda i, j: te.sum(te.cast(wide, _calm(a, i, k)) * te.cast(wide, b[k, j]), axis=k), name)


_FORMS = (_convert, _convert, _shift, _border, _columns, _product)


def check_sizes(
    seed: int, steps: tuple[int, ...], rng: random.Random, target: Target, effort: Effort, tally: Tally
) -> None:
    """One schedule for three sets of sizes; a schedule that is not legal for some is refused there."""
    n, m = te.var("n"), te.var("m")
    graph = draw_sized(random.Random(seed), n, m)
    s, _ = called(graph, steps, tally)
    for _ in range(3):
        sizes = rng.choice(_SIZES), rng.choice(_SIZES)
        try:
            lowered = pb.lower(s, graph.tensors, sizes={n: sizes[0], m: sizes[1]})
        except ScheduleError:
            tally.refused["(a schedule for some sizes)"] += 1
            continue
        tally.checked["sizes"] += 1
        machine_code(lowered, draw_sized(random.Random(seed), *sizes), target, effort)
