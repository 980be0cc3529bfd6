"""Modules of kernels, and kernels that time themselves."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pegbox as pb
from pegbox import te
from pegbox.codegen import Kernel, RuntimeModule, TimeEvaluator, TimeResult
from pegbox.errors import ArgumentError, CompileError
from pegbox.loops.nodes import Function
from pegbox.tir import IRModule


def doubled(name: str = "main", factor: int = 2) -> Function:
    a = te.placeholder((8,), name="A")
    return te.create_prim_func([a, te.compute((8,), lambda i: a[i] * factor, name="B")], name)


def arrays() -> tuple[Any, Any]:
    return np.arange(8, dtype="float32"), np.zeros(8, "float32")


def test_create_prim_func_makes_a_named_program() -> None:
    func = doubled("twice")
    assert func.name == "twice"
    assert func.attrs == {"global_symbol": "twice", "tir.noalias": True}
    assert doubled().name == "main"


def test_a_module_holds_kernels_by_name() -> None:
    built = pb.build(IRModule({"two": doubled(), "three": doubled(factor=3)}))
    assert isinstance(built, RuntimeModule)
    assert list(built) == ["two", "three"]
    assert len(built) == 2
    a, b = arrays()
    built["three"](a, b)
    np.testing.assert_array_equal(b, a * 3)
    with pytest.raises(ArgumentError, match="no function 'four'; it has two, three"):
        built["four"]
    with pytest.raises(ArgumentError, match="has the functions two, three; name one"):
        built(a, b)
    assert "two(A: float32[8]" in repr(built)


def test_a_module_of_one_function_is_called_itself() -> None:
    a, b = arrays()
    for mod in (IRModule(doubled("only")), IRModule({"main": doubled(), "other": doubled(factor=5)})):
        b[:] = 0
        pb.build(mod)(a, b)
        np.testing.assert_array_equal(b, a * 2)
    assert pb.build(IRModule(doubled("only"))).entry_name == "only"


def test_names_must_differ_in_c_too() -> None:
    with pytest.raises(CompileError, match=r"a\.b and a_b would both be called a_b in C; rename one"):
        pb.build(IRModule({"a.b": doubled(), "a_b": doubled()}))


def test_a_module_knows_its_arguments() -> None:
    with pytest.raises(ArgumentError, match="leave args and name out"):
        pb.build(IRModule(doubled()), name="x")  # type: ignore[call-overload]


def test_programs_with_blocks_are_lowered_first_and_others_stay() -> None:
    func = doubled()
    a, b = arrays()
    pb.build(func)(a, b)
    np.testing.assert_array_equal(b, a * 2)
    lowered = pb.lower(func)
    assert pb.lower(lowered) is lowered
    assert pb.lower(IRModule(func)) == IRModule(lowered)
    assert pb.build(func, name="other").name == "other"


def test_a_kernel_answers_to_its_own_name() -> None:
    kernel = pb.build(doubled("twice"))
    assert isinstance(kernel, Kernel)
    assert kernel["twice"] is kernel
    assert kernel.entry_name == "twice"
    with pytest.raises(ArgumentError, match="this is the kernel 'twice'; it has no function 'main'"):
        kernel["main"]
    with pytest.raises(ArgumentError, match="no function 'main'"):
        kernel.time_evaluator("main")


def test_kernels_and_modules_are_timed() -> None:
    kernel = pb.build(doubled("twice"))
    for timer in (
        kernel.time_evaluator(),
        kernel.time_evaluator(kernel.entry_name, number=3, repeat=4),
        pb.build(IRModule(doubled("twice"))).time_evaluator("twice", "cpu", number=2, repeat=4),
        pb.build(IRModule(doubled("twice"))).time_evaluator(repeat=4),
    ):
        a, b = arrays()
        result = timer(a, b)
        np.testing.assert_array_equal(b, a * 2)
        assert len(result.results) == timer.repeat
        assert 0 < result.min <= result.median <= result.max
        assert result.min <= result.mean <= result.max
    with pytest.raises(ArgumentError, match="takes 2 arrays"):
        kernel.time_evaluator()(np.zeros(8, "float32"))


class Clock:
    """A kernel of which each call takes a microsecond."""

    def __init__(self) -> None:
        self.calls: list[int] = []

    def __call__(self, arrays: object, number: int) -> int:
        self.calls.append(number)
        return number * 1000


def test_repeats_last_long_enough() -> None:
    clock = Clock()
    result = TimeEvaluator(clock, number=4, repeat=3, min_repeat_ms=2.0)()
    assert result.results == pytest.approx((1e-6,) * 3)
    assert clock.calls[:2] == [1, 4]  # the first call is not counted
    assert clock.calls[2:] == [2200] * 3


def test_number_and_repeat_are_kept_without_a_least_time() -> None:
    clock = Clock()
    TimeEvaluator(clock, number=7, repeat=2)()
    assert clock.calls == [1, 7, 7]


def test_a_result_has_the_usual_statistics() -> None:
    result = TimeResult((1e-3, 2e-3, 6e-3))
    assert result.mean == pytest.approx(3e-3)
    assert result.median == pytest.approx(2e-3)
    assert (result.min, result.max) == (1e-3, 6e-3)
    assert result.std == pytest.approx(np.std([1e-3, 2e-3, 6e-3]))
    assert str(result) == "mean 3.0000 ms, median 2.0000, min 1.0000, max 6.0000, std 2.1602, 3 repeat(s)"


@pytest.mark.parametrize("options", [{"number": 0}, {"repeat": 0}, {"number": 1.5}, {"min_repeat_ms": -1}])
def test_numbers_out_of_their_domain_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ArgumentError, match=f"time_evaluator: {next(iter(options))}="):
        TimeEvaluator(Clock(), **options)
