"""Operators called with NumPy arrays: results, records, kinds of functions, and arrays that are refused."""

from __future__ import annotations

import importlib
import os
import pickle
import sys
import threading
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pegbox as pb
from pegbox import te
from pegbox.codegen import Target, load_library
from pegbox.codegen.compiled import ArgSpec
from pegbox.codegen.runtime import kernel
from pegbox.errors import ArgumentError, CompileError, InvalidConfig, TemplateError, UnknownName
from pegbox.measure import Ok
from pegbox.operators import CopyWarning, Operator, chain, choice, kernel_library
from pegbox.operators import op as op_module
from pegbox.records import Record, RecordWarning
from pegbox.search.models import prediction
from pegbox.store import TuningStore

TARGET = "llvm -num-cores 1"
A = np.arange(12, dtype=np.float32).reshape(3, 4)
B = np.arange(20, dtype=np.float32).reshape(4, 5)


@pb.workload("operator_test_scaled")
def scaled(n: int, m: int, factor: float = 2.0, dtype: str = "float32") -> list[te.Tensor]:
    x = te.placeholder((n, m), name="X", dtype=dtype)
    return [x, te.compute((n, m), lambda i, j: x[i, j] * te.const(factor, dtype), name="Y")]


@pb.workload("operator_test_gathered")
def gathered(n: int, m: int, dtype: str = "float32") -> list[te.Tensor]:
    index = te.placeholder((m,), name="I", dtype="int32")
    x = te.placeholder((n,), name="X", dtype=dtype)
    return [index, x, te.compute((m,), lambda i: x[index[i]], name="Y")]


@pb.template("operator_test_outputs_first")
def outputs_first(cfg: pb.TemplateConfig, n: int) -> Any:
    x = te.placeholder((n,), name="X")
    y = te.compute((n,), lambda i: x[i] + 1.0, name="Y")
    s = te.create_schedule(y.op)
    cfg.define_knob("nothing", [0])
    return s, [y, x]


@pytest.fixture
def product() -> Operator:
    return pb.operator("matmul", target=TARGET)


def record_of(task: pb.Task, index: int, cost: float = 1e-3) -> Record:
    return Record.of(task, task.space.get(index), Ok((cost,)))


def test_results_are_allocated_or_written_to_out(product: Operator) -> None:
    np.testing.assert_allclose(product(A, B), A @ B)
    c = np.empty((3, 5), np.float32)
    for _ in range(2):
        c[:] = np.nan
        assert product(A, B, out=c) is c
        np.testing.assert_allclose(c, A @ B)
    assert product(A, B) is not product(A, B)


def test_large_results_begin_at_a_cache_line() -> None:
    double = pb.operator(scaled, target=TARGET)
    x = np.ones((300, 300), np.float32)
    for _ in range(3):  # the last is a call of the machine code alone
        assert double(x).ctypes.data % 64 == 0
    np.testing.assert_array_equal(double(x), 2 * x)


def test_each_shape_and_dtype_has_a_kernel_of_its_own(product: Operator) -> None:
    for a, b in ((A, B), (A[:2], B), (A.astype("float64"), B.astype("float64"))):
        result = product(a, b)
        assert result.dtype == a.dtype
        np.testing.assert_allclose(result, a @ b)
    assert str(product).splitlines()[1:] == [
        "  float32[3, 4], float32[4, 5]  predicted, not tuned",
        "  float32[2, 4], float32[4, 5]  predicted, not tuned",
        "  float64[3, 4], float64[4, 5]  predicted, not tuned",
    ]


