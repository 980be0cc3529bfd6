"""Stores of values that were made narrower: nothing beside the elements that are stored may change.

LLVM 22.1 stores the whole wide element where one lane is left of such a vector (docs/llvm-defects.md). The guard bands
around the arrays of each call show what goes beyond them, the elements that are not stored show the rest.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from lowered_programs import VECTORIZED, function, get, loop, numbers, put
from processors import runnable

from pegbox.codegen import Target, build, emit
from pegbox.codegen.runtime import llvm
from pegbox.codegen.targets.host import llvm_version
from pegbox.expr.build import cast, maximum, select
from pegbox.expr.nodes import Buffer, Expr, Var
from pegbox.loops.nodes import Function, If, Stmt, seq

pytestmark = pytest.mark.optimizer

PAIRS = (
    ("int32", "int8"), ("int16", "uint8"), ("int64", "int32"), ("int64", "int16"), ("float64", "float32"),
    ("float32", "bfloat16"), ("float32", "float16"), ("float32", "int8"), ("int32", "bool"), ("int8", "int8"),
)  # fmt: skip
Array = np.ndarray[Any, Any]
Make = Callable[[Buffer, Buffer, int], Stmt]
ROWS = 3


def worked(value: Any, greater: Callable[[Any, Any], Any]) -> Any:
    """Work on integers that can't be done on narrow ones: too much of it to write the iterations of a loop out."""
    result = value
    for number in range(12):
        result = greater(result * value + number, number)
    return result


def narrow(source: Buffer, target: Buffer, *indices: Expr) -> Expr:
    value = get(source, *indices)
    if target.dtype == "bool":
        return value > 0
    if source.dtype == "int8":  # LLVM multiplies bytes as wider integers
        return value * value
    return cast(target.dtype, worked(value, maximum) if source.dtype.startswith("int") else value)


def narrowed(source: Array, target: Array) -> Array:
    """The values that `narrow` gives."""
    if target.dtype == "bool":
        return source > 0
    if source.dtype == "int8":
        return source * source
    return (worked(source, np.maximum) if source.dtype.kind == "i" else source).astype(target.dtype)


def is_stored(column: Any, n: int) -> Any:
    """One element of eight, or of sixteen."""
    return column % (16 if n % 4 == 1 else 8) == n % 5


def chosen(column: Expr, n: int) -> Expr:
    return (column % (16 if n % 4 == 1 else 8)).equal(n % 5)


def split_tail(source: Buffer, target: Buffer, n: int) -> Stmt:
    """Vectors of eight, and one for the rest."""

    def vector(row: Var, start: Expr | int, *, is_last: bool) -> Stmt:
        def body(lane: Var) -> Stmt:
            stored = put(target, row, start + lane, narrow(source, target, row, start + lane))
            return If(start + lane < n, stored) if is_last else stored

        return loop("lane", 8, body, VECTORIZED)

    full = loop("outer", n // 8, lambda outer: loop("row", ROWS, lambda row: vector(row, outer * 8, is_last=False)))
    return seq(full, loop("row", ROWS, lambda row: vector(row, n // 8 * 8, is_last=True)))


def single_lanes(source: Buffer, target: Buffer, n: int) -> Stmt:
    """One lane of each vector is stored."""

    def body(row: Var, column: Var) -> Stmt:
        return If(chosen(column, n), put(target, row, column, narrow(source, target, row, column)))

    return loop("row", ROWS, lambda row: loop("column", n, lambda column: body(row, column), VECTORIZED))


def blended(source: Buffer, target: Buffer, n: int) -> Stmt:
    """All lanes are stored, most of them with what was there."""

    def body(row: Var, column: Var) -> Stmt:
        kept, new = get(target, row, column), narrow(source, target, row, column)
        return put(target, row, column, select(chosen(column, n), new, kept))

    return loop("row", ROWS, lambda row: loop("column", n, lambda column: body(row, column), VECTORIZED))


def short_loops(source: Buffer, target: Buffer, n: int) -> Stmt:
    """Scalar loops of few iterations, which LLVM vectorizes with masks."""

    def body(row: Var, column: Var) -> Stmt:
        return put(target, row, column, narrow(source, target, row, column))

    return loop("row", ROWS, lambda row: loop("column", n, lambda column: body(row, column)))


def scalar_choice(source: Buffer, target: Buffer, n: int) -> Stmt:
    """A scalar loop that stores in some iterations."""

    def body(row: Var, column: Var) -> Stmt:
        return If(chosen(column, n), put(target, row, column, narrow(source, target, row, column)))

    return loop("row", ROWS, lambda row: loop("column", n, lambda column: body(row, column)))


def program(make: Make, n: int) -> Function:
    """All pairs of types in one program."""
    pairs = [
        (Buffer(f"A{number}", (ROWS, n), wide), Buffer(f"D{number}", (ROWS, n), slim))
        for number, (wide, slim) in enumerate(PAIRS)
    ]
    body = seq(*(make(source, target, n) for source, target in pairs))
    return function([buffer for pair in pairs for buffer in pair], [target for _, target in pairs], body)


TARGETS = {name: target for name, target in runnable().items() if name in ("default", "haswell", "znver4")}


@pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS)
@pytest.mark.parametrize("make", [split_tail, single_lanes, blended, short_loops, scalar_choice])
def test_nothing_else_is_written(make: Make, target: Target) -> None:
    for n in (9, 13, 33):
        func = program(make, n)
        arrays = [numbers(buffer, seed) for seed, buffer in enumerate(func.params)]
        everywhere = make in (split_tail, short_loops)
        stored = np.broadcast_to(everywhere | is_stored(np.arange(n), n), (ROWS, n))
        wanted = [np.where(stored, narrowed(a, d), d) for a, d in zip(arrays[::2], arrays[1::2], strict=True)]
        build(emit(func, target))(*arrays)
        for (wide, slim), got, right in zip(PAIRS, arrays[1::2], wanted, strict=True):
            np.testing.assert_array_equal(got, right, err_msg=f"{wide} to {slim}, {n} columns")


def test_llvm_stores_more_than_the_narrow_element_of_a_single_lane(request: pytest.FixtureRequest) -> None:
    """The text of docs/llvm-defects.md shows the defect in the versions that it names."""
    page = (request.config.rootpath / "docs" / "llvm-defects.md").read_text()
    text = page.partition("```llvm\n")[2].partition("```")[0]
    machine = llvm.TargetMachine("x86_64-unknown-linux-gnu", "znver4", "")
    with llvm.parsed(text, machine) as module:
        as_it_is = str(llvm.target_machine(machine).emit_assembly(module))
    mended = llvm.translate(text, machine, "assembly", "simplification").decode()
    wide = re.compile(r"vmov(ss|d)\s+%xmm0, \(%rdi\)")
    narrow = re.compile(r"(vpextrb\s+\$0, %xmm0|movb\s+%al), \(%rdi\)")
    assert wide.search(as_it_is) or llvm_version() != "22.1.0"
    assert narrow.search(mended), mended
    assert not wide.search(mended)
