"""Workloads, search tasks, and the computation of a task, by TVM's names."""

from __future__ import annotations

import json
import pickle
from typing import Any

import numpy as np
import pytest
from ansor_workloads import Tensors, ansor_matmul

from pegbox.errors import ArgumentError, TargetError, TemplateError, UnknownName
from pegbox.plugins.tvm import auto_scheduler, te
from pegbox.plugins.tvm.auto_scheduler import HardwareParams, SearchTask, utils, workload_registry

PACKED = auto_scheduler.LayoutRewriteOption.REWRITE_FOR_PRE_TRANSFORMED


def task_of(*args: int, **options: Any) -> SearchTask:
    return SearchTask(func=ansor_matmul, args=args or (16, 16, 16), target="llvm -num-cores 1", **options)


def test_a_workload_is_found_by_function_name_and_key() -> None:
    key = auto_scheduler.make_workload_key(ansor_matmul, (8, 8, 4))
    assert json.loads(key) == ["ansor_matmul", 8, 8, 4]
    assert key == auto_scheduler.make_workload_key("ansor_matmul", [8, 8, 4])
    tasks = [
        SearchTask(func=ansor_matmul, args=(8, 8, 4), target="llvm"),
        SearchTask(func="ansor_matmul", args=(8, 8, 4), target="llvm"),
        SearchTask(workload_key=key, target="llvm"),
    ]
    assert {task.workload_key for task in tasks} == {key}
    assert len({str(task.compute_dag) for task in tasks}) == 1


def test_a_workload_may_have_the_name_of_one_of_pegbox() -> None:
    def matmul(n: int) -> Tensors:
        return ansor_matmul(n, n, n)

    assert auto_scheduler.register_workload(matmul) is matmul
    assert SearchTask(func=matmul, args=(4,), target="llvm").tuned_task.name.startswith("matmul@sketch")
    with pytest.raises(ArgumentError, match=r"there is a workload 'matmul' already.*override=True"):
        auto_scheduler.register_workload("matmul")(ansor_matmul)
    auto_scheduler.register_workload("matmul")(matmul)  # the same definition again
    auto_scheduler.register_workload("matmul", f=matmul, override=True)
    del workload_registry.WORKLOAD_FUNC_REGISTRY["matmul"]


def test_what_is_no_workload_is_refused() -> None:
    with pytest.raises(UnknownName, match=r"no workload 'never_heard'.*register_workload"):
        auto_scheduler.make_workload_key("never_heard", ())
    with pytest.raises(ArgumentError, match="make_workload_key"):
        auto_scheduler.make_workload_key(3, ())  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="no workload key"):
        SearchTask(workload_key="matmul", target="llvm")
    with pytest.raises(ArgumentError, match="func= with its args="):
        SearchTask(target="llvm")
    with pytest.raises(ArgumentError, match="target='llvm'"):
        SearchTask(func=ansor_matmul, args=(4, 4, 4))
    with pytest.raises(TargetError, match="CPUs only"):
        SearchTask(func=ansor_matmul, args=(4, 4, 4), target="cuda")


def test_tensors_may_be_arguments() -> None:
    def doubled(x: te.Tensor, factor: float) -> Tensors:
        return [x, te.compute(x.shape, lambda i: x[i] * factor, name="Y")]

    auto_scheduler.register_workload("ansor_doubled", doubled, override=True)
    key = auto_scheduler.make_workload_key("ansor_doubled", (te.placeholder((6,), "float64"), 2.0))
    assert json.loads(key) == ["ansor_doubled", ["TENSOR", [6], "float64"], 2.0]
    task = SearchTask(workload_key=key, target="llvm")
    assert [(t.shape, t.dtype) for t in task.compute_dag.tensors] == [((6,), "float64")] * 2
    assert task.tuned_task.space.size >= 1


