"""Calling kernels: what is checked, the messages of wrong calls, timing, memory."""

from __future__ import annotations

import ctypes
import gc
from collections.abc import Callable
from typing import Any

import numpy as np
import plain_code
import pytest
from lowered_programs import ONE_CORE, VECTORIZED, function, get, loop, put

from pegbox.codegen import ArgSpec, Kernel, build, compile_program, emit, load
from pegbox.codegen.runtime.arguments import Checker, _by_interface, _fastest
from pegbox.codegen.runtime.checked_call import Workspace
from pegbox.errors import ArgumentError
from pegbox.expr.nodes import Buffer


@pytest.fixture(scope="module")
def add() -> Kernel:
    a, b, c = (Buffer(name, (4, 6)) for name in "abc")
    body = loop("i", 4, lambda i: loop("j", 6, lambda j: put(c, i, j, get(a, i, j) + get(b, i, j)), VECTORIZED))
    return build(emit(function([a, b, c], [c], body, name="add"), ONE_CORE))


def arrays() -> list[np.ndarray[Any, Any]]:
    return [np.full((4, 6), value, np.float32) for value in (1, 2, 0)]


def test_a_right_call_computes(add: Kernel) -> None:
    a, b, c = arrays()
    add(a, b, c)
    assert (c == 3).all()


def test_an_input_may_be_passed_twice_and_be_read_only(add: Kernel) -> None:
    a, _, c = arrays()
    a.flags.writeable = False
    add(a, a, c)
    assert (c == 2).all()


def test_arrays_need_not_be_aligned_to_more_than_their_elements(add: Kernel) -> None:
    memory = np.zeros(100, np.float32)
    for shift in range(4):
        a, b, c = (memory[start + shift : start + shift + 24].reshape(4, 6) for start in (0, 30, 60))
        a[:], b[:] = 1, 2
        add(a, b, c)
        assert (c == 3).all()


def replaced(position: int, array: Any) -> Callable[[], list[Any]]:
    def make() -> list[Any]:
        values: list[Any] = arrays()
        values[position] = array
        return values

    return make


def read_only() -> np.ndarray[Any, Any]:
    array = np.zeros((4, 6), np.float32)
    array.flags.writeable = False
    return array


