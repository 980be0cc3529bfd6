"""Loops, unrolling, and where buffers live."""

from __future__ import annotations

import re

import numpy as np
import pytest
from lowered_programs import (
    ONE_CORE,
    SERIAL,
    UNROLLED,
    VECTORIZED,
    WIDE,
    alloc,
    check,
    function,
    get,
    loop,
    numbers,
    put,
    run,
)

from pegbox.codegen import Target, assembly, build, emit
from pegbox.errors import CompileError
from pegbox.expr.build import const
from pegbox.expr.nodes import Buffer, Expr
from pegbox.loops.nodes import ForKind, Function, If, seq

ZERO = const(0.0, "float32")


def matmul(rows: int, columns: int, unrolled_k: int, *, k: int = 64, in_place: bool = False) -> Function:
    """One column panel of a matmul: a register tile of rows x columns over all of k; B is packed.

    `in_place` adds to C itself in the innermost loops instead of to a tile.
    """
    a, b, c = Buffer("a", (3 * rows, k)), Buffer("b", (k, columns)), Buffer("c", (3 * rows, columns))
    t = Buffer("t", (rows, columns), scope="local")

    def tile(io: Expr) -> object:
        def at(i: Expr, j: Expr) -> tuple[Buffer, Expr, Expr]:
            return (c, io * rows + i, j) if in_place else (t, i, j)

        def step(kk: Expr, i: Expr, j: Expr) -> object:
            return put(*at(i, j), get(*at(i, j)) + get(a, io * rows + i, kk) * get(b, kk, j))

        def over_tile(body: object) -> object:
            return loop("i", rows, lambda i: loop("j", columns, lambda j: body(i, j), VECTORIZED), UNROLLED)  # type: ignore[operator]

        init = over_tile(lambda i, j: put(*at(i, j), ZERO))
        update = loop(
            "ko",
            k // unrolled_k,
            lambda ko: loop(
                "ki", unrolled_k, lambda ki: over_tile(lambda i, j: step(ko * unrolled_k + ki, i, j)), UNROLLED
            ),  # type: ignore[arg-type, return-value]
        )
        if in_place:
            return seq(init, update)  # type: ignore[arg-type]
        return alloc(t, init, update, over_tile(lambda i, j: put(c, io * rows + i, j, get(t, i, j))))  # type: ignore[arg-type]

    return function([a, b, c], [c], loop("io", 3, tile))  # type: ignore[arg-type]


def inner_loop(asm: str) -> list[str]:
    """The instructions of the basic block with the most FMAs."""
    blocks: list[list[str]] = [[]]
    for line in asm.splitlines():
        if re.match(r"[.\w]+:", line):
            blocks.append([])
        elif line.startswith("\t") and not line.startswith("\t."):
            blocks[-1].append(line.strip())
            if line.startswith("\tj"):
                blocks.append([])
    return max(blocks, key=lambda block: sum("vfmadd" in line for line in block))


@pytest.mark.parametrize("in_place", [False, True], ids=["tile", "in place"])
@pytest.mark.parametrize(("rows", "columns"), [(8, 32), (14, 32), (6, 64), (8, 48)])
def test_a_register_tile_stays_in_registers(rows: int, columns: int, in_place: bool) -> None:
    unrolled = 4
    lines = inner_loop(assembly(emit(matmul(rows, columns, unrolled, in_place=in_place), WIDE)))
    vectors = columns // 16
    assert sum("vfmadd" in line and "zmm" in line for line in lines) == rows * vectors * unrolled
    assert not [line for line in lines if "rsp" in line], "stack traffic in the inner loop"
    loads = sum("(%" in line for line in lines)
    assert loads <= unrolled * (rows + vectors), "each element of A and each vector of B is loaded once"
    assert not [
        line for line in lines if line.startswith("vmov") and line.endswith(")") and "zmm" in line.split(",")[0]
    ]
    assert len(lines) <= sum("vfmadd" in line for line in lines) + loads + 6, "address arithmetic in the inner loop"


@pytest.mark.parametrize("in_place", [False, True])
@pytest.mark.parametrize(("rows", "columns", "unrolled"), [(8, 32, 8), (3, 20, 4), (1, 16, 1), (5, 7, 2)])
def test_matmul_tiles_are_right(rows: int, columns: int, unrolled: int, in_place: bool) -> None:
    func = matmul(rows, columns, unrolled, k=16, in_place=in_place)
    inputs = [numbers(buffer, seed) for seed, buffer in enumerate(func.params[:2])]
    got = run(build(emit(func, ONE_CORE)), {"a": inputs[0], "b": inputs[1]})[0]
    np.testing.assert_allclose(got, inputs[0] @ inputs[1], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("cpu", "vectors"), [("znver4", 2), ("haswell", 4), ("x86-64", 8)])