def test_machine_code_takes_later_calls_of_known_shapes(product: Operator, monkeypatch: pytest.MonkeyPatch) -> None:
    if product.implementation(A, B).kernel.function(print) is print:
        pytest.skip("machine code does not know this Python")
    known = [(A, B), (A[:2], B), (A.astype("float64"), B.astype("float64"))]
    for a, b in known:
        product(a, b)
    left: list[int] = []
    monkeypatch.setattr(chain, "_signature", left.append)
    for a, b in known:
        out = np.empty_like(a @ b)
        assert product(a, b, out=out) is out
        np.testing.assert_allclose(out, a @ b)
        np.testing.assert_array_equal(product(a, b), out)
    assert not left
    monkeypatch.undo()
    with pytest.raises(ArgumentError, match="takes 2 arrays and was given 3"):
        product(A, B, np.empty((3, 5), np.float32))


def test_several_results_are_a_tuple() -> None:
    largest = pb.operator("row_argmax", target=TARGET)
    place, value = largest(A)
    assert place.dtype == np.int32
    np.testing.assert_array_equal(place, A.argmax(1))
    out = np.empty(3, np.int32), np.empty(3, np.float32)
    assert largest(A, out=out) is out
    np.testing.assert_array_equal(out[1], value)
    with pytest.raises(ArgumentError, match="out has 1 arrays; it gives"):
        largest(A, out=out[0])


def test_the_type_of_one_input_does_not_decide_for_the_others() -> None:
    take = pb.operator(gathered, target=TARGET)
    index = np.array([2, 0, 1, 1], np.int32)
    np.testing.assert_array_equal(take(index, A[0]), A[0][index])


def test_outputs_may_come_first() -> None:
    add = pb.operator(outputs_first, target=TARGET)
    np.testing.assert_array_equal(add(A[0]), A[0] + 1)
    out = np.empty(4, np.float32)
    assert add(A[0], out=out) is out
    np.testing.assert_array_equal(out, A[0] + 1)


def test_given_arguments_reach_the_function() -> None:
    np.testing.assert_array_equal(pb.operator(scaled, target=TARGET, factor=3.0)(A), 3 * A)
    assert repr(pb.operator("operator_test_scaled", factor=3.0)) == "operator('operator_test_scaled', factor=3.0)"


def test_a_function_of_a_file_is_called_by_its_place(tmp_path: Path) -> None:
    file = tmp_path / "my_ops.py"
    file.write_text(
        "from pegbox import te\n"
        "def doubled(n):\n"
        "    x = te.placeholder((n,), name='X')\n"
        "    return [x, te.compute((n,), lambda i: x[i] * 2.0, name='Y')]\n"
    )
    double = pb.operator(f"{file}:doubled", target=TARGET)
    np.testing.assert_array_equal(double(A[0]), 2 * A[0])


def test_a_function_of_a_notebook_is_called(tmp_path: Path) -> None:
    scope: dict[str, Any] = {"__name__": "__main__", "te": te}
    exec(
        compile(
            "def tripled(n):\n"
            "    x = te.placeholder((n,), name='X')\n"
            "    return [x, te.compute((n,), lambda i: x[i] * 3.0, name='Y')]\n",
            "<ipython-input-1>",
            "exec",
        ),
        scope,
    )
    triple = pb.operator(scope["tripled"], target=TARGET)
    np.testing.assert_array_equal(triple(A[0]), 3 * A[0])
    assert not triple._library.call_key((((4,), "float32"),), ()).can_be_kept


def test_a_batch_of_generated_names_is_taken() -> None:
    np.testing.assert_allclose(pb.operator("matmul@sketch", target=TARGET)(A, B), A @ B)


def test_the_records_in_effect_win_and_others_are_used_where_they_have_none(product: Operator) -> None:
    plain = product.implementation(A, B)
    task = pb.create_task("matmul", args=(3, 4, 5), target=TARGET)
    with pb.apply_history_best([record_of(task, 7)]):
        best = product.implementation(A, B)
        assert (best.origin, best.config) == ("tuned", task.space.get(7))
        np.testing.assert_allclose(product(A, B), A @ B)
        assert product.implementation(A[:2], B).origin == "predicted, not tuned"
    assert product.implementation(A, B) is plain


