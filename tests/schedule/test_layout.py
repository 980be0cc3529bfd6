"""reindex, transform_layout, transform_block_layout, pad_einsum."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pegbox as pb
from pegbox import te, tir
from pegbox.compute.ops import compute, placeholder
from pegbox.errors import ScheduleError
from pegbox.expr import build
from pegbox.loops.passes import lower_function
from pegbox.schedule import BlockRef, Schedule, Trace


def strided() -> Any:
    x = placeholder((4, 20), name="X")
    b = compute((9, 4), lambda i, j: x[3 - j, i * 2 + 1] * build.const(2.0, "float32"), name="B")
    c = compute((9, 4), lambda i, j: b[i, j] + b[8 - i, j], name="C")

    def reference(xs: Any) -> Any:
        bs = xs[::-1, 1:19:2].T * 2
        return [bs + bs[::-1]]

    return [x, c], reference


def refused(sch: Schedule, match: str, call: Any) -> str:
    """The call is refused with such a message, and changes nothing."""
    before, steps = sch.func, len(sch.trace)
    with pytest.raises(ScheduleError, match=match) as caught:
        call()
    assert sch.func is before
    assert len(sch.trace) == steps
    return str(caught.value)


# reindex


def test_reindex_of_a_read_has_a_dimension_for_each_variable(golden: Any, check_values: Any) -> None:
    args, reference = strided()
    sch = Schedule(args)
    assert sch.reindex("B", ("read", 0)) == BlockRef("X_reindex")
    golden(sch)
    check_values(sch, reference)


def test_reindex_of_a_write_copies_back(programs: Any, golden: Any, check_values: Any) -> None:
    args, reference = programs.matmul()
    sch = Schedule(args)
    assert sch.reindex("C", ("write", 0)) == BlockRef("C_reindex")
    golden(sch)
    check_values(sch, reference)


def test_reindex_inside_of_loops_takes_what_an_iteration_needs(programs: Any, golden: Any, check_values: Any) -> None:
    args, reference = programs.matmul_relu()
    sch = Schedule(args)
    outer, _ = sch.split(sch.get_loop("E", 0), [None, 2])
    sch.compute_at("D", outer)
    sch.reindex("E", "D")
    golden(sch)
    check_values(sch, reference)


def test_reindex_serves_one_block_and_takes_constant_places(check_values: Any) -> None:
    x = placeholder((5, 3), name="X")
    y = compute((4,), lambda i: x[2, 1] + build.const(1.0, "float32"), name="Y")
    sch = Schedule([x, y])
    sch.reindex("Y", "X")
    check_values(sch, lambda xs: [np.full(4, xs[2, 1] + 1)])


def test_reindex_refuses_what_it_cannot_copy(programs: Any) -> None:
    sch = Schedule(programs.conv()[0])
    refused(sch, "the index vi - 1 may lie outside X\\[7, 6\\]", lambda: sch.reindex("P", ("read", 0)))
    sch = Schedule(programs.chain()[0])
    refused(sch, "C uses B at 2 places", lambda: sch.reindex("C", ("read", 0)))
    sch = Schedule(programs.matmul()[0])
    sch.decompose_reduction("C", sch.get_loop("C", 2))
    refused(sch, "C is also written by C_init", lambda: sch.reindex("C", ("write", 0)))
    sch = Schedule(programs.matmul_relu()[0])
    sch.storage_align("C", 0, 0, 8, 4)
    refused(sch, "storage_align refers to the present dimensions of C", lambda: sch.reindex("C", ("write", 0)))
    sch = Schedule(programs.matmul()[0])
    refused(sch, "is not a buffer of C", lambda: sch.reindex("C", ("both", 0)))
    refused(sch, "block C reads no buffer 2", lambda: sch.reindex("C", ("read", 2)))
    refused(sch, "block C reads no buffer 'Z'", lambda: sch.reindex("C", "Z"))


def test_reindex_refuses_places_that_are_read_from_memory() -> None:
    where, table = placeholder((6,), "int64", "where"), placeholder((4,), name="T")
    y = compute((6,), lambda i: table[where[i]], name="Y")
    sch = Schedule([where, table, y])
    refused(sch, "at places that are read from memory", lambda: sch.reindex("Y", "T"))


# transform_layout


def test_transform_layout_changes_each_block_that_uses_the_buffer(
    programs: Any, golden: Any, check_values: Any
) -> None:
    args, reference = programs.chain()
    sch = Schedule(args)
    sch.transform_layout("A", ("write", 0), lambda i: (i // 4, i % 4))
    golden(sch)
    check_values(sch, reference)


def test_transform_layout_and_back_leaves_plain_indices(programs: Any, check_values: Any) -> None:
    args, reference = programs.matmul_relu()
    sch = Schedule(args)
    plain = str(sch)
    sch.transform_layout("C", ("write", 0), lambda i, j: (j, i))
    sch.transform_layout("C", "C", lambda j, i: (i, j))
    assert str(sch) == plain
    sch.transform_layout("D", ("read", 0), lambda i, j: (i * 7 + j,))
    assert "C[vi * 7 + vj]" in str(sch)
    sch.transform_layout("D", ("read", 0), lambda x: (x // 7, x % 7))
    assert str(sch) == plain
    check_values(sch, reference)


def test_padding_is_written_by_the_block_that_makes_the_buffer(programs: Any, golden: Any, check_values: Any) -> None:
    args, reference = programs.matmul_relu()
    sch = Schedule(args)
    sch.transform_layout("D", ("write", 0), lambda i, j: (i // 4, j, i % 4), pad_value=-1.0)
    golden(sch)
    check_values(sch, reference)


def test_padding_of_a_reduction_is_written_by_a_block_of_its_own(programs: Any, golden: Any, check_values: Any) -> None:
    args, reference = programs.matmul_relu()
    sch = Schedule(args)
    sch.transform_layout("C", ("write", 0), lambda i, j: (i // 4, j, i % 4), pad_value=lambda x, y, z: x + z)
    golden(sch)
    check_values(sch, reference)


def test_a_padded_buffer_can_be_copied_and_an_unwritten_padding_cannot(programs: Any, check_values: Any) -> None:
    args, reference = programs.matmul_relu()
    for pad_value in (None, 0.0):
        sch = Schedule(args)
        sch.transform_layout("C", ("write", 0), lambda i, j: (i // 4, j, i % 4), pad_value=pad_value)
        if pad_value is None:
            refused(sch, "the padding of C is never written", lambda s=sch: s.cache_read("D", "C"))
            refused(sch, "the padding of C is never written", lambda s=sch: s.cache_write("C"))
        else:
            sch.cache_read("D", "C")
        check_values(sch, reference)


def test_padding_that_was_left_out_is_not_written_later(programs: Any, check_values: Any) -> None:
    args, reference = programs.matmul_relu()
    sch = Schedule(args)
    sch.transform_layout("C", "C", lambda i, j: (i // 4, j, i % 4))
    again = lambda x, y, z: (x, y // 2, z, y % 2)  # noqa: E731
    refused(sch, "C has padding already", lambda: sch.transform_layout("C", "C", again, pad_value=0))
    sch.transform_layout("C", "C", again)
    check_values(sch, reference)


def test_transform_layout_refusals(programs: Any) -> None:
    sch = Schedule(programs.matmul_relu()[0])

    def layout(index_map: Any, block: str = "C", buffer: Any = ("write", 0), **options: Any) -> Any:
        return lambda: sch.transform_layout(block, buffer, index_map, **options)

    message = refused(sch, "E is a parameter of the function", layout(lambda i, j: (j, i), "E"))
    assert "remedy: cache_read, cache_write or reindex makes a buffer of its own" in message
    assert ">         block E" in message
    refused(sch, "vi|i \\* j is not affine", layout(lambda i, j: i * j))
    refused(sch, r"is not one to one: \(i\) = \[0\] and \[1\] would share", layout(lambda i, j: (i // 2, j)))
    refused(sch, "gives negative indices", layout(lambda i, j: (i - 1, j)))
    refused(sch, "takes 1 indices, i, where there are 2", layout(lambda i: i))
    refused(sch, "takes 3 indices", layout(tir.IndexMap.from_func(lambda i, j, k: (i, j, k))))
    refused(sch, "pad_value", layout(lambda i, j: (i // 4, j, i % 4), pad_value=lambda i: i))
    refused(
        sch, "is not a value for 3 indices", layout(lambda i, j: (i // 4, j, i % 4), pad_value=lambda i, j, k: (i, j))
    )
    gaps = lambda i, j: (i * 3, j)  # noqa: E731
    refused(sch, "so that its padding cannot be distinguished from elements", layout(gaps, pad_value=0))
    sch.storage_align("C", 0, 0, 8, 4)
    refused(sch, "storage_align refers to the present dimensions of C", layout(lambda i, j: (j, i)))
    sch.compute_at("D", sch.get_loop("E", 0))
    refused(sch, "D is computed in loops around E", layout(lambda i, j: (i // 4, j, i % 4), "D", pad_value=0))


def test_an_alignment_of_a_block_inside_of_another_holds_its_layout(programs: Any) -> None:
    sch = Schedule(programs.matmul_relu()[0])
    sch.storage_align("D", 0, 0, 8, 4)
    outer = sch.blockize(sch.add_unit_loop("D"))
    change = lambda: sch.transform_layout(outer, ("write", 0), lambda i, j: (j, i))  # noqa: E731
    refused(sch, "storage_align refers to the present dimensions of D", change)
    refused(sch, "storage_align refers to the present dimensions of D", lambda: sch.reindex(outer, ("write", 0)))


def test_transform_layout_refuses_boxes(programs: Any) -> None:
    sch = Schedule(programs.matmul_relu()[0])
    sch.blockize(sch.get_loop("D", 1))
    refused(sch, "uses a whole box of C", lambda: sch.transform_layout("C", "C", lambda i, j: (j, i)))


def test_traces_hold_index_maps(programs: Any) -> None:
    args, _ = programs.matmul_relu()
    sch = Schedule(args)
    sch.transform_layout("C", ("write", 0), lambda *i: (i[1], i[0]))
    sch.transform_layout("D", "D", tir.IndexMap.from_text("lambda i, j: (i // 2, j, i % 2)"), lambda i, j, k: i * 2)
    assert str(sch.trace).splitlines() == [
        "sch.transform_layout('C', ['write', 0], lambda i0, i1: (i1, i0))",
        "sch.transform_layout('D', 'D', lambda i, j: (i // 2, j, i % 2), lambda i, j, k: (i * 2,))",
    ]
    again = Trace.from_json(sch.trace.to_json()).apply(Schedule(args))
    assert str(again) == str(sch)
    assert again.trace == sch.trace
    pasted = Schedule(args)
    exec(str(sch.trace), {"sch": pasted})
    assert str(pasted) == str(sch)


# transform_block_layout


def test_transform_block_layout_gives_other_variables(programs: Any, golden: Any, check_values: Any) -> None:
    args, reference = programs.matmul()
    sch = Schedule(args)
    sch.transform_block_layout("C", lambda i, j, k: (i * 7 + j, k // 2, k % 2))
    golden(sch)
    check_values(sch, reference)


def test_transform_block_layout_refusals(programs: Any) -> None:
    sch = Schedule(programs.matmul()[0])

    def layout(index_map: Any) -> Any:
        return lambda: sch.transform_block_layout("C", index_map)

    refused(sch, "mixes spatial with reduce variables", layout(lambda i, j, k: (i, j * 6 + k)))
    refused(sch, "leaves gaps", layout(lambda i, j, k: (i, j // 2, j % 2, k)))
    refused(sch, "not one to one", layout(lambda i, j, k: (i, j)))
    refused(sch, "takes 2 indices", layout(lambda i, j: (i, j)))
    sch.split(sch.get_loop("C", 0), [None, 2])
    refused(sch, "is not in plain serial loops", layout(lambda i, j, k: (j, i, k)))


# pad_einsum


def test_pad_einsum_pads_inputs_and_output(programs: Any, golden: Any, check_values: Any) -> None:
    args, reference = programs.matmul()
    sch = Schedule(args)
    sch.pad_einsum("C", [4, 4, 4])
    golden(sch)
    check_values(sch, reference)


@pytest.mark.parametrize("padding", [[1, 1, 1], [5, 7, 6], [1, 1, 4], [1, 4, 1], [8, 1, 8]])
def test_pad_einsum_copies_only_what_becomes_larger(programs: Any, check_values: Any, padding: list[int]) -> None:
    args, reference = programs.matmul_relu()
    sch = Schedule(args)
    sch.pad_einsum("C", padding)
    shapes = {name: shape for name, (shape, _, _) in sch.func.allocations.items() if name.endswith("_pad")}
    m, n, k = (-(-e // p) * p for e, p in zip((5, 7, 6), padding, strict=True))
    wanted = {"A_pad": (m, k), "B_pad": (k, n), "C_pad": (m, n)}
    whole = {"A_pad": (5, 6), "B_pad": (6, 7), "C_pad": (5, 7)}
    assert shapes == {name: shape for name, shape in wanted.items() if shape != whole[name]}
    check_values(sch, reference)


def test_no_infinity_of_an_input_gets_into_the_padding(programs: Any) -> None:
    args, _ = programs.matmul()
    sch = Schedule(args)
    sch.pad_einsum("C", [4, 4, 4])
    a, b, c = np.full((5, 6), np.inf, "float32"), np.ones((6, 7), "float32"), np.zeros((5, 7), "float32")
    pb.build(lower_function(sch.func))(a, b, c)
    np.testing.assert_array_equal(c, np.full((5, 7), np.inf))


def test_pad_einsum_refusals(programs: Any) -> None:
    sch = Schedule(programs.matmul()[0])
    refused(
        sch,
        "padding = \\[4, 4\\] is not a number, 1 or more, for each of vi, vj, vk",
        lambda: sch.pad_einsum("C", [4, 4]),
    )
    refused(sch, "is not a number, 1 or more", lambda: sch.pad_einsum("C", [4, 0, 4]))
    sch.split(sch.get_loop("C", 0), [None, 2])
    refused(sch, "is not in plain serial loops", lambda: sch.pad_einsum("C", [4, 4, 4]))
    sch = Schedule(programs.matmul_relu()[0])
    refused(sch, "D is not a reduction that is still whole", lambda: sch.pad_einsum("D", [4, 4]))
    sch.decompose_reduction("C", sch.get_loop("C", 2))
    refused(sch, "C is not a reduction that is still whole", lambda: sch.pad_einsum("C", [4, 4, 4]))
    sch = Schedule(programs.conv()[0])
    refused(sch, "it uses P at vi \\* 2 \\+ vkh", lambda: sch.pad_einsum("O", [4, 4, 1, 1]))
    sch = Schedule(programs.rows()[0])
    refused(sch, r"it adds abs\(.*\), which is not a product of elements", lambda: sch.pad_einsum("out", [4, 4]))
    sch = Schedule(programs.argmax()[0])
    refused(sch, "best is not a sum with one output", lambda: sch.pad_einsum("best", [4, 4]))


def test_pad_einsum_refuses_variables_that_the_result_does_not_have(programs: Any, check_values: Any) -> None:
    args, reference = programs.matmul()
    sch = Schedule(args)
    sch.transform_block_layout("C", lambda i, j, k: (i, j, 0, k))
    refused(sch, "C does not depend on v2, so that this cannot be padded", lambda: sch.pad_einsum("C", [4, 4, 2, 4]))
    sch.pad_einsum("C", [4, 4, 1, 4])
    check_values(sch, reference)


def test_pad_einsum_refuses_factors_that_are_not_zero_in_the_padding() -> None:
    a, w = te.placeholder((5, 6), name="A"), te.placeholder((5,), name="W")
    k = te.reduce_axis((0, 6), name="k")
    c = te.compute((5,), lambda i: te.sum(a[i, k] * w[i], axis=k), name="C")
    sch = Schedule([a, w, c])
    refused(sch, "W does not depend on vk, the padding of which must add zero", lambda: sch.pad_einsum("C", [1, 4]))
    sch.pad_einsum("C", [4, 6])
    diagonal = te.compute((5,), lambda i: te.sum(a[i, k] * a[i, k], axis=k), name="D")
    sch = Schedule([a, diagonal])
    sch.pad_einsum("D", [4, 4])
    assert [b.name for b in sch.get_blocks()] == ["A_pad", "D", "D_pad"]


def test_a_parallel_loop_of_one_iteration_does_not_become_longer() -> None:
    a, b = te.placeholder((5, 1), name="A"), te.placeholder((1, 4), name="B")
    k = te.reduce_axis((0, 1), name="k")
    c = te.compute((5, 4), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")
    sch = Schedule([a, b, c])
    sch.parallel(sch.get_loops("C")[2])
    refused(sch, "is not in plain serial loops", lambda: sch.pad_einsum("C", [1, 1, 4]))


# what it is good for: B in panels


def packed_matmul(m: int, n: int, k: int, pad_value: float | None) -> tuple[list[Any], Schedule]:
    """A matmul that reads B from panels [n / 32][k][32], each packed when its columns are needed."""
    a, b = te.placeholder((m, k), name="A"), te.placeholder((k, n), name="B")
    r = te.reduce_axis((0, k), name="k")
    c = te.compute((m, n), lambda i, j: te.sum(a[i, r] * b[r, j], axis=r), name="C")
    sch = Schedule([a, b, c])
    packed = sch.reindex("C", ("read", 1))
    sch.transform_layout(packed, ("write", 0), lambda j, k: (j // 32, k, j % 32), pad_value=pad_value)
    i, j, k_ = sch.get_loops("C")
    j_0, j_1 = sch.split(j, factor=32)
    i_0, i_1 = sch.split(i, factor=4)
    sch.reorder(j_0, i_0, k_, i_1, j_1)
    sch.compute_at(packed, j_0)
    sch.vectorize(j_1)
    sch.unroll(i_1)
    *_, first, last = sch.get_loops(packed)
    if len(sch.get_loops(packed)) == 3:
        # Columns and rows: a row of B is what lies in memory.
        sch.reorder(last, first)
        first, last = last, first
    sch.vectorize(last)
    return [a, b, c], sch


@pytest.mark.parametrize("pad_value", [None, 0.0])
def test_a_matmul_reads_packed_panels(golden: Any, pad_value: float | None) -> None:
    _, sch = packed_matmul(8, 75, 16, pad_value)
    golden(f"{sch}\n{sch.trace}\n{lower_function(sch.func)}")


@pytest.mark.parametrize("pad_value", [None, 0.0])
@pytest.mark.parametrize(("m", "n", "k"), [(8, 64, 16), (13, 75, 9), (5, 31, 7), (4, 33, 1), (1, 96, 3)])
def test_packed_panels_keep_the_values_with_tails(check_values: Any, m: int, n: int, k: int, pad_value: Any) -> None:
    _, sch = packed_matmul(m, n, k, pad_value)
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-5, 6, s).astype("float32") for s in ((m, k), (k, n)))
    c = np.full((m, n), np.nan, "float32")
    pb.build(lower_function(sch.func))(a, b, c)
    np.testing.assert_array_equal(c, a @ b)
    if m * n * k < 10_000:
        check_values(sch, lambda x, y: [x @ y])


def test_panels_take_the_room_of_one(check_values: Any) -> None:
    _, sch = packed_matmul(8, 75, 16, None)
    assert lower_function(sch.func).allocations["B_reindex"][0] == (1, 16, 32)


def test_reindex_of_a_constant_place_takes_a_variable_that_the_init_knows(check_values: Any) -> None:
    a = te.placeholder((7, 8), name="A")
    i, j = te.reduce_axis((0, 7), "i"), te.reduce_axis((0, 8), "j")
    sch = Schedule([a, te.compute((1,), lambda _: te.sum(a[i, j], axis=[i, j]), name="B")])
    sch.blockize(sch.get_loop("B", 0))
    sch.reorder_block_iter_var("B_o", [1, 0, 2])
    sch.reindex("B_o", ("write", 0))
    check_values(sch, lambda x: [x.sum().reshape(1)])


def test_reindex_refuses_a_sum_that_has_no_spatial_variable() -> None:
    a = te.placeholder((7,), name="A")
    i = te.reduce_axis((0, 7), "i")
    sch = Schedule([a, te.compute((), lambda: te.sum(a[i], axis=i), name="B")])
    with pytest.raises(ScheduleError, match="B has only reduce variables"):
        sch.reindex("B", ("write", 0))


# decompose_padding


def _padded() -> Any:
    x = placeholder((5, 6), name="X")

    def padded(i: Any, j: Any) -> Any:
        inside = build.all_of([i >= 2, i < 7, j < 6])
        return build.select(inside, x[i - 2, j], build.const(-1.0, "float32"))

    p = compute((9, 7), padded, name="P")
    c = compute((9, 7), lambda i, j: p[i, j] + build.const(1.0, "float32"), name="C")
    return [x, c], lambda xs: [np.pad(xs, ((2, 2), (0, 1)), constant_values=-1.0) + 1]


def test_the_constant_of_a_padding_is_written_first(golden: Any, check_values: Any) -> None:
    args, reference = _padded()
    sch = Schedule(args)
    i, j = sch.get_loops("P")
    assert sch.can_decompose_padding("P", i)
    assert sch.decompose_padding("P", i) == BlockRef("P_pad_const")
    assert sch.get_loops("P") == (i, j)
    golden(sch)
    check_values(sch, reference)
    assert Trace.from_json(sch.trace.to_json()).apply_to_schedule(Schedule(args)).mod == sch.mod


@pytest.mark.parametrize("factor", [3, 4])
def test_padding_of_a_tile_is_decomposed_with_its_tests(factor: int, check_values: Any) -> None:
    args, reference = _padded()
    sch = Schedule(args)
    outer, _ = sch.split(sch.get_loop("C", 0), factor=factor)
    sch.compute_at("P", outer)
    sch.decompose_padding("P", sch.get_loop("P", 1))
    sch.parallel(outer)
    check_values(sch, reference)
    again = Schedule(args)
    outer, inner = again.split(again.get_loop("P", 0), factor=factor)
    again.reorder(inner, outer)
    again.decompose_padding("P", inner)
    check_values(again, reference)


def test_a_copy_of_decomposed_padding_takes_the_constants_too(check_values: Any) -> None:
    x = placeholder((7, 5), name="X")
    p = compute((7, 5), lambda i, j: build.select(j > 0, x[i, j - 1], build.const(3.0, "float32")), name="P")
    c = compute((7, 5), lambda i, j: p[i, j] + build.const(1.0, "float32"), name="C")
    sch = Schedule([x, c])
    sch.compute_at("P", sch.get_loop("C", 1))
    sch.decompose_padding("P", sch.get_loop("P", 3))
    sch.cache_write("P_pad_const", 0, "local")
    check_values(sch, lambda xs: [np.pad(xs, ((0, 0), (1, 0)), constant_values=3.0)[:, :5] + 1])


def test_padding_that_cannot_be_told_apart_is_refused(programs: Any) -> None:
    sch = Schedule(_padded()[0])
    refused(sch, "C does not choose between a value and a", lambda: sch.decompose_padding("C", sch.get_loop("C", 0)))
    refused(sch, "i is not around P alone", lambda: sch.decompose_padding("P", sch.get_loop("C", 0)))
    assert not sch.can_decompose_padding("C", sch.get_loop("C", 0))
    assert len(sch.trace) == 0
    sch.vectorize(sch.get_loop("P", 1))
    refused(sch, "the loop is vectorized", lambda: sch.decompose_padding("P", sch.get_loop("P", 0)))
    x = placeholder((5,), name="X")
    even = compute((10,), lambda i: build.select(i % 2 < 1, x[i // 2], build.const(0.0, "float32")), name="P")
    sch = Schedule([x, even])
    refused(sch, "is not a bound of one variable", lambda: sch.decompose_padding("P", sch.get_loop("P", 0)))