def test_emitted_text_grows_with_the_work_and_no_faster(cpu: str, vectors: int) -> None:
    # Three lines per FMA; a load and two lines of splat per element of A; loads, pointers and the rest.
    target = Target(f"llvm -mtriple=x86_64-unknown-linux-gnu -mcpu={cpu} -num-cores 1")
    once, twice = (emit(matmul(8, 32, k), target).ll.count("\n") for k in (8, 16))
    assert twice - once <= 8 * (8 * vectors * 3 + 8 * 4 + 2 * vectors)


def nest(depth: int, extent: int, *, steps: int | None, explicit: bool = True) -> Function:
    """c[i0, i1, ...] = a[i0, i1, ...] + 1 with the pragma on the outermost loop."""
    shape = (extent,) * depth
    a, c = Buffer("a", shape), Buffer("c", shape)

    def level(indices: tuple[Expr, ...]) -> object:
        if len(indices) == depth:
            return put(c, *indices, get(a, *indices) + 1.0)
        notes = ()
        if steps is not None and not indices:
            notes = (("pragma_auto_unroll_max_step", steps), ("pragma_unroll_explicit", explicit))
        return loop(f"i{len(indices)}", extent, lambda i: level((*indices, i)), SERIAL, annotations=notes)  # type: ignore[arg-type, return-value]

    return function([a, c], [c], level(()))  # type: ignore[arg-type]


@pytest.mark.parametrize(("steps", "loops"), [(None, 3), (0, 3), (3, 3), (4, 2), (15, 2), (16, 1), (63, 1), (64, 0)])
def test_auto_unroll_takes_inner_loops_first_up_to_the_limit(steps: int | None, loops: int) -> None:
    func = nest(3, 4, steps=steps)
    assert emit(func, ONE_CORE).ll.split("__timed")[0].count("phi i64") == loops
    check(func)


def test_unrolling_can_be_left_to_llvm() -> None:
    func = nest(2, 4, steps=16, explicit=False)
    text = emit(func, ONE_CORE).ll
    assert text.count("llvm.loop.unroll.full") == 2
    assert text.split("__timed")[0].count("phi i64") == 2
    check(func)


def test_the_pragma_covers_only_its_own_loops() -> None:
    a, c = Buffer("a", (4,)), Buffer("c", (4,))
    d = Buffer("d", (4,))
    notes = (("pragma_auto_unroll_max_step", 8),)
    body = seq(
        loop("i", 4, lambda i: put(c, i, get(a, i)), annotations=notes), loop("j", 4, lambda j: put(d, j, get(a, j)))
    )
    assert emit(function([a, c, d], [c, d], body), ONE_CORE).ll.split("__timed")[0].count("phi i64") == 1


def test_too_much_unrolling_is_refused_with_the_loops_named() -> None:
    a, c = Buffer("a", (300, 300)), Buffer("c", (300, 300))
    body = loop("rows", 300, lambda i: loop("columns", 300, lambda j: put(c, i, j, get(a, i, j)), UNROLLED), UNROLLED)
    with pytest.raises(
        CompileError, match=r"32768 instructions without a branch .*rows \(300\), columns \(300\).*unroll fewer"
    ):
        emit(function([a, c], [c], body), ONE_CORE)


def copied_loops(copies: int) -> Function:
    a, c = Buffer("a", (copies, 4)), Buffer("c", (copies, 4))
    row = lambda i: loop("columns", 4, lambda j: put(c, i, j, get(a, i, j) * 2.0))  # noqa: E731
    return function([a, c], [c], loop("rows", copies, row, UNROLLED))


def test_too_many_copies_of_loops_are_refused_with_the_unrolled_loops_named() -> None:
    assert emit(copied_loops(500), ONE_CORE).ll.count("phi i64") >= 500
    with pytest.raises(CompileError, match=r"more than 512 loops \(inside the loops rows \(600\)\).*unroll fewer"):
        emit(copied_loops(600), ONE_CORE)


@pytest.mark.parametrize("extent", [0, 1])
def test_loops_of_no_and_of_one_iteration(extent: int) -> None:
    c = Buffer("c", (4,), "int32")
    for kind in ForKind:
        body = loop("i", extent, lambda i: put(c, i, const(1, "int32")), kind)
        got = run(build(emit(function([c], [c], body), ONE_CORE)), {})[0]
        np.testing.assert_array_equal(got, [1] * extent + [77] * (4 - extent))