def test_the_store_knows_the_best_of_earlier_searches(
    product: Operator, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from pegbox.store import user_store

    monkeypatch.setenv("PEGBOX_STORE", str(tmp_path / "store"))
    task = pb.create_task("matmul", args=(3, 4, 5), target=TARGET)
    store = user_store()
    assert store is not None
    store.keep(record_of(task, 5))
    assert product.implementation(A, B).config == task.space.get(5)
    alone = pb.operator("matmul", target=TARGET, store=None)
    assert alone.implementation(A, B).origin == "predicted, not tuned"


def test_a_prediction_that_cannot_be_compiled_falls_to_the_next(
    product: Operator, monkeypatch: pytest.MonkeyPatch
) -> None:
    build, refused = kernel.build, []

    def build_third(program: Any, **options: Any) -> Any:
        if len(refused) < 2:
            refused.append(program)
            raise CompileError("too large")
        return build(program, **options)

    monkeypatch.setattr(kernel, "build", build_third)
    np.testing.assert_allclose(product(A, B), A @ B)
    assert len(refused) == 2
    monkeypatch.setattr(prediction, "lowered_predictions", lambda task: iter(()))
    with pytest.raises(CompileError, match="none of the 16 best predicted configurations"):
        product(A[:1], B)


def test_the_first_use_times_the_best_predicted_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    timed: list[int] = []

    def last(kernels: Any, inputs: Any) -> int:
        timed.append(len(kernels))
        return len(kernels) - 1

    monkeypatch.setattr(choice, "fastest", last)
    product = pb.operator("matmul", target=TARGET, first_use=3)
    np.testing.assert_allclose(product(A, B), A @ B)
    product(A, B)
    assert timed == [3]


def test_the_fastest_of_kernels_is_the_one_that_takes_least_time() -> None:
    class Timed:
        args = ()

        def __init__(self, *times: int) -> None:
            self.times = list(times)

        def time_ns(self, arrays: Any, number: int = 1) -> int:
            return number * (self.times.pop(0) if len(self.times) > 1 else self.times[0])

    kernels: Any = [Timed(500, 90, 80), Timed(40, 90, 70), Timed(75)]
    assert choice.fastest(kernels, [[] for _ in kernels]) == 1


def test_kernels_are_timed_once_after_each_flush() -> None:
    log: list[str] = []

    class Timed:
        args = ()

        def time_ns(self, arrays: Any, number: int = 1) -> int:
            log.append(f"{number} calls")
            return 10

    assert choice.times_in_turns([Timed(), Timed()], [[], []], flush=lambda: log.append("flush")) == [10, 10]  # type: ignore[list-item]
    assert log == ["1 calls"] * 2 + ["flush", "1 calls"] * 10


def test_fresh_inputs_are_written_after_each_flush() -> None:
    given = np.arange(4, dtype="float32")
    held: list[float] = []

    class Timed:
        args = (ArgSpec("A", (4,), "float32", False),)

        def time_ns(self, arrays: Any, number: int = 1) -> int:
            held.append(float(arrays[0][1]))
            return 10

    def flush() -> None:
        given[:] = 7.0

    kernels: Any = [Timed(), Timed()]
    choice.times_in_turns(kernels, [[given], [given]], flush=flush, fresh=[(), ("A",)])
    assert held == [1.0, 1.0] + [7.0, 1.0] * 5


def test_threads_compile_a_shape_once(product: Operator, monkeypatch: pytest.MonkeyPatch) -> None:
    built: list[Any] = []
    build = kernel.build
    monkeypatch.setattr(kernel, "build", lambda program, **options: built.append(program) or build(program, **options))
    results: list[Any] = []
    threads = [threading.Thread(target=lambda: results.append(product(A, B))) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 5
    assert len(built) == 1


def test_a_pickled_operator_has_its_options_and_no_kernels(product: Operator) -> None:
    product(A, B)
    made = pb.operator(scaled, target=TARGET, strict=True, first_use=4, store=None, factor=3.0)
    assert "not called yet" in str(pickle.loads(pickle.dumps(product)))
    copy = pickle.loads(pickle.dumps(made))
    assert copy.__reduce__()[1][1:] == made.__reduce__()[1][1:]
    np.testing.assert_array_equal(copy(A), 3 * A)


def test_the_target_is_that_of_the_block_where_it_is_made() -> None:
    with pb.Target("llvm -mcpu=x86-64-v3 -num-cores 1"):
        made = pb.operator("matmul")
    assert str(made.target) == "llvm -mcpu=x86-64-v3 -num-cores 1"
    assert pickle.loads(pickle.dumps(made)).target == made.target


def test_a_copied_array_is_noted_once_and_refused_by_strict(product: Operator) -> None:
    wide = np.arange(24, dtype=np.float32).reshape(3, 8)[:, ::2]
    with pytest.warns(CopyWarning, match=r"argument 0 is not C-contiguous \(strides \(32, 8\)\)") as caught:
        np.testing.assert_allclose(product(wide, B), wide @ B)
    assert Path(caught[0].filename) == Path(__file__)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        product(wide, B)
    with pytest.warns(CopyWarning, match="argument 1"):
        product(A, np.asfortranarray(B))
    strict = pb.operator("matmul", target=TARGET, strict=True)
    with pytest.raises(ArgumentError, match=r"strict=True refuses to copy"):
        strict(wide, B)


def test_arrays_that_are_not_aligned_are_copied(product: Operator) -> None:
    memory = np.zeros(A.nbytes + 1, np.uint8)
    crooked = memory[1:].view(np.float32).reshape(A.shape)
    crooked[:] = A
    with pytest.warns(CopyWarning):
        np.testing.assert_allclose(product(crooked, B), A @ B)


def test_subclasses_of_arrays_are_taken(product: Operator, tmp_path: Path) -> None:
    mapped = np.memmap(tmp_path / "a", np.float32, "w+", shape=A.shape)
    mapped[:] = A
    result = product(mapped, B)
    assert type(result) is np.ndarray
    np.testing.assert_allclose(result, A @ B)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ([1.0, 2.0], r"argument 0 is \[1.0, 2.0\] \(list\), not an array; give np.asarray"),
        (3.0, r"argument 0 is 3.0 \(float\), not an array"),
        (np.float32(3), r"argument 0 is .*3.0.* \(float32\), not an array"),
        (None, r"argument 0 is None"),
        (np.ma.masked_array(A), r"argument 0 is a masked array, .* a.filled\(0\)"),
        (A.astype(object), r"argument 0 is an array of object, .*astype"),
        (A.astype(np.complex64), r"argument 0 is an array of complex64"),
        (A.astype("S3"), r"argument 0 is an array of \|S3"),
        (A.astype(np.longdouble), r"argument 0 is an array of float\d+, .* a.astype\('float64'\)"),
        (A.astype("M8[s]"), r"argument 0 is an array of datetime64\[s\], .* a.astype\('int64'\)"),
        (A > 3, r"matmul: no sizes M, K, N were found at which it accepts arrays of bool .*another dtype"),
        (A.astype(">f4"), r"argument 0 has the bytes of its float32 in the other order \(>f4\); swap them"),
        (A[:0], r"A has an extent of 0; .* given A\[0, 4\], B\[4, 5\], expected A\[M, K\], B\[K, N\]"),
        (A[:, :3], r"gets K = 3 from A, but B has 4 there; given A\[3, 3\], B\[4, 5\], expected A\[M, K\], B\[K, N\]"),
        (A[0], r"takes arrays of 2, 2 dimensions; given A\[4\], B\[4, 5\]"),
        (A.astype("float64"), r"was given A: float64, B: float32; it takes A: float32, B: float32: convert"),
    ],
)
def test_values_that_are_no_such_array_are_refused(product: Operator, value: Any, message: str) -> None:
    for _ in range(2):  # before there is a kernel, and with one for the right shapes
        with pytest.raises(ArgumentError, match=message):
            product(value, B)
        product(A, B)


