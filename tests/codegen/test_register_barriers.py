"""Register barriers: assembly statements that keep constants of one loop nest out of the registers of the next."""

from __future__ import annotations

import re

import pytest
from lowered_programs import UNROLLED, VECTORIZED, WIDE, alloc, check, function, get, loop, put
from processors import for_target, missing_functions

import pegbox as pb
from pegbox.codegen import emit
from pegbox.expr.build import maximum
from pegbox.expr.nodes import Buffer, Expr
from pegbox.loops.nodes import Function, Stmt

BLOCKS, ROWS, STEPS, LANES = 3, 16, 5, 16
BARRIER = 'asm sideeffect ""'


def blocks(*, rows: int = ROWS, count: int = BLOCKS, reads: bool = True) -> Function:
    """Make a program that, in each block, limits the elements of a, then adds them up in a register tile, twice.

    Without `reads`, the tile adds up those of b.
    """
    a, b = Buffer("a", (count, STEPS, rows * LANES), "float32"), Buffer("b", (STEPS, rows * LANES), "float32")
    c = Buffer("c", (count, 2, rows * LANES), "float32")
    m, t = Buffer("m", (STEPS, rows * LANES), "float32"), Buffer("t", (rows, LANES), "float32")

    def rows_of(put_row: object) -> Stmt:
        return loop("y", rows, lambda y: loop("x", LANES, lambda x: put_row(y, x), VECTORIZED), UNROLLED)  # type: ignore[operator]

    def limited(k: Expr, r: Expr) -> Stmt:
        return loop(
            "x",
            LANES,
            lambda x: put(m, k, r * LANES + x, maximum(get(a, n[0], k, r * LANES + x), 0.5)),
            VECTORIZED,
        )

    def product(half: Expr) -> Stmt:
        source = m if reads else b
        step = loop(
            "k", STEPS, lambda k: rows_of(lambda y, x: put(t, y, x, get(t, y, x) + get(source, k, y * LANES + x)))
        )
        return alloc(
            t,
            rows_of(lambda y, x: put(t, y, x, 0.0)),
            step,
            rows_of(lambda y, x: put(c, n[0], half, y * LANES + x, get(t, y, x))),
        )

    n: list[Expr] = []

    def block(i: Expr) -> Stmt:
        n[:] = [i]
        first = loop("k", STEPS, lambda k: loop("r", rows, lambda r: limited(k, r)))
        return alloc(m, first, loop("half", 2, product))

    return function([a, b, c], [c], loop("i", count, block))


def test_a_tile_that_reads_the_results_of_another_nest_begins_with_one() -> None:
    text = emit(blocks(), WIDE).ll
    (line,) = [line for line in text.splitlines() if BARRIER in line]
    assert re.findall(r"xmm(\d+)", line) == [str(n) for n in range(32)]
    before, after = text.split(line)
    assert "%half" not in before
    assert "%half" in after
    check(blocks())


@pytest.mark.parametrize(
    "given", [{"rows": 2}, {"count": 1}, {"reads": False}], ids=["small-tile", "no-loop-around", "nothing-in-common"]
)
def test_others_begin_with_none(given: dict[str, int]) -> None:
    assert BARRIER not in emit(blocks(**given), WIDE).ll  # type: ignore[arg-type]


def test_other_architectures_assemble_them() -> None:
    program = emit(blocks(rows=32), for_target("aarch64"))
    assert BARRIER in program.ll
    assert missing_functions(program) == set()


@pytest.mark.optimizer
def test_constants_do_not_displace_the_sums_of_a_product() -> None:
    """LLVM spilled all 28 sums for the limits 0 and 6 of the convolution before."""
    kwargs = {"padding": 1, "layout": "NHWC", "weights": "packed", "activation": "relu6"}
    target = "llvm -mtriple=x86_64-unknown-linux-gnu -mcpu=emeraldrapids -num-cores 1"
    task = pb.create_task("separable_conv2d", (1, 512, 14, 14, 512, 3, 3), kwargs, target=target)
    chosen = {"tile_h": 1, "tile_w": 2, "unroll_kh": False, "vectors": 2, "order": "cyxc", "block": 1, "point_h": 1}
    chosen |= {"point_vectors": 2, "point_w": 14, "order_tiles": "po", "unroll_c": 2}
    config = next(c for c in task.space.iterate() if all(c[k].val == v for k, v in chosen.items()))
    text = pb.build(task, config=config).source("asm")
    assert not re.findall(r"^\s*vmov.*zmm.*\(%rsp\)", text, re.MULTILINE)
