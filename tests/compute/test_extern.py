"""te.extern: statements and C functions among other stages."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from te_values import check_values

import pegbox as pb
from pegbox import te, tir
from pegbox.codegen import write_object, write_shared_library
from pegbox.compute.flop import count_flop
from pegbox.compute.numpy_program import numpy_program
from pegbox.compute.numpy_statement import NoNumpyProgram
from pegbox.compute.reference import evaluate
from pegbox.compute.tensor import Tensor
from pegbox.errors import CompileError, ComputeError, ScheduleError, TemplateError
from pegbox.features.program import ProgramFeatures
from pegbox.task.speed_text import bytes_of

DOUBLED = tir.c_source(
    "int doubled(const float *a, float *b, long n) { for (long i = 0; i < n; i++) b[i] = 2 * a[i]; return 0; }"
)


def doubled(ins: Any, outs: Any) -> Any:
    return te.call_extern("int32", "doubled", ins[0].data, outs[0], 24)


def chain(**options: Any) -> list[Tensor]:
    """D = 2 * (A + 1) - 1, the product in C."""
    a = te.placeholder((4, 6), name="A")
    b = te.compute((4, 6), lambda i, j: a[i, j] + 1, "B")
    c = te.extern((4, 6), [b], doubled, name="C", **{"code": DOUBLED, **options})
    assert isinstance(c, Tensor)
    return [a, b, c, te.compute((4, 6), lambda i, j: c[i, j] - 1, "D")]


def test_a_c_function_among_other_stages() -> None:
    a, b, c, d = chain()
    s = te.create_schedule(d.op)
    outer, _ = s[d].split(s[d].op.axis[0], factor=2)
    s[b].vectorize(s[b].op.axis[1])
    s[c].compute_at(s[d], outer)
    assert s[c].leaf_iter_vars == []
    check_values(s, [a, d])
    x = np.arange(24, dtype="float32").reshape(4, 6)
    np.testing.assert_array_equal(evaluate([d], {a: x})[0], 2 * (x + 1) - 1)
    check_values(te.create_schedule(d.op), [a, c, d])


def test_its_copies_are_stages() -> None:
    a, b, c, d = chain()
    s = te.create_schedule(d.op)
    s[s.cache_read(c, "local", [d])].compute_at(s[d], s[d].op.axis[0])
    s[s.cache_write(b, "local")].compute_at(s[b], s[b].op.axis[0])
    check_values(s, [a, d])


def test_a_reference_of_ones_own_stands_in_for_the_c_function() -> None:
    a, _, _, d = chain(code=(), reference=lambda b: b * 10)
    x = np.ones((4, 6), "float32")
    np.testing.assert_array_equal(evaluate([d], {a: x})[0], np.full((4, 6), 19, "float32"))
    with pytest.raises(CompileError, match=r"doubled.*tir.c_source\(text\)"):
        pb.build(te.create_schedule(d.op), [a, d])
    a, _, _, d = chain(reference=lambda b: b[0])
    with pytest.raises(ComputeError, match=r"C: its reference gave float32\[6\]; expected .*\[4, 6\]"):
        evaluate([d], {a: x})


def test_loops_of_ones_own_and_several_outputs() -> None:
    """A program as TVM's users write it with ir_builder: a running sum, here with its last value."""
    a = te.placeholder((8,), name="A")

    def running(ins: Any, outs: Any) -> Any:
        ib = tir.ir_builder.create()
        given, sums, last = ib.buffer_ptr(ins[0]), ib.buffer_ptr(outs[0]), ib.buffer_ptr(outs[1])
        sums[0] = given[0]
        with ib.for_range(1, 8, name="i") as i:
            sums[i] = sums[i - 1] + given[i]
        last[0] = sums[7]
        return ib.get()

    sums, last = te.extern([(8,), (1,)], [a], running, name="running")
    x = np.arange(8, dtype="float32")
    got = evaluate([sums, last], {a: x})
    np.testing.assert_array_equal(got[0], np.cumsum(x))
    np.testing.assert_array_equal(got[1], [28])
    check_values(te.create_schedule(sums.op), [a, sums, last])


