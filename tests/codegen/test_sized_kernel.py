"""Kernels that are compiled for the sizes that they are called with."""

from __future__ import annotations

import weakref
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from processors import on_this_machine

import pegbox as pb
from pegbox import te
from pegbox.codegen import SizedKernel, load_library, write_object, write_shared_library
from pegbox.codegen.runtime.export import link_shared_library
from pegbox.compute.tensor import Tensor
from pegbox.errors import ArgumentError, ScheduleError


def scaled() -> tuple[te.TESchedule, list[Tensor]]:
    n, m = te.var("n"), te.var("m")
    A = te.placeholder((n, m), name="A")
    B = te.compute((n, m), lambda i, j: A[i, j] * n, name="B")
    return te.create_schedule(B.op), [A, B]


def arrays(*shape: int) -> tuple[Any, Any]:
    return np.arange(np.prod(shape), dtype=np.float32).reshape(shape), np.empty(shape, np.float32)


def built() -> SizedKernel:
    kernel = pb.build(*scaled(), name="scaled")
    assert isinstance(kernel, SizedKernel)
    return kernel


def test_a_kernel_is_compiled_once_for_each_set_of_sizes() -> None:
    kernel = built()
    assert (kernel.sizes, kernel.entry_name, kernel["scaled"]) == ([], "scaled", kernel)
    for shape in ((3, 4), (5, 2), (3, 4)):
        a, b = arrays(*shape)
        kernel(a, b)
        np.testing.assert_array_equal(b, a * shape[0])
    assert kernel.sizes == [{"n": 3, "m": 4}, {"n": 5, "m": 2}]
    assert kernel.at(n=3, m=4) is kernel.at(m=4, n=3)
    assert repr(kernel).startswith("SizedKernel(scaled(A: float32[n, m], B: float32[n, m]), compiled for [{'n': 3")


def test_the_kernels_that_were_used_last_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pegbox.codegen.runtime.sized_kernel.MAX_KERNELS", 2)
    kernel = built()
    first, second = kernel.at(n=1, m=2), weakref.ref(kernel.at(n=2, m=2))
    assert kernel.at(n=1, m=2) is first
    kernel(*arrays(3, 2))
    assert second() is None  # that of the sizes which were used the longest ago
    assert kernel.at(n=1, m=2) is first
    kernel(*arrays(2, 2))
    kernel(*arrays(3, 2))
    a, b = arrays(1, 2)
    first(a, b)  # left out by now, and still that of who has it
    np.testing.assert_array_equal(b, a)
    assert kernel.at(n=1, m=2) is not first
    assert [size["n"] for size in kernel.sizes] == [1, 2, 3]
    assert [program.name for program in kernel.programs] == ["scaled_n1_m2", "scaled_n2_m2", "scaled_n3_m2"]


def test_threads_may_call_a_kernel_that_another_one_leaves_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pegbox.codegen.runtime.sized_kernel.MAX_KERNELS", 1)
    kernel = built()

    def call(n: int) -> None:
        a, b = arrays(n, 4)
        for _ in range(3):
            b[:] = 0
            kernel(a, b)
            np.testing.assert_array_equal(b, a * n)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(call, [1, 2, 3, 1]))


def test_what_is_done_to_the_schedule_later_does_not_change_the_kernel() -> None:
    s, (A, B) = scaled()
    kernel = pb.build(s, [A, B])
    s[B].vectorize(B.op.axis[0])
    s[B].compute_root()
    s.stages.clear()
    a, b = arrays(3, 4)
    kernel(a, b)
    np.testing.assert_array_equal(b, a * 3)