def unaligned() -> np.ndarray[Any, Any]:
    return np.zeros(97, np.uint8)[1:].view(np.float32).reshape(4, 6)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: arrays()[:2], r"add\(\) takes 3 arrays \(a: float32\[4, 6\], .*got 2; give an array for c, too"),
        (lambda: arrays()[:1], r"add\(\) takes 3 arrays \(a: float32\[4, 6\], .*got 1$"),
        (lambda: [*arrays(), 1], "takes 3 arrays .*got 4"),
        (replaced(1, [[1.0] * 6] * 4), r"argument 1 \(b\) is a list; expected .* float32\[4, 6\]; pass np.asarray"),
        (replaced(0, np.zeros((4, 6))), r"argument 0 \(a\) has dtype float64, expected float32; .*astype"),
        (replaced(0, np.zeros((4, 7), np.float32)), r"has shape \(4, 7\), expected \(4, 6\)"),
        (replaced(0, np.zeros(24, np.float32)), r"has shape \(24,\), expected \(4, 6\)"),
        (replaced(0, np.zeros((6, 4), np.float32).T), r"not C-contiguous .*ascontiguousarray"),
        (replaced(2, np.zeros((4, 12), np.float32)[:, ::2]), r"argument 2 \(c\) is not C-contiguous"),
        (replaced(1, unaligned()), r"argument 1 \(b\) does not start at a multiple of 4 bytes"),
        (replaced(2, read_only()), r"argument 2 \(c\) is an output but read-only"),
        (replaced(0, np.zeros((4, 6), ">f4")), "has dtype >f4, expected float32"),
    ],
)
def test_a_wrong_call_is_reported_with_the_remedy(add: Kernel, make: Callable[[], list[Any]], message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        add(*make())
    with pytest.raises(ArgumentError, match=message):
        add.time_ns(make(), 1)


def test_an_output_that_overlaps_is_refused_and_its_neighbour_is_not(add: Kernel) -> None:
    memory = np.zeros(72, np.float32)
    a, c = memory[:24].reshape(4, 6), memory[23:47].reshape(4, 6)
    with pytest.raises(ArgumentError, match=r"the output c \(argument 2\) shares memory with a \(argument 0\)"):
        add(a, np.zeros((4, 6), np.float32), c)
    with pytest.raises(ArgumentError, match="shares memory with b"):
        add(np.zeros((4, 6), np.float32), c, c)
    add(a, np.zeros((4, 6), np.float32), memory[24:48].reshape(4, 6))


def test_subclasses_of_arrays_are_taken(add: Kernel) -> None:
    class Named(np.ndarray[Any, Any]):
        pass

    a, b, c = arrays()
    add(a.view(Named), b, c)
    assert (c == 3).all()


def test_empty_outputs_do_not_overlap() -> None:
    checker = Checker("f", [ArgSpec("a", (0,), "float32", False), ArgSpec("c", (0,), "float32", True)])
    same = np.zeros(0, np.float32)
    assert len(checker.addresses([same, same])) == 2


def test_addresses_are_numpys_own() -> None:
    address = _fastest()
    for array in (np.zeros(5), np.zeros((3, 4), np.int8)[1:], np.zeros(0), np.array(1.0)):
        assert address(array) == array.ctypes.data == _by_interface(array)


def test_time_is_for_all_calls_together_and_all_are_made(add: Kernel) -> None:
    c = Buffer("c", (1,), "int64")
    count = build(emit(function([c], [c], put(c, 0, get(c, 0) + 1), name="count"), ONE_CORE))
    counter = np.zeros(1, np.int64)
    elapsed = count.time_ns([counter], 1000)
    assert counter[0] == 1000
    assert elapsed > 0


def test_less_than_one_timed_call_is_refused(add: Kernel) -> None:
    with pytest.raises(ArgumentError, match="number=0 is out of range; give an integer from 1"):
        add.time_ns(arrays(), 0)


def test_the_source_in_every_form(add: Kernel) -> None:
    assert "define void @add(" in add.source()
    assert "define void @add(" in add.source("ir")
    assert "add:" in add.source("asm")
    with pytest.raises(ArgumentError, match=r"unknown form 'c' of source; use one of ll, ir, asm"):
        add.source("c")


def test_a_kernel_from_object_code_alone_has_no_source(add: Kernel) -> None:
    bare = load(add.compiled)
    with pytest.raises(ArgumentError, match="program=program"):
        bare.source()


def test_a_kernel_shows_what_it_takes(add: Kernel) -> None:
    assert repr(add).startswith("Kernel(add(a: float32[4, 6], b: float32[4, 6], c: float32[4, 6]) for llvm -mcpu=")


def test_the_code_lives_as_long_as_its_kernel_and_no_longer() -> None:
    # Hundreds of kernels of one name in one process; those alive stay callable.
    c = Buffer("c", (1,), "int64")
    compiled = [
        compile_program(emit(function([c], [c], put(c, 0, get(c, 0) + step), name="step"), ONE_CORE))
        for step in range(3)
    ]
    alive = [load(each) for each in compiled]
    for _ in range(100):
        for each in compiled:
            load(each)
        gc.collect(0)
    for step, kernel in enumerate(alive):
        counter = np.zeros(1, np.int64)
        kernel(counter)
        assert counter[0] == step


def test_the_workspace_is_reused_between_calls() -> None:
    size = 6000
    a, c, t = Buffer("a", (size,)), Buffer("c", (size,)), Buffer("t", (size,))
    from lowered_programs import alloc

    body = alloc(t, loop("i", size, lambda i: put(t, i, get(a, i))), loop("i", size, lambda i: put(c, i, get(t, i))))
    kernel = build(emit(function([a, c], [c], body), ONE_CORE))
    values, out = np.ones(size, np.float32), np.zeros(size, np.float32)
    kernel.time_ns([values, out])
    spare = kernel._checked._spare
    first = spare[0].address
    kernel._checked(values, out)
    assert [workspace.address for workspace in spare] == [first]
    assert first % 64 == 0


def test_a_workspace_begins_with_zeros() -> None:
    for nbytes in (64, 5000, 1 << 20):
        for _ in range(10):
            leftovers = np.full(nbytes + 64, 0x23, np.uint8)
            del leftovers  # its memory is what the next allocation of this size gets
            workspace = Workspace(nbytes)
            assert not any(ctypes.string_at(workspace.address, nbytes))


def test_a_flag_that_is_neither_true_nor_false_is_refused() -> None:
    c = Buffer("c", (1,))
    program = emit(function([c], [c], put(c, 0, 1.0)), ONE_CORE)
    with pytest.raises(ArgumentError, match=r"apart=.* is neither true nor false"):
        plain_code.optimized(program, apart=np.zeros(2))  # type: ignore[arg-type]