def two_stages(size: int, *, inside: bool = False) -> Function:
    """t = a + 1 in a buffer of its own; c = 2 t[reversed]."""
    a, c = Buffer("a", (2, size)), Buffer("c", (2, size))
    t, u = Buffer("t", (size,)), Buffer("u", (size,))

    def row(i: Expr) -> object:
        return seq(
            loop("x", size, lambda x: put(t, x, get(a, i, x) + 1.0), VECTORIZED),
            loop("y", size, lambda y: put(u, y, get(t, size - 1 - y) * 2.0), VECTORIZED),
            loop("z", size, lambda z: put(c, i, z, get(u, z) + get(t, z)), VECTORIZED),
        )

    if inside:
        return function([a, c], [c], loop("i", 2, lambda i: alloc(t, alloc(u, row(i)))))  # type: ignore[arg-type]
    return function([a, c], [c], alloc(t, alloc(u, loop("i", 2, row))))  # type: ignore[arg-type]


@pytest.mark.parametrize("inside", [False, True])
@pytest.mark.parametrize("size", [24, 5000])
def test_buffers_on_the_stack_and_in_the_workspace(size: int, inside: bool) -> None:
    func = two_stages(size, inside=inside)
    program = emit(func, ONE_CORE)
    assert program.workspace_bytes == (0 if size == 24 else 2 * -(-size * 4 // 64) * 64)
    check(func)


def test_workspace_buffers_are_told_apart_from_each_other() -> None:
    text = emit(two_stages(5000), ONE_CORE).ll
    body = next(line for line in text.splitlines() if "define internal void @kernel.body" in line)
    assert body.count("ptr noalias nonnull align 64 dereferenceable(20000)") == 2


def test_a_masked_store_does_not_push_a_tile_out_of_registers() -> None:
    t, a, c = Buffer("t", (1, 16), scope="local"), Buffer("a", (4, 16)), Buffer("c", (16,))
    zero = loop("i", 16, lambda i: put(t, 0, i, ZERO), VECTORIZED)
    add = loop(
        "k",
        4,
        lambda k: loop("i", 16, lambda i: If(i * 1 + k < 17, put(t, 0, i, get(t, 0, i) + get(a, k, i))), VECTORIZED),
    )
    func = function([a, c], [c], alloc(t, zero, add, loop("i", 16, lambda i: put(c, i, get(t, 0, i)), VECTORIZED)))
    assert "masked.store" not in emit(func, ONE_CORE).ll
    check(func)


def test_one_statement_shared_by_two_places() -> None:
    # Passes that copy loops share what does not change, so one loop node may stand at two depths.
    a, c = Buffer("a", (4, 6)), Buffer("c", (4, 6))
    from pegbox.expr.nodes import Var
    from pegbox.loops.nodes import For

    i, j = Var("i"), Var("j")
    inner = For(j, 6, put(c, i, j, get(a, i, j) * 2.0))
    unrolled, serial = For(i, 2, inner, ForKind.UNROLLED), For(i, 4, inner)
    check(function([a, c], [c], seq(unrolled, serial)))


def test_a_variable_outside_its_loop_is_an_error_not_a_crash() -> None:
    from pegbox.expr.nodes import Var

    c = Buffer("c", (4,))
    with pytest.raises(CompileError, match="lost is used outside its loop"):
        emit(function([c], [c], put(c, Var("lost"), ZERO)), ONE_CORE)


def test_a_program_with_blocks_is_refused() -> None:
    from pegbox.loops.nodes import Block, BlockRealize

    c = Buffer("c", (4,))
    block = BlockRealize((), Block("b", (), (), (), put(c, 0, ZERO)))
    with pytest.raises(CompileError, match="lowered programs only"):
        emit(function([c], [c], block), ONE_CORE)


def test_an_output_that_is_no_parameter_is_refused() -> None:
    c, d = Buffer("c", (4,)), Buffer("d", (4,))
    with pytest.raises(CompileError, match="d are not among its parameters"):
        emit(function([c], [d], put(c, 0, ZERO)), ONE_CORE)


def test_zero_dimensional_buffers() -> None:
    a, c = Buffer("a", ()), Buffer("c", ())
    check(function([a, c], [c], put(c, get(a) + 1.0)))


def test_names_that_llvm_would_not_take() -> None:
    a, c = Buffer("a b", (4,)), Buffer("c.d", (4,))
    check(function([a, c], [c], loop("i.o f", 4, lambda i: put(c, i, get(a, i))), name="my kernel-1"))


def test_names_that_begin_with_a_digit() -> None:
    a, c = Buffer("0a", (4,)), Buffer("1c", (4,))
    check(function([a, c], [c], loop("0_o", 4, lambda i: put(c, i, get(a, i))), name="2mm"))