def test_outputs_that_cannot_hold_the_result_are_refused(product: Operator) -> None:
    c = np.empty((3, 5), np.float32)
    both = np.empty(64, np.float32)
    overlapping, a = both[:15].reshape(3, 5), both[4:16].reshape(3, 4)
    fixed = c.copy()
    fixed.flags.writeable = False
    for out, inputs, message in (
        (c.T, (A, B), r"has shape \(5, 3\), expected \(3, 5\)"),
        (c.astype("float64"), (A, B), "has dtype float64, expected float32"),
        (fixed, (A, B), "cannot be written to"),
        (np.empty((5, 3), np.float32).T, (A, B), "is not C-contiguous"),
        (overlapping, (a, B), "shares memory with A"),
        (np.ma.masked_array(c), (A, B), "is a masked array, and kernels ignore masks"),
        ([[0.0]], (A, B), r"out is \[\[0.0\]\] \(list\), not an array"),
        ((c, c), (A, B), r"out has 2 arrays; it gives C: float32\[3, 5\]"),
    ):
        for _ in range(2):
            with pytest.raises(ArgumentError, match=message):
                product(*inputs, out=out)


def test_a_fault_of_the_function_is_reported_where_it_is_named() -> None:
    with pytest.raises(UnknownName, match=r"no template or workload 'sofmax'; did you mean 'softmax'"):
        pb.operator("sofmax")(A)
    with pytest.raises(ArgumentError, match=r"it has no argument 'layot'.*did you mean 'layout'"):
        pb.operator("conv2d", layot="NHWC")(A)
    with pytest.raises(ArgumentError, match="give the name of a template or workload"):
        pb.operator(3)  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="first_use=0"):
        pb.operator("matmul", first_use=0)
    with pytest.raises(TemplateError, match=r"returned \d+; return \[inputs"):
        pb.operator(lambda n: n)(A)