def test_buffers_may_be_declared() -> None:
    a, b = te.placeholder((4, 6), name="A"), te.decl_buffer((4, 6), name="B")
    c = te.extern((4, 6), [a], doubled, name="C", in_buffers=[b], code=DOUBLED)
    check_values(te.create_schedule(c.op), [a, c])  # type: ignore[union-attr]
    with pytest.raises(ComputeError, match="declared for"):
        te.extern((4, 6), [a], doubled, in_buffers=[te.decl_buffer((6, 4))])


def test_a_task_with_a_c_function_is_counted_and_printed() -> None:
    a, _, _, d = chain(attrs={"FLOP": 24})
    assert count_flop([d]) == 3 * 24
    copy = te.extern((4, 6), [a], doubled, name="C", code=DOUBLED)
    assert bytes_of([a, copy]) == 2 * 4 * 24  # type: ignore[list-item]
    with pytest.raises(NoNumpyProgram, match=r"is a statement of te\.extern"):
        numpy_program([a, d])
    assert "call_extern" in te.create_prim_func([a, d]).script()


def test_a_python_function_among_other_stages() -> None:
    a = te.placeholder((4, 6), name="A")

    def sums(given: np.ndarray, made: np.ndarray) -> None:
        if given[0, 0] < 0:
            raise ValueError("negative")
        np.cumsum(given, axis=1, out=made)

    b = te.extern((4, 6), [a], lambda ins, outs: te.call_python(sums, ins[0], outs[0]), name="B")
    assert isinstance(b, Tensor)
    c = te.compute((4, 6), lambda i, j: b[i, j] + 1, name="C")
    kernel = pb.build(te.create_schedule(c.op), [a, c])
    x, out = np.arange(24, dtype="float32").reshape(4, 6), np.empty((4, 6), "float32")
    kernel(x, out)
    np.testing.assert_array_equal(out, np.cumsum(x, 1) + 1)
    np.testing.assert_array_equal(evaluate([c], {a: x})[0], out)
    for _ in range(2):
        with pytest.raises(ValueError, match="negative"):
            kernel(x - 1, out)
    kernel(x, out)


@pytest.mark.parametrize("suffix", ["so", "o"])
def test_a_kernel_that_calls_a_python_function_is_not_saved(suffix: str, tmp_path: Path) -> None:
    a = te.placeholder((4,), name="A")
    b = te.extern((4,), [a], lambda ins, outs: te.call_python(np.copyto, outs[0], ins[0]), name="B")
    kernel = pb.build(te.create_schedule(b.op), [a, b])  # type: ignore[union-attr, list-item]
    write = write_shared_library if suffix == "so" else write_object
    with pytest.raises(CompileError, match=r"calls a Python function of this process.*tir.c_source"):
        write(kernel.programs, tmp_path / f"kernel.{suffix}")


def test_errors_of_python_functions_are_raised_by_the_call_and_the_thread_that_made_them() -> None:
    a = te.placeholder((1,), name="A")
    met, entered = threading.Barrier(2, timeout=20), []

    def negative(given: np.ndarray, made: np.ndarray) -> None:
        entered.append(given[0])
        if not given[0]:
            return
        met.wait()
        if given[0] < 0:
            raise ValueError("negative")
        met.wait()

    def after(given: np.ndarray, made: np.ndarray) -> None:
        entered.append("after")
        made[:] = given

    b = te.extern(
        (1,), [a], lambda ins, outs: [te.call_python(each, ins[0], outs[0]) for each in (negative, after)], name="B"
    )
    kernel = pb.build(te.create_schedule(b.op), [a, b])  # type: ignore[union-attr, list-item]

    def call(value: float) -> str:
        try:
            kernel(np.full(1, value, "float32"), np.empty(1, "float32"))
        except ValueError as error:
            met.wait()
            return str(error)
        return "done"

    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(call, [-1, 1])) == ["negative", "done"]
    assert entered.count("after") == 1
    met.abort()
    with pytest.raises(threading.BrokenBarrierError):
        kernel.time_ns([np.ones(1, "float32"), np.empty(1, "float32")], 3)
    assert entered[2:] == ["after", 1]
    kernel(np.zeros(1, "float32"), np.empty(1, "float32"))