def test_a_task_may_be_of_tensors_alone() -> None:
    dag = auto_scheduler.ComputeDAG(ansor_matmul(8, 8, 8))
    key = dag.workload_key()
    task = SearchTask(compute_dag=dag, workload_key=key, target="llvm")
    assert key in workload_registry.WORKLOAD_FUNC_REGISTRY
    assert str(SearchTask(workload_key=key, target="llvm").compute_dag) == str(dag)
    assert [t.name for t in task.tuned_task.tensors] == ["A", "B", "C"]


def test_an_entry_of_the_registry_can_be_taken_to_another_process() -> None:
    entry = pickle.loads(pickle.dumps(workload_registry.serialize_workload_registry_entry("ansor_matmul")))
    del workload_registry.WORKLOAD_FUNC_REGISTRY["ansor_matmul"]
    workload_registry.deserialize_workload_registry_entry(entry)
    assert workload_registry.WORKLOAD_FUNC_REGISTRY["ansor_matmul"] is ansor_matmul


def test_a_task_can_be_pickled() -> None:
    task = task_of(8, 8, 8, desc="a product")
    again = pickle.loads(pickle.dumps(task))
    assert isinstance(again, SearchTask)
    assert (again.workload_key, str(again.target), again.desc) == (task.workload_key, str(task.target), "a product")
    assert str(again.compute_dag) == str(task.compute_dag)
    assert again.hardware_params.num_cores == 1


def test_hardware_parameters_are_those_of_the_target_where_they_are_not_given() -> None:
    params = HardwareParams(target="llvm -mcpu=x86-64-v3 -num-cores 3")
    assert (params.num_cores, params.vector_unit_bytes, params.cache_line_bytes) == (3, 32, 64)
    task = SearchTask(
        func=ansor_matmul,
        args=(16, 16, 16),
        target="llvm -mcpu=x86-64-v3 -num-cores 1",
        hardware_params=HardwareParams(num_cores=4, target="llvm -mcpu=x86-64-v3"),
    )
    assert task.target.num_cores == task.tuned_task.target.num_cores == 4


def test_arrays_for_inputs_are_kept_by_name() -> None:
    arrays = {name: np.zeros((16, 16), "float32") for name in ("B", "elsewhere")}
    task = task_of(task_inputs=arrays, task_inputs_overwrite=True)
    assert task.task_input_names == ["B", "elsewhere"]
    assert list(task.given_inputs) == ["B"]
    assert list(task_of(task_inputs=["B"]).given_inputs) == ["B"]
    assert task_of().given_inputs == {}
    with pytest.raises(ArgumentError, match="arrays by the names of inputs"):
        task_of(task_inputs=3)
    given = auto_scheduler.search_task.register_task_input_buffer(task.workload_key, "A", arrays["B"] + 1)
    assert auto_scheduler.search_task.get_task_input_buffer(task.workload_key, "A") is given
    with pytest.raises(ArgumentError, match="has an array already; overwrite=True"):
        auto_scheduler.search_task.register_task_input_buffer(task.workload_key, "A", arrays["B"])
    with pytest.raises(ArgumentError, match="the input 'C' has no array"):
        auto_scheduler.search_task.get_task_input_buffer(task.workload_key, "C")
    auto_scheduler.search_task.TASK_INPUT_BUFFER_TABLE.clear()


def test_inputs_whose_layout_is_free_stay_as_they_are_unless_asked_for() -> None:
    assert [t.shape for t in task_of().tuned_task.tensors][1] == (16, 16)
    packed = task_of(layout_rewrite_option=PACKED).tuned_task
    assert packed.tensors[1].name == "B_packed"
    with pytest.raises(ArgumentError, match=r"take their inputs as they are; tune a SearchTask\(layout_rewrite_option"):
        task_of().apply_best("none.json", layout_rewrite_option=PACKED)


