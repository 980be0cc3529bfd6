"""Random scripts that change arrays in place: loops of all kinds over a few buffers of several types."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from interpreter import interpret
from numpy.typing import NDArray

from fuzz import dtypes, values
from fuzz.checks import Different
from fuzz.kernels import Effort, run_kernel
from pegbox.codegen import Target
from pegbox.expr.dtypes import is_float, is_unsigned
from pegbox.loops.nodes import Function
from pegbox.loops.passes import lower_function
from pegbox.tir.script import from_source

_EXTENTS = (1, 2, 5, 8, 9, 16, 17, 31, 33, 65)
_LANES = (2, 4, 8, 16, 32)


@dataclass(frozen=True)
class _Array:
    name: str
    dtype: str


def draw_script(rng: random.Random) -> str:
    """The text of a function of two to four vectors of one length."""
    n = rng.choice(_EXTENTS)
    arrays = [_Array(f"A{number}", dtypes.draw(rng)) for number in range(rng.randint(2, 4))]
    in_blocks = rng.random() < 0.5
    lines: list[str] = []
    for number in range(rng.randint(1, 4)):
        target = rng.choice(arrays)
        form = rng.choice(_FORMS)
        lines += form(rng, target, arrays, n, f"b{number}" if in_blocks else "")
    parameters = ", ".join(f'{a.name}: T.Buffer(({n},), "{a.dtype}")' for a in arrays)
    body = "\n".join(f"    {line}" for line in lines)
    return f"from pegbox.tir.script import tir as T\n\n@T.prim_func\ndef main({parameters}) -> None:\n{body}\n"


def _value(rng: random.Random, target: _Array, sources: Sequence[_Array], index: str) -> str:
    """An expression of the target's type, of elements at one index; its magnitude is small."""

    def element(array: _Array) -> str:
        low, high = dtypes.lowest(array.dtype, 9), 9
        if is_float(array.dtype) and is_unsigned(target.dtype):
            low = 0
        found = f"T.max(T.min({array.name}[{index}], T.{array.dtype}({high})), T.{array.dtype}({low}))"
        return found if array.dtype == target.dtype else f'T.Cast("{target.dtype}", {found})'

    a, b = element(rng.choice(sources)), element(rng.choice(sources))
    one = f"T.{target.dtype}(1)"
    return rng.choice((a, f"{a} + {b}", f"{a} * {b} - {one}", f"T.if_then_else({a} < {b}, {b}, {a} + {one})"))


def _block(name: str, var: str, extent: int, index: str, where: str, store: str) -> list[str]:
    """The body of a loop: a store, alone or in a block."""
    if not name:
        return [f"if {where}:", f"    {store.format(index)}"] if where else [store.format(index)]
    lines = [f'with T.block("{name}"):', f"    {var} = T.axis.spatial({extent}, {index})"]
    lines += [f"    T.where({where})"] if where else []
    return [*lines, f"    {store.format(var)}"]


def _elements(rng: random.Random, target: _Array, arrays: Sequence[_Array], n: int, block: str) -> list[str]:
    """Each element from those at its place, in a loop of any kind."""
    kind = rng.choice(("range", "T.vectorized", "T.parallel", "T.unroll"))
    store = f"{target.name}[{{0}}] = {_value(rng, target, arrays, '{0}')}"
    return [f"for i in {kind}({n}):", *_inside(_block(block, "vi", n, "i", "", store))]


def _tiles(rng: random.Random, target: _Array, arrays: Sequence[_Array], n: int, block: str) -> list[str]:
    """The same in vectors, the last of which may not be full."""
    lanes = rng.choice(_LANES)
    store = f"{target.name}[{{0}}] = {_value(rng, target, arrays, '{0}')}"
    index = f"i * {lanes} + j"
    where = f"{index} < {n}" if n % lanes else ""
    inner = _inside(_block(block, "vi", n, index, where, store))
    outer = rng.choice(("range", "T.parallel"))
    return [f"for i in {outer}({-(-n // lanes)}):", *_inside([f"for j in T.vectorized({lanes}):", *inner])]


def _running(rng: random.Random, target: _Array, arrays: Sequence[_Array], n: int, block: str) -> list[str]:
    """Each element from the one before it."""
    if n < 2:
        return _elements(rng, target, arrays, n, block)
    value = _value(rng, target, arrays, "{0}")
    return [
        f"for i in range({n - 1}):",
        *_inside(_block(block, "vi", n - 1, "i", "", f"{target.name}[{{0}} + 1] = {value}")),
    ]


def _some(rng: random.Random, target: _Array, arrays: Sequence[_Array], n: int, block: str) -> list[str]:
    """The elements for which a condition on memory holds."""
    test = rng.choice(arrays)
    store = f"{target.name}[{{0}}] = {_value(rng, target, arrays, '{0}')}"
    kind = rng.choice(("range", "T.vectorized", "T.parallel"))
    if block:
        inner = _block(block, "vi", n, "i", "", store)
        inner = [*inner[:2], f"    if {test.name}[vi] > T.{test.dtype}(1):", f"    {inner[2]}"]
    else:
        inner = [f"if {test.name}[i] > T.{test.dtype}(1):", f"    {store.format('i')}"]
    return [f"for i in {kind}({n}):", *_inside(inner)]


_FORMS = (_elements, _tiles, _tiles, _running, _some)


def _inside(lines: Sequence[str]) -> list[str]:
    return [f"    {line}" for line in lines]


def read(text: str) -> Function:
    func = from_source(text)
    assert isinstance(func, Function)
    return func


def check_script(
    original: Function, func: Function, seed: int, target: Target, effort: Effort, *, simple: bool = False
) -> None:
    """A scheduled script does in place what the original one does.

    Raises:
        Different: it does something else; Broken: it writes outside of its arguments.
    """
    rng = np.random.default_rng(seed)
    given: list[NDArray[Any]] = [values.contents(rng, b.dtype, b.shape, values.SMALL) for b in original.params]
    wanted = iter(interpret(original, [array.copy() for array in given]))
    lowered = lower_function(func, simple=simple)
    made = run_kernel(lowered, target, effort, given)
    for buffer, got in zip(func.params, made, strict=True):
        if buffer not in func.outputs:
            continue
        wrong = values.difference(got, next(wanted), exact=True, signed_zeros=False)
        if wrong is not None:
            raise Different(f"{buffer.name}: {wrong}\nmachine code ({target}, {effort.name}) of\n{lowered}")