def test_with_sizes_the_kernel_is_a_plain_one() -> None:
    kernel = pb.build(*scaled(), sizes={"n": 3, "m": 4})
    assert isinstance(kernel, pb.codegen.Kernel)
    assert kernel.args[0].shape == (3, 4)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (((3, 4), (5, 4)), "n is 3 in dimension 0 of A and 5 in dimension 0 of B; dimensions of one variable"),
        (((3, 4),), r"scaled\(\) takes 2 arrays \(A: float32\[n, m\], B: float32\[n, m\]\), got 1"),
        (((3, 4), (12,)), r"B is an array of shape \[12\]; expected float32\[n, m\]"),
    ],
)
def test_arrays_whose_shapes_do_not_fit_are_refused(given: tuple[tuple[int, ...], ...], message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        built()(*(np.zeros(shape, np.float32) for shape in given))


def test_what_is_no_array_is_refused() -> None:
    with pytest.raises(ArgumentError, match="A is a list; expected a NumPy array"):
        built()([1.0], [2.0])
    with pytest.raises(ArgumentError, match="float64"):
        built()(np.zeros((3, 4)), np.zeros((3, 4), np.float32))


def test_extents_that_follow_from_sizes_are_checked() -> None:
    n = te.var("n")
    A = te.placeholder((n,), name="A")
    B = te.compute((n - 1,), lambda i: A[i] + A[i + 1], name="B")
    kernel = pb.build(te.create_schedule(B.op), [A, B])
    a = np.arange(4, dtype=np.float32)
    with pytest.raises(ArgumentError, match=r"\(B\) has shape \(4,\), expected \(3,\)"):
        kernel(a, np.zeros(4, np.float32))
    b = np.zeros(3, np.float32)
    kernel(a, b)
    np.testing.assert_array_equal(b, [1, 3, 5])


def test_a_size_that_no_argument_tells_has_to_be_given() -> None:
    n = te.var("n")
    A = te.placeholder((n + 1,), name="A")
    B = te.compute((2 * n,), lambda i: A[i // 2], name="B")
    s = te.create_schedule(B.op)
    with pytest.raises(
        ArgumentError,
        match=r"the size n is not the whole extent of any dimension of the arguments .*sizes=\{'n': 128\}",
    ):
        pb.build(s, [A, B])
    a, b = np.arange(3, dtype=np.float32), np.empty(4, np.float32)
    pb.build(s, [A, B], sizes={"n": 2})(a, b)
    np.testing.assert_array_equal(b, [0, 0, 1, 1])


def test_missing_arguments_are_refused_when_the_kernel_is_built() -> None:
    s, (_, B) = scaled()
    with pytest.raises(ScheduleError, match="the input A is missing"):
        pb.build(s, [B])


def test_the_time_of_a_call_is_that_of_the_arrays_that_are_given() -> None:
    kernel = built()
    assert kernel.time_evaluator("scaled", number=2, repeat=2)(*arrays(3, 4)).mean > 0
    assert kernel.sizes == [{"n": 3, "m": 4}]
    with pytest.raises(ArgumentError, match="it has no function 'other'"):
        kernel.time_evaluator("other")


def test_the_source_is_that_of_sizes_that_a_warning_names() -> None:
    kernel = built()
    with pytest.warns(UserWarning, match=r"sizes n=1023, m=511; see also .at\(n=1023, m=511\)"):
        assert "scaled" in kernel.source()
    assert kernel.sizes == []
    kernel(*arrays(3, 4))
    with pytest.warns(UserWarning, match="sizes n=3, m=4"):
        assert kernel.source() == kernel.at(n=3, m=4).source()


@on_this_machine
@pytest.mark.parametrize("suffix", [".so", ".o"])
def test_a_library_holds_the_sizes_that_were_compiled(tmp_path: Path, suffix: str) -> None:
    kernel = built()
    for shape in ((3, 4), (5, 2)):
        kernel(*arrays(*shape))
    write = write_object if suffix == ".o" else write_shared_library
    write(kernel.programs, tmp_path / f"kernel{suffix}")
    if suffix == ".o":
        link_shared_library(tmp_path / "kernel.so", [str(tmp_path / "kernel.o")])
    loaded = load_library(tmp_path / "kernel.so")["scaled"]
    a, b = arrays(5, 2)
    loaded(a, b)
    np.testing.assert_array_equal(b, a * 5)
    assert loaded.time_evaluator("scaled", number=2)(a, b).mean > 0
    with pytest.raises(
        ArgumentError, match=r"no kernel for arrays of the shapes \(2, 2\), \(2, 2\); it has them for \(3"
    ):
        loaded(*arrays(2, 2))
    with pytest.raises(ArgumentError, match="loaded from object code alone"):
        loaded.programs  # noqa: B018


def test_a_kernel_that_was_not_called_has_nothing_to_write() -> None:
    with pytest.raises(ArgumentError, match="scaled: its sizes are variables, and it was not called yet"):
        built().programs  # noqa: B018
