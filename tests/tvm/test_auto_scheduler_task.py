"""Workloads, search tasks, and the computation of a task, by TVM's names."""

from __future__ import annotations

import json
import pickle
from typing import Any

import numpy as np
import pytest
from ansor_workloads import Tensors, ansor_matmul

from pegbox.errors import ArgumentError, TargetError, UnknownName
from pegbox.plugins import tvm
from pegbox.plugins.tvm import auto_scheduler, te
from pegbox.plugins.tvm.auto_scheduler import SearchTask, workload_registry


def task_of(*args: int, **options: Any) -> SearchTask:
    return SearchTask(func=ansor_matmul, args=args or (16, 16, 16), target="llvm -num-cores 1", **options)


def test_a_workload_is_found_by_function_name_and_key() -> None:
    key = auto_scheduler.make_workload_key(ansor_matmul, (8, 8, 4))
    assert json.loads(key) == ["ansor_matmul", 8, 8, 4]
    assert key == auto_scheduler.make_workload_key("ansor_matmul", [np.int64(8), 8, 4])
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
    assert SearchTask(func=matmul, args=(4,), target="llvm").inner.name.startswith("matmul@sketch")
    with pytest.raises(ArgumentError, match=r"there is a workload 'matmul' already.*override=True"):
        auto_scheduler.register_workload("matmul")(ansor_matmul)
    auto_scheduler.register_workload("matmul")(matmul)  # the same definition again
    auto_scheduler.register_workload("matmul", f=matmul, override=True)
    del workload_registry.WORKLOAD_FUNC_REGISTRY["matmul"]


def test_what_is_no_workload_is_refused() -> None:
    with pytest.raises(UnknownName, match=r"no workload 'never_heard'.*register_workload"):
        auto_scheduler.make_workload_key("never_heard", ())
    with pytest.raises(UnknownName, match="there is no workload '3'"):
        auto_scheduler.make_workload_key(3, ())  # type: ignore[arg-type]
    for args in (3, [te.placeholder((3,))]):
        with pytest.raises(ArgumentError, match="give numbers, text, and lists of them"):
            auto_scheduler.make_workload_key(ansor_matmul, args)  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="is not a workload key"):
        SearchTask(workload_key="matmul", target="llvm")
    with pytest.raises(ArgumentError, match="func= with its args="):
        SearchTask(target="llvm")
    with pytest.raises(ArgumentError, match="target='llvm'"):
        SearchTask(func=ansor_matmul, args=(4, 4, 4))
    with pytest.raises(TargetError, match="CPUs only"):
        SearchTask(func=ansor_matmul, args=(4, 4, 4), target="cuda")


def test_a_task_can_be_pickled() -> None:
    task = task_of(8, 8, 8, desc="a product")
    again = pickle.loads(pickle.dumps(task))
    assert isinstance(again, SearchTask)
    assert (again.workload_key, str(again.target), again.desc) == (task.workload_key, str(task.target), "a product")
    assert str(again.compute_dag) == str(task.compute_dag)


def test_arrays_for_inputs_are_kept_by_name() -> None:
    task = task_of(task_inputs={"B": tvm.nd.empty((16, 16))})
    assert [type(array) for array in task.task_inputs.values()] == [np.ndarray]
    assert task_of().task_inputs == {}


def test_options_without_a_meaning_are_refused_by_name() -> None:
    assert task_of(hardware_params=None).target.num_cores == 1  # as before TVM 0.8
    for option, reason in (("hardware_params", "-num-cores 4"), ("layout_rewrite_option", "pack_weights")):
        with pytest.raises(ArgumentError, match=rf"SearchTask\({option}=1\): .*{reason}.*; leave it out"):
            task_of(**{option: 1})


def test_the_work_of_a_computation_is_counted() -> None:
    dag = auto_scheduler.ComputeDAG(ansor_matmul(8, 16, 32))
    assert dag.flop_ct == 2 * 8 * 16 * 32
    c = dag.tensors[2]
    relu = te.compute((8, 16), lambda i, j: te.max(c[i, j], 0.0), name="D")
    assert auto_scheduler.ComputeDAG([*dag.tensors[:2], relu]).flop_ct == 2 * 8 * 16 * 32 + 8 * 16
    said = te.compute((8, 16), lambda i, j: c[i, j], name="F", attrs={"FLOP": 1234})
    assert auto_scheduler.ComputeDAG([*dag.tensors[:2], said]).flop_ct == 2 * 8 * 16 * 32 + 1234


def test_a_computation_is_printed_as_code() -> None:
    dag = auto_scheduler.ComputeDAG(auto_scheduler.make_workload_key(ansor_matmul, (8, 8, 8)))
    assert 'te.sum(A[i, k] * B[k, j], axis=k), name="C"' in str(dag)
    assert str(dag) == str(auto_scheduler.ComputeDAG(ansor_matmul(8, 8, 8)))
    assert [op.name for op in dag.ops] == ["A", "B", "C"]
