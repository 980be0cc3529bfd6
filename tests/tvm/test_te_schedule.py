"""TE schedules and tensors by TVM's names: what TVM's own tests hold of them, on programs of ours."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from pegbox.errors import ComputeError, ScheduleError
from pegbox.loops.nodes import For, Store
from pegbox.plugins import tvm
from pegbox.plugins.tvm import te, tir


def doubled(*shape: Any) -> tuple[te.Schedule, te.Tensor, te.Tensor]:
    A = te.placeholder(shape, name="A")
    B = te.compute(shape, lambda *i: A(*i) * 2.0, name="B")
    return te.create_schedule(B.op), A, B


def chain(*shape: Any) -> tuple[te.Schedule, te.Tensor, te.Tensor, te.Tensor]:
    """A stage and its reader: B of A, and C of B."""
    A = te.placeholder(shape, name="A")
    B = te.compute(shape, lambda *i: A(*i) + 1.0, name="B")
    C = te.compute(shape, lambda *i: B(*i) * 3.0, name="C")
    return te.create_schedule(C.op), A, B, C


def extents(schedule: te.Schedule, args: list[te.Tensor], buffer: str) -> list[int]:
    """The extents of the loops around the store into a buffer, outermost first."""
    found: list[list[int]] = []

    def visit(stmt: Any, around: list[int]) -> None:
        if isinstance(stmt, Store) and stmt.buffer.name == buffer:
            found.append(around)
        inside = [*around, stmt.extent] if isinstance(stmt, For) else around
        for part in ("body", "then", "stmts"):
            below = getattr(stmt, part, ())
            for each in below if isinstance(below, tuple | list) else [below]:
                visit(each, inside)

    visit(tvm.lower(schedule, args)["main"].body, [])
    return found[0]


def run(target: Any, *arrays: np.ndarray[Any, Any]) -> list[np.ndarray[Any, Any]]:
    """The arrays after a call of what is built of a schedule with its arguments, or of a program."""
    given = [tvm.nd.array(array) for array in arrays]
    (tvm.build(*target, "llvm") if isinstance(target, tuple) else tvm.build(target, target="llvm"))(*given)
    return [array.numpy() for array in given]


class TestLoops:
    def test_sizes_may_be_variables(self) -> None:
        m, n = te.size_var("m"), te.var("n")
        s, _, B = doubled(m, n)
        outer, inner = s[B].split(B.op.axis[0], factor=10)
        assert tuple(s[B].leaf_iter_vars) == (outer, inner, B.op.axis[1])
        assert tuple(B.shape) == (m, n)

    def test_tiles_have_their_loops_in_tvms_order(self) -> None:
        s, _, B = doubled(40, 20)
        xo, yo, xi, yi = s[B].tile(*B.op.axis, x_factor=10, y_factor=5)
        assert tuple(s[B].leaf_iter_vars) == (xo, yo, xi, yi)
        fused = s[B].fuse(xo, yo)
        assert tuple(s[B].leaf_iter_vars) == (fused, xi, yi)
        assert len(s[B].relations) == 3
        assert len(s[B].all_iter_vars) == 7

    def test_loops_are_fused_in_their_order_alone(self) -> None:
        s, _, B = doubled(40, 20)
        outer, inner = s[B].split(B.op.axis[0], factor=10)
        with pytest.raises(tvm.TVMError, match="reorder them first"):
            s[B].fuse(outer, B.op.axis[1])
        s[B].reorder(B.op.axis[1], outer, inner)
        fused = s[B].fuse(B.op.axis[1], outer)
        with pytest.raises(tvm.TVMError, match="twice"):
            s[B].reorder(fused, inner, fused)

    def test_a_stage_without_axes_has_a_loop_after_fuse(self) -> None:
        A = te.placeholder((), name="A")
        B = te.compute((), lambda: A() + 1.0, name="B")
        s = te.create_schedule(B.op)
        fused = s[B].fuse()
        assert tuple(s[B].leaf_iter_vars) == (fused,)
        assert run((s, [A, B]), np.float32(2), np.float32(0))[1] == 3

    def test_schedules_are_pickled(self) -> None:
        s, A, B, C = chain(16, 8)
        outer, _ = s[C].split(C.op.axis[0], factor=4)
        s[B].compute_at(s[C], outer)
        back = pickle.loads(pickle.dumps(s))
        assert isinstance(back, te.Schedule)
        assert str(back.outputs[0].body) == str(s.outputs[0].body)
        output = back.outputs[0].output(0)
        source = output.op.input_tensors[0].op.input_tensors[0]
        assert str(tvm.lower(back, [source, output])) == str(tvm.lower(s, [A, C]))

    @pytest.mark.parametrize("disabled", [False, True])
    def test_splits_that_divide_need_no_test(self, disabled: bool) -> None:
        s, A, B = doubled(44)
        s[B].split(B.op.axis[0], factor=4, disable_predication=disabled)
        assert "if" not in tvm.lower(s, [A, B]).script().partition("def main")[2]

    def test_spatial_and_reduce_loops_are_fused(self) -> None:
        X, k = te.placeholder((10,), dtype="int32", name="X"), te.reduce_axis((0, 10), name="k")
        Y = te.compute((10,), lambda i: te.sum(X[k], axis=k), name="Y")
        s = te.create_schedule(Y.op)
        s[Y].fuse(*Y.op.axis, *Y.op.reduce_axis)
        y, _ = run((s, [Y, X]), np.zeros(10, "int32"), np.ones(10, "int32"))
        np.testing.assert_array_equal(y, np.full(10, 10))


class TestBounds:
    @pytest.mark.parametrize(
        ("cut", "loops"),
        [
            (lambda s, C: s.tile(*C.op.axis, 8, 8)[1], [4, 3, 8, 8]),
            (lambda s, C: s.split(C.op.axis[0], factor=8)[0], [4, 8, 24]),
            (lambda s, C: s.split(C.op.axis[0], factor=100)[0], [32, 24]),  # there are no empty iterations
            (lambda s, C: s.split(C.op.axis[0], nparts=100)[0], [32, 24]),
            (lambda s, C: s.split(s.fuse(*C.op.axis), factor=12)[0], [64, 12]),
            (lambda s, C: s.split(s.fuse(*C.op.axis), factor=48)[0], [16, 2, 24]),
        ],
    )
    def test_a_stage_computes_what_its_place_needs(self, cut: Callable[[Any, Any], Any], loops: list[int]) -> None:
        s, A, B, C = chain(32, 24)
        s[B].compute_at(s[C], cut(s[C], C))
        assert [extent for extent in extents(s, [A, C], "B") if extent > 1] == loops

    def test_a_window_is_as_wide_as_what_is_read(self) -> None:
        A = te.compute((18, 18), lambda i, j: i * 2 + j, name="A")
        cross = [(0, 1), (1, 0), (1, 1), (1, 2), (2, 1)]
        B = te.compute((16, 16), lambda i, j: sum((A[i + a, j + b] for a, b in cross[1:]), A[i, j + 1]), name="B")
        s = te.create_schedule(B.op)
        s[A].compute_at(s[B], B.op.axis[1])
        assert extents(s, [B], "A")[-2:] == [3, 3]

    def test_a_factored_reduction_has_the_parts_of_its_axis(self) -> None:
        A, k = te.placeholder((64,), name="A"), te.reduce_axis((0, 64), name="k")
        B = te.compute((1,), lambda i: te.sum(A[k], axis=k), name="B")
        s = te.create_schedule(B.op)
        parts, _ = s[B].split(k, nparts=4)
        factored = s.rfactor(B, parts)
        assert tuple(factored.shape) == (4, 1)
        assert factored.op.axis[0].dom.extent == 4

    def test_the_new_axis_of_a_factored_reduction_stands_where_it_is_wanted(self) -> None:
        A, k = te.placeholder((6, 64), name="A"), te.reduce_axis((0, 64), name="k")
        B = te.compute((6,), lambda i: te.sum(A[i, k], axis=k), name="B")
        for place, shape in enumerate([(4, 6), (6, 4)]):
            s = te.create_schedule(B.op)
            _, inner = s[B].split(k, factor=4)
            assert tuple(s.rfactor(B, inner, place).shape) == shape

    def test_groups_of_groups_move_together(self) -> None:
        A = te.placeholder((12, 6), name="A")
        X = te.compute((12, 6), lambda i, j: A[i, j] + 1.0, name="X")
        Y = te.compute((12, 6), lambda i, j: X[i, j] * 2.0, name="Y")
        Z = te.compute((12, 6), lambda i, j: Y[i, j] - 3.0, name="Z")
        s = te.create_schedule(Z.op)
        inner = s.create_group(outputs=X, inputs=X, include_inputs=True)
        outer = s.create_group(outputs=Y, inputs=X, include_inputs=True)
        assert (s[X].group, s[Y].group) == (inner, outer)
        outer.compute_at(s[Z], Z.op.axis[0])
        inner.compute_at(s[Y], s[Y].op.axis[1])
        assert extents(s.normalize(), [A, Z], "X")[:2] == [12, 6]
        a = np.arange(72, dtype="float32").reshape(12, 6)
        np.testing.assert_array_equal(run((s, [A, Z]), a, 0 * a)[1], (a + 1) * 2 - 3)


class TestPlaces:
    def test_an_inlined_stage_reads_what_is_attached(self) -> None:
        A = te.placeholder((30,), name="A")
        B = te.compute((30,), lambda *i: A(*i) + 1.0, name="B")
        C = te.compute((30,), lambda *i: B(*i) + 2.0, name="C")
        D = te.compute((30,), lambda i: C[i] * B[i], name="D")
        s = te.create_schedule(D.op)
        outer, _ = s[D].split(D.op.axis[0], factor=8)
        s[B].compute_at(s[D], outer)
        s[C].compute_inline()
        a = np.arange(30, dtype="float32")
        np.testing.assert_array_equal(run((s, [A, D]), a, 0 * a)[1], (a + 3) * (a + 1))

    def test_a_cached_stage_is_inlined_into_several_outputs(self) -> None:
        A, B = te.placeholder((10, 8), name="A"), te.placeholder((10, 8), name="B")
        C = te.compute((10, 8), lambda *i: A(*i) + B(*i), name="C")
        F, E = te.compute((10, 8), lambda *i: (C(*i), C(*i) * B(*i)), name="F")
        s = te.create_schedule([F.op, E.op])
        s.cache_read(A, "local", [C])
        s.cache_read(B, "local", [C, E])
        s.cache_write(C, "local")
        s.cache_write([F, E], "local")
        s[C].compute_inline()
        a = np.arange(80, dtype="float32").reshape(10, 8)
        made = run((s, [A, B, F, E]), a, a + 1, 0 * a, 0 * a)
        np.testing.assert_array_equal(made[2], 2 * a + 1)
        np.testing.assert_array_equal(made[3], (2 * a + 1) * (a + 1))

    @pytest.mark.parametrize("own", [False, True])
    def test_places_without_an_end_are_refused(self, own: bool) -> None:
        s, A, B, C = chain(16)
        with pytest.raises(tvm.TVMError, match="is an output and stays at the root"):
            s[C].compute_at(s[C] if own else s[B], C.op.axis[0] if own else B.op.axis[0])
        assert tvm.lower(s, [A, C])


class TestTensors:
    def test_tensors_are_keys(self) -> None:
        A = te.placeholder((4, 6), name="A")
        B = te.compute((4, 6), lambda i, j: A[i, j], name="B")
        assert isinstance(A.op, te.PlaceholderOp)
        assert isinstance(B.op, te.ComputeOp)
        assert {B.op.output(0): 1}[B] == 1
        assert tuple(B.op.input_tensors) == (A,)
        assert B[0][0].astype("float16").dtype == "float16"
        assert (B.op.num_outputs, B.value_index, B.ndim) == (1, 0, 2)

    def test_several_outputs_know_their_places(self) -> None:
        A = te.placeholder((4,), name="A")
        B, C = te.compute((4,), lambda i: (A[i] + 1.0, A[i] * 2.0), name="T")
        assert (B.value_index, C.value_index) == (0, 1)
        assert (B.name, C.name) == ("T_0", "T_1")

    def test_a_shape_may_be_a_number(self) -> None:
        A = te.placeholder((8 + 2), name="A")
        B = te.compute(8, lambda i: A[i] + A[i + 1] + A[i + 2], name="B")
        a = np.arange(10, dtype="float32")
        np.testing.assert_array_equal(run((te.create_schedule(B.op), [A, B]), a, a[:8])[1], a[:-2] + a[1:-1] + a[2:])

    def test_reducers_combine_two_values_too(self) -> None:
        add = te.comm_reducer(lambda x, y: x + y, lambda t: tir.const(0, dtype=t), name="add")
        m, n = te.size_var("m"), te.size_var("n")
        assert str(add(m, n)) == str(m + n)

    def test_a_reduction_of_pairs_may_have_a_condition(self) -> None:
        both = te.comm_reducer(
            lambda x, y: (x[0] + y[0], x[1] * y[1]), lambda a, b: (tir.const(0, a), tir.const(1, b)), name="both"
        )
        X, V = (te.placeholder((3, 8), dtype="int32", name=name) for name in "XV")
        k = te.reduce_axis((0, 8), name="k")
        P, Q = te.compute((3,), lambda i: both((X[i, k], V[i, k]), axis=k, where=te.floormod(k, 2) == 0), name="T")
        x = np.arange(24, dtype="int32").reshape(3, 8) % 5
        zeros = np.zeros(3, "int32")
        made = run((te.create_schedule(P.op), [X, V, P, Q]), x, x + 1, zeros, zeros)
        np.testing.assert_array_equal(made[2], x[:, ::2].sum(1))
        np.testing.assert_array_equal(made[3], (x[:, ::2] + 1).prod(1))

    @pytest.mark.parametrize("part", ["combine", "identity"])
    def test_a_reducer_that_depends_on_where_it_is_used_is_refused(self, part: str) -> None:
        A, start = te.placeholder((5, 5), name="A"), te.placeholder((5,), name="start")
        k = te.reduce_axis((0, 5), name="k")

        def total(i: te.IterVar) -> Any:
            combine = (lambda x, y: x + y * start[i]) if part == "combine" else (lambda x, y: x + y)
            identity = (lambda t: start[i]) if part == "identity" else (lambda t: tir.const(0, t))
            return te.comm_reducer(combine, identity, name="total")(A[i, k], axis=k)

        with pytest.raises(ComputeError, match=rf"total: {part} depends on i, start.*second te.compute"):
            te.compute((5,), total, name="B")


class TestPrograms:
    def test_equal_names_of_stages_are_told_apart(self) -> None:
        A = te.placeholder((8,), name="A")
        B = te.compute((8,), lambda i: A[i] * 2.0, name="main")
        C = te.compute((8,), lambda i: B[i] + 1.0, name="main")
        schedule = tir.Schedule(te.create_prim_func([A, C]), debug_mask="all")
        assert [schedule.get_block(name).name for name in ("main", "main_1")] == ["main", "main_1"]

    def test_arguments_keep_the_order_in_which_they_are_given(self) -> None:
        A = te.placeholder((4,), name="A")
        B = te.compute((4,), lambda i: A[i] + 1.0, name="B")
        assert [p.name for p in te.create_prim_func([B, A]).params] == ["B", "A"]

    def test_indices_may_be_elements_of_a_tensor(self) -> None:
        A, X = te.placeholder((6,), name="A"), te.placeholder((6,), dtype="int32", name="X")
        B = te.compute((6,), lambda i: A[X[i]], name="B")
        a, order = np.arange(6, dtype="float32"), np.array([3, 1, 5, 0, 2, 4], "int32")
        np.testing.assert_array_equal(run(te.create_prim_func([B, A, X]), 0 * a, a, order)[0], a[order])

    def test_a_constant_without_dimensions_is_a_stage(self) -> None:
        A = te.placeholder((6,), name="A")
        B = te.compute((), lambda: 2, name="B")
        C = te.compute((6,), lambda i: A[i] + B(), name="C", tag="broadcast")
        a = np.arange(6, dtype="float32")
        np.testing.assert_array_equal(run(te.create_prim_func([C, A]), 0 * a, a)[0], a + 2)

    def test_one_of_several_outputs_is_asked_for(self) -> None:
        A = te.placeholder((4,), name="A")
        B, _ = te.compute((4,), lambda i: (A[i] + 1.0, A[i] * 2.0), name="T")
        C = te.compute((4,), lambda i: B[i] - 1.0, name="C")
        a = np.arange(4, dtype="float32")
        np.testing.assert_array_equal(run(te.create_prim_func([A, C]), a, 0 * a)[1], a)

    def test_what_was_said_of_a_tensor_goes_through_text(self) -> None:
        A, W, k = te.placeholder((8, 8), name="A"), te.placeholder((8, 8), name="W"), te.reduce_axis((0, 8), name="k")
        C = te.compute(
            (8, 8),
            lambda i, j: te.sum(A[i, k] * W[j, k], axis=k),
            name="C",
            attrs={"layout_free_placeholders": [W]},
        )
        func = te.create_prim_func([A, W, C])
        tvm.ir.assert_structural_equal(tvm.script.from_source(func.script()), func)


def test_layouts_of_stages_are_refused_with_the_way() -> None:
    s, _, B, _ = chain(8, 8)
    with pytest.raises(ScheduleError, match=r"tir.Schedule.*transform_layout"):
        s[B].transform_layout(lambda i, j: [j, i])
