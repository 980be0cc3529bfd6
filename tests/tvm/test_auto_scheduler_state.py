"""States: loops and the steps that make them, as TVM's loop states have them."""

from __future__ import annotations

import numpy as np
import pytest
from ansor_workloads import ansor_matmul, matmul_relu

import pegbox as pb
from pegbox.errors import ArgumentError, ScheduleError
from pegbox.plugins.tvm import auto_scheduler
from pegbox.plugins.tvm.auto_scheduler.loop_state import Iterator, Range, Stage, State

KINDS = State.ANNOTATION_TRANS_TABLE


def extents(iters: tuple[Iterator, ...]) -> list[int | None]:
    return [None if it.range is None else it.range.extent for it in iters]


def state_of(*sizes: int) -> tuple[auto_scheduler.ComputeDAG, State]:
    dag = auto_scheduler.ComputeDAG(ansor_matmul(*(sizes or (64, 64, 64))))
    return dag, dag.get_init_state()


def test_loops_are_split_reordered_and_fused() -> None:
    dag, s = state_of()
    c = dag.tensors[2]
    i, j, k = s[c].iters
    assert i.range == Range(0, 64)
    io, ii = s.split(c, i, [16])
    assert s[c].iters[:2] == (io, ii)
    assert extents((io, ii)) == [4, 16]
    jo, ji = s.split(c, j, [8])
    s.reorder(c, [io, jo, k, ji, ii])
    assert extents(s[c].iters) == [4, 8, 64, 8, 16]
    fused = s.fuse(c, [io, jo])
    assert extents((fused,)) == [32]
    assert s[c].iters[0] == fused


def test_splits_count_from_the_inside_or_from_the_outside() -> None:
    dag, s = state_of(512, 512, 64)
    c = dag.tensors[2]
    i, j, _ = s[c].iters
    s.split(c, i, [8, 2])
    s.split(c, j, [32, 8], False)
    assert extents(s[c].iters) == [32, 8, 2, 32, 8, 2, 64]


def test_loops_say_how_they_run() -> None:
    dag, s = state_of()
    c = dag.tensors[2]
    i, j, k = s[c].iters
    assert s.parallel(c, i).annotation == KINDS["parallel"] == s[c].iters[0].annotation
    assert s.vectorize(c, j).annotation == KINDS["vectorize"]
    assert s.unroll(c, k, 16) == k
    assert s.unroll(c, k).annotation == KINDS["unroll"]
    with pytest.raises(ArgumentError, match=r"bind.*state\.parallel"):
        s.bind(c, i, "blockIdx.x")


def test_stages_say_where_they_are_computed() -> None:
    dag = auto_scheduler.ComputeDAG(matmul_relu(16))
    s = dag.get_init_state()
    c, d = s.stage_ops[2:]
    places = Stage.COMPUTE_AT_TRANS_TABLE
    assert s[c].compute_at == places["root"]
    s.compute_at(c, d, s[d].iters[0])
    assert s[c].compute_at == places["iter"]
    s.compute_root(c)
    assert s[c].compute_at == places["root"]
    with pytest.raises(ScheduleError, match="compute_inline"):
        s.compute_inline(c)
    assert (s[0].op_type, s[2].op_type) == (0, 1)
    assert extents(s[0].iters) == [16, 16]


def test_caches_are_stages_of_their_own() -> None:
    dag, s = state_of()
    a, _, c = dag.tensors
    cache = s.cache_write(c, "global")
    copy = s.cache_read(a, "global", [cache])
    assert [op.name for op in s.stage_ops] == ["A", "A.global", "B", "C.global", "C"]
    assert len(s[cache].iters) == 3
    assert extents(s[c].iters) == [64, 64]
    s.compute_at(cache, c, s[c].iters[0])
    s.compute_at(copy, cache, s[cache].iters[2])
    sch, args = dag.apply_steps_from_state(s)
    assert "A.global" in str(pb.lower(sch, args))


def test_a_reduction_is_done_in_parts() -> None:
    dag, s0 = state_of(8, 8, 64)
    c = dag.tensors[2]
    ko, ki = s0.split(c, s0[c].iters[2], [16])
    s1, s2 = s0.copy(), s0.copy()
    outer, inner = s1.rfactor(c, ko, 2), s2.rfactor(c, ki, 2)
    assert (extents(s1[outer].iters), extents(s1[c].iters)) == ([8, 8, 4, 16], [8, 8, 4])
    assert (extents(s2[inner].iters), extents(s2[c].iters)) == ([8, 8, 16, 4], [8, 8, 16])
    assert len(s0[c].iters) == 4  # a copy goes on by itself