def test_the_work_of_a_computation_is_counted() -> None:
    dag = auto_scheduler.ComputeDAG(ansor_matmul(8, 16, 32))
    assert dag.flop_ct == 2 * 8 * 16 * 32
    c = dag.tensors[2]
    relu = te.compute((8, 16), lambda i, j: te.max(c[i, j], 0.0), name="D")
    assert auto_scheduler.ComputeDAG([*dag.tensors[:2], relu]).flop_ct == 2 * 8 * 16 * 32 + 8 * 16
    said = te.compute((8, 16), lambda i, j: c[i, j], name="F", attrs={"FLOP": 1234})
    assert auto_scheduler.ComputeDAG([*dag.tensors[:2], said]).flop_ct == 2 * 8 * 16 * 32 + 1234


def test_a_computation_is_printed_as_code_and_told_apart_by_a_checksum() -> None:
    dag, other = (auto_scheduler.ComputeDAG(ansor_matmul(8, 8, n)) for n in (8, 16))
    assert 'te.sum(A[i, k] * B[k, j], axis=k), name="C"' in str(dag)
    assert dag.hash_key() == auto_scheduler.ComputeDAG(ansor_matmul(8, 8, 8)).hash_key() != other.hash_key()
    assert [op.name for op in dag.ops] == ["A", "B", "C"]


def test_operations_stand_behind_what_they_read() -> None:
    a = te.placeholder((8, 8), name="A")
    shifted = te.compute((8, 8), lambda i, j: a[i, j] + 1.0, name="shifted")
    b = te.placeholder((8, 8), name="B")
    out = te.compute((8, 8), lambda i, j: shifted[i, j] * b[i, j], name="out")
    dag = auto_scheduler.ComputeDAG([a, b, out])
    assert [op.name for op in dag.ops] == ["A", "shifted", "B", "out"]
    assert [op.name for op in dag.get_init_state().stage_ops] == ["A", "shifted", "B", "out"]


def test_a_computation_of_a_te_schedule() -> None:
    a, b, c = ansor_matmul(8, 8, 8)
    assert str(auto_scheduler.ComputeDAG(te.create_schedule(c.op))) == str(auto_scheduler.ComputeDAG([a, b, c]))


def test_what_is_no_computation_is_refused() -> None:
    a, _, c = ansor_matmul(8, 8, 8)
    with pytest.raises(TemplateError, match="inputs that are not among the arguments: B"):
        auto_scheduler.ComputeDAG([a, c])
    with pytest.raises(ArgumentError, match="give the kernel's tensors as a list"):
        auto_scheduler.ComputeDAG(3)  # type: ignore[arg-type]


def test_names_of_relay_say_where_to_go() -> None:
    for name, words in [
        ("extract_tasks", "TaskScheduler"),
        ("rewrite_compute_body", "pack_weights"),
        ("LocalRPCMeasureContext", "LocalRunner"),
        ("RPCRunner", "LocalRunner"),
        ("ApplyHistoryBestOrSample", "ApplyHistoryBest"),
        ("get_shape_from_rewritten_layout", "shape"),
    ]:
        with pytest.raises(ArgumentError, match=words):
            getattr(auto_scheduler, name)("x", ["y"])
    assert not auto_scheduler.is_auto_scheduler_enabled()


def test_how_far_workloads_are_apart() -> None:
    def apart(args: list[Any], other: list[Any], name: str = "f") -> float:
        keys = json.dumps(["f", *args]), json.dumps([name, *other])
        return utils.calc_workload_dis_factor(*map(utils.decode_workload_key, keys))

    whole = [[8, 3, 224, 224], [32, 3, 3, 3], [0, 0], "float32"]
    assert apart(whole, whole) == 1
    assert apart(whole, [[1, 3, 112, 112], *whole[1:]]) == 8 * 2 * 2
    for other in ([[8, 3, 223, 224], *whole[1:]], [*whole[:2], [1, 1], "float32"], [*whole[:3], "int8"], whole[:3]):
        assert apart(whole, other) == float("inf")
    assert apart(whole, whole, "g") == float("inf")


def test_names_load_when_they_are_used() -> None:
    assert set(dir(auto_scheduler)) >= {"SearchTask", "measure", "XGBModel", "load_records"}
    assert all(getattr(auto_scheduler, name) is not None for name in dir(auto_scheduler))