def test_a_lock_that_a_thread_held_at_a_fork_is_free_there() -> None:
    kernel_library._first_calls.acquire()
    try:
        held = kernel_library._first_calls
        kernel_library._after_fork()
        assert kernel_library._first_calls is not held
        assert kernel_library._first_calls.acquire(blocking=False)
        kernel_library._first_calls.release()
    finally:
        held.release()


def test_equal_targets_have_equal_keys() -> None:
    assert Target(TARGET).key == Target(TARGET).key != Target("llvm -num-cores 2").key
    assert Target("llvm -mcpu=x86-64-v3 -num-cores 1").key == "llvm -mcpu=x86-64-v3 -num-cores 1"


def test_names_of_arrays_are_refused_before_and_after_the_first_call(product: Operator) -> None:
    for _ in range(2):
        with pytest.raises(ArgumentError, match=r"matmul\(b=\): pass arrays by position, matmul\(a, b, out=c\)"):
            product(A, b=B)  # type: ignore[call-arg]
        product(A, B)


def test_functions_of_one_name_are_told_apart_by_their_code(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PEGBOX_STORE", str(tmp_path / "store"))
    (tmp_path / "many_scales.py").write_text(
        "from pegbox import te\n"
        "functions = []\n"
        "for scale in (2.0, 3.0):\n"
        "    def scaled(n, s=scale):\n"
        "        x = te.placeholder((n,), name='X')\n"
        "        return [x, te.compute((n,), lambda i: x[i] * s, name='Y')]\n"
        "    functions.append(scaled)\n"
    )
    os.utime(tmp_path / "many_scales.py", (0, 0))
    monkeypatch.syspath_prepend(tmp_path)
    for function, scale in zip(importlib.import_module("many_scales").functions, (2.0, 3.0), strict=True):
        np.testing.assert_array_equal(pb.operator(function, target=TARGET)(A[0]), scale * A[0])


@pb.template("operator_test_narrowed")
def narrowed(cfg: pb.TemplateConfig, n: int) -> Any:
    x = te.placeholder((n,), name="X")
    y = te.compute((n,), lambda i: x[i] + 1.0, name="Y")
    s = te.create_schedule(y.op)
    cfg.define_knob("number", [0, 1])
    if cfg["number"].val in refused:
        raise InvalidConfig("this number is refused")
    return s, [x, y]


refused: set[int] = set()


def test_a_stored_configuration_that_the_template_refuses_is_left_out(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PEGBOX_STORE", str(tmp_path / "store"))
    task = pb.create_task(narrowed, args=(4,), target=TARGET)
    TuningStore(tmp_path / "store").keep(record_of(task, 1))
    monkeypatch.setattr(sys.modules[__name__], "refused", {1})
    add = pb.operator(narrowed, target=TARGET)
    with pytest.warns(RecordWarning, match="cannot be built any more: tune again"):
        np.testing.assert_array_equal(add(A[0]), A[0] + 1)
    assert add.implementation(A[0]).origin == "predicted, not tuned"
    with pytest.warns(RecordWarning, match="cannot be built any more: tune again"):
        assert pb.build(pb.create_task(narrowed, args=(4,), target=TARGET)).origin == "predicted, not tuned"
    with pytest.warns(RecordWarning, match="cannot be built any more: tune again"):
        pb.export(pb.create_task(narrowed, args=(4,), target=TARGET), None, tmp_path / "narrowed.so")
    made = np.empty_like(A[0])
    load_library(tmp_path / "narrowed.so")(A[0], made)
    np.testing.assert_array_equal(made, A[0] + 1)


@pb.template("operator_test_called")
def called(cfg: pb.TemplateConfig, n: int) -> Any:
    x = te.placeholder((n,), name="X")
    y = te.extern((n,), [x], lambda ins, outs: te.call_python(doubled, ins[0], outs[0]), name="Y")
    cfg.define_knob("nothing", [0])
    return te.create_schedule(y.op), [x, y]  # type: ignore[union-attr]


calls: list[int] = []


def doubled(given: np.ndarray[Any, Any], made: np.ndarray[Any, Any]) -> None:
    calls.append(len(given))
    if given[0] < 0:
        raise ArgumentError("the function refuses negative numbers")
    np.multiply(given, 2, out=made)


def test_an_argument_error_of_a_function_that_a_kernel_calls_is_raised_once() -> None:
    double = pb.operator(called, target=TARGET)
    np.testing.assert_array_equal(double(A[0]), 2 * A[0])
    calls.clear()
    with pytest.raises(ArgumentError, match="refuses negative"):
        double(A[0] - 1)
    assert calls == [4]
    with pytest.warns(CopyWarning):
        np.testing.assert_array_equal(double(A[:, 0]), 2 * A[:, 0])


def test_a_fault_within_a_kernel_is_raised_once(product: Operator, monkeypatch: pytest.MonkeyPatch) -> None:
    runs: list[Any] = []

    def fail(found: Any, inputs: Any, out: Any) -> Any:
        runs.append(found)
        raise TypeError("of a function that the kernel calls")

    product(A, B)
    monkeypatch.setattr(op_module, "computed", fail)
    with pytest.raises(TypeError, match="that the kernel calls"):
        product._dispatch(A, B)
    assert len(runs) == 1


def test_the_implementation_of_a_kernel_can_be_pickled(product: Operator) -> None:
    product(A, B)
    copy = pickle.loads(pickle.dumps(product.implementation(A, B)))
    assert (copy.origin, copy.packers) == (product.implementation(A, B).origin, {})