def test_a_split_follows_an_earlier_one() -> None:
    dag, s = state_of(512, 16, 16)
    c = dag.tensors[2]
    cache = s.cache_write(c, "global")
    s.split(c, s[c].iters[0], [4, 2, 8, 4])
    step = len(s.transform_steps) - 1
    for levels in range(1, 5):
        follower = s.copy()
        follower.follow_split(cache, follower[cache].iters[0], step, levels)
        assert extents(follower[cache].iters[:levels]) == extents(follower[c].iters[:levels])
        assert extents(follower[cache].iters[levels : levels + 1]) == [512 // np.prod([2, 4, 2, 8, 4][:levels])]
    with pytest.raises(ArgumentError, match="step 0 is no split"):
        s.follow_split(cache, s[cache].iters[0], 0, 1)
    with pytest.raises(ScheduleError, match="threads of a GPU"):
        s.follow_fused_split(cache, s[cache].iters[0], [step], 1, True)


def test_steps_make_a_kernel_and_code_that_makes_the_same() -> None:
    dag, s = state_of(16, 32, 8)
    c = dag.tensors[2]
    io, ii = s.split(c, s[c].iters[0], [4])
    s.reorder(c, [io, s[c].iters[3], ii, s[c].iters[2]])
    s.vectorize(c, s[c].iters[3])
    s.pragma(c, s[c].iters[0], "auto_unroll_max_step$16")
    sch, args = dag.apply_steps_from_state(s)
    func = pb.build(sch, args)
    a, b, out = (
        np.ones((16, 8), "float32"),
        np.arange(256, dtype="float32").reshape(8, 32),
        np.empty((16, 32), "float32"),
    )
    func(a, b, out)
    np.testing.assert_allclose(out, a @ b)
    scope = {"te": pb.te}
    exec("\n".join([*str(dag).splitlines(), "s = te.create_schedule([C])"]), scope)
    exec(dag.print_python_code_from_state(s), scope)
    again = pb.lower(scope["s"], [scope["A"], scope["B"], scope["C"]])  # type: ignore[arg-type]
    assert str(again) == str(pb.lower(sch, args))


def test_loops_have_the_extents_that_their_place_leaves_them() -> None:
    dag = auto_scheduler.ComputeDAG(matmul_relu(16))
    s = dag.get_init_state()
    c, d = s.stage_ops[2:]
    s.split(c, s[c].iters[2], [4])
    s.compute_at(c, d, s[d].iters[0])
    assert extents(s[c].iters) == [16, 16, 4, 4]
    bounds = dag.infer_bound_from_state(s)
    assert extents(bounds[c].iters) == [1, 16, 4, 4]
    assert extents(bounds[d].iters) == [16, 16]
    bounds.compute_root(c)
    assert extents(dag.infer_bound_from_state(bounds)[c].iters) == [16, 16, 4, 4]
    s.split(d, s[d].iters[1], [None])
    assert dag.infer_bound_from_state(s) == s


def test_equal_steps_are_equal_states() -> None:
    dag, one = state_of()
    other = dag.get_init_state()
    assert one == other
    one.split(dag.tensors[2], one[dag.tensors[2]].iters[0], [4])
    assert one != other
    other.split(2, other[2].iters[0], [4])
    assert one == dag.infer_bound_from_state(other)
    assert one.state_object == other.state_object
    assert one.state_object == other
    assert other == one.state_object


def test_lengths_that_are_none_are_left_to_a_search() -> None:
    dag, s = state_of()
    c = dag.tensors[2]
    assert extents(tuple(s.split(c, s[c].iters[0], [None, None]))) == [None, None, None]
    with pytest.raises(ArgumentError, match=r"leaves C_i open.*task\.tune"):
        dag.apply_steps_from_state(s)
    with pytest.raises(ArgumentError, match="numbers, or None for each"):
        s.split(c, s[c].iters[3], [None, 2])


def test_what_is_not_legal_is_refused_at_once() -> None:
    dag, s = state_of()
    c = dag.tensors[2]
    _, _, k = s[c].iters
    s.parallel(c, s[c].iters[0])
    with pytest.raises(ScheduleError, match="split"):
        s.split(c, s[c].iters[0], [4])
    with pytest.raises(ArgumentError, match="no operation of this state"):
        s.split(matmul_relu(4)[2], k, [2])