def test_a_python_function_of_another_process_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    from pegbox.loops import foreign

    a = te.placeholder((4,), name="A")
    b = te.extern((4,), [a], lambda ins, outs: te.call_python(np.copyto, outs[0], ins[0]), name="B")
    monkeypatch.setattr(foreign, "_functions", {})
    with pytest.raises(CompileError, match=r"Python function of another process.*tir.c_source"):
        pb.build(te.create_schedule(b.op), [a, b])  # type: ignore[union-attr, list-item]


@pytest.mark.parametrize(
    ("step", "why"),
    [
        (lambda s, t: s[t[2]].compute_inline(), "C is a statement"),
        (lambda s, t: s.cache_write(t[2], "local"), "C is a statement"),
        (lambda s, t: s.cache_read(t[1], "local", [t[2]]), "C is a statement"),
        (lambda s, t: s.rfactor(t[2], t[3].op.axis[0]), "not a reduction"),
        (lambda s, t: s[t[2]].split(t[3].op.axis[0], 2), "is not a loop of this stage"),
        (lambda s, t: s[t[1]].compute_inline(), "its consumer C cannot contain the value"),
        (lambda s, t: s[t[1]].compute_at(s[t[3]], t[3].op.axis[0]), "C needs B too"),
    ],
)
def test_what_is_inside_is_not_scheduled(step: Any, why: str) -> None:
    tensors = chain()
    s = te.create_schedule(tensors[3].op)
    with pytest.raises(ScheduleError, match=why):
        pb.lower(s, [tensors[0], tensors[3]]) if step(s, tensors) is None else None


def test_rows_with_gaps_are_refused() -> None:
    a, b, _, d = chain()
    s = te.create_schedule(d.op)
    s[b].storage_align(b.op.axis[0], 8, 1)
    with pytest.raises(CompileError, match="the called function assumes"):
        pb.build(s, [a, d])


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"fcompute": lambda ins, outs: te.call_extern("int32", "f", ins[0].data)}, "never writes the output C"),
        (
            {"fcompute": lambda ins, outs: te.call_extern("int32", "f", ins[0].access_ptr("rw"), outs[0].data)},
            "writes A, which is not one of its outputs",
        ),
        ({"fcompute": lambda ins, outs: te.call_extern("int32", "f", B.access_ptr("r"), outs[0].data)}, "reads other"),
        ({"dtype": ["int8", "int8"]}, "for 1 output"),
        ({"inputs": []}, "give dtype="),
        ({"inputs": [3]}, "the tensors that are read"),
        ({"shape": (0,)}, "extents are integers from 1 up"),
    ],
)
def test_malformed_statements_are_refused(options: dict[str, Any], why: str) -> None:
    a = te.placeholder((4, 6), name="A")
    given = {"shape": (4, 6), "inputs": [a], "fcompute": doubled, "name": "C", **options}
    with pytest.raises(ComputeError, match=why):
        te.extern(**given)
    with pytest.raises(ScheduleError, match="is not a statement"):
        te.extern((4,), [a], lambda ins, outs: "text")


B = te.decl_buffer((4, 6), name="other")


def test_sketches_of_statements_are_refused() -> None:
    workload = pb.workload("doubled_chain")(lambda: [(t := chain())[0], t[3]])
    with pytest.raises(TemplateError, match=r"C: statements of te.extern.*write a template"):
        pb.create_task(workload, space="sketch")


def test_a_template_with_a_statement_has_features_and_programs() -> None:
    def statement(cfg: Any) -> Any:
        tensors = chain()
        s = te.create_schedule(tensors[3].op)
        cfg.define_split("rows", tensors[3].op.axis[0], num_outputs=2)
        cfg["rows"].apply(s, tensors[3], tensors[3].op.axis[0])
        return s, [tensors[0], tensors[3]]

    task = pb.create_task(pb.template("statement_among_stages")(statement))
    rows = np.array([config.digits for config in task.space.iterate()])
    features = ProgramFeatures(task)(rows)
    assert np.isfinite(features).all()
    assert "call_extern" in task.show_ir(task.space.get(0))
    assert [line.split(" = ")[1][:9] for line in str(task.compute_dag).splitlines()[1:3]] == ["te.comput", "te.extern"]
