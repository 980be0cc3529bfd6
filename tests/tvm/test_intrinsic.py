"""Intrinsics of a user's own, C code for the pragma `import_llvm`, and kernels for size variables in modules."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pegbox.errors import ArgumentError, ScheduleError
from pegbox.plugins import tvm
from pegbox.plugins.tvm import te
from pegbox.plugins.tvm.contrib import clang
from pegbox.plugins.tvm.ir import register_intrin_lowering, register_op_attr


def test_an_intrinsic_without_a_rule_is_refused() -> None:
    with pytest.raises(
        ArgumentError, match=r"call_intrin\('tir.mysin'\): no such intrinsic, and no rule .* target='ll"
    ):
        tvm.tir.call_intrin("float32", "tir.mysin", 1.0)


def test_the_rule_of_the_highest_level_holds() -> None:
    for level, factor in ((10, 2), (20, 3), (5, 4)):
        register_intrin_lowering("tir.scaled", "llvm", f=lambda op, by=factor: op.args[0] * by, level=level)
    x = te.placeholder((4,), name="x")
    assert str(tvm.tir.call_intrin("float32", "tir.scaled", x[0])) == "x[0] * 3.0"


def test_rules_can_be_decorators() -> None:
    @register_intrin_lowering("tir.negated", "default")  # type: ignore[untyped-decorator]
    def rule(op: Any) -> Any:
        return -op.args[0]

    x = te.placeholder((4,), name="x")
    assert str(tvm.tir.call_intrin("float32", "tir.negated", x[0])) == str(rule(type("Op", (), {"args": [x[0]]})))


@pytest.mark.parametrize(
    ("use", "message"),
    [
        (
            lambda: register_intrin_lowering("tir.f1", "cuda", f=lambda op: op),
            "tir.f1 for 'cuda'",
        ),
        (lambda: register_intrin_lowering("tir.exp", "llvm", f=lambda op: op), "tir.exp: exp is pegbox's own"),
        (lambda: register_op_attr("tir.f1", "TVectorizable", True), "intrinsics have only 'TCallEffectKind'"),
    ],
)
def test_what_means_nothing_is_refused(use: Any, message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        use()


def test_the_text_of_c_code_is_kept_in_a_file(tmp_path: Path) -> None:
    text = "int f(void) {\n  return 1;\n}\n"
    code = clang.create_llvm(text, output=tmp_path / "f.ll")
    assert code.text == (tmp_path / "f.ll").read_text() == text
    assert clang.create_llvm(str(tmp_path / "f.ll")) == code


def sized() -> Any:
    n = te.var("n")
    A = te.placeholder((n,), name="A")
    B = te.compute((n,), lambda i: A[i] * n, name="B")
    s = te.create_schedule(B.op)
    return s, [A, B]


def test_a_module_of_a_kernel_for_size_variables_is_called_with_any_sizes() -> None:
    module = tvm.build(*sized(), name="scaled")
    for size in (3, 5):
        b = tvm.nd.empty((size,))
        module["scaled"](tvm.nd.array(np.ones(size, "float32")), b)
        np.testing.assert_array_equal(b.numpy(), [size] * size)


@pytest.mark.parametrize("simple_mode", [False, True])
def test_what_is_lowered_with_size_variables_is_built_for_all_sizes(simple_mode: bool) -> None:
    s, args = sized()
    with pytest.warns(UserWarning, match="the program is shown for n = 1023"):
        lowered = tvm.lower(s, args, name="scaled", simple_mode=simple_mode)
    s[args[1]].vectorize(args[1].op.axis[0])  # after it was lowered
    assert "T.vectorized" not in str(lowered)
    assert lowered["scaled"].params[0].shape == (1023,)
    module = tvm.build(lowered, target="llvm")
    b = tvm.nd.empty((3,))
    module["scaled"](tvm.nd.array(np.ones(3, "float32")), b)
    np.testing.assert_array_equal(b.numpy(), [3, 3, 3])


def test_programs_that_are_not_legal_are_shown_and_not_built() -> None:
    A = te.placeholder((8,), name="A")
    k = te.reduce_axis((0, 8), name="k")
    B = te.compute((1,), lambda i: te.sum(A[k], axis=k), name="B")
    s = te.create_schedule(B.op)
    s[B].parallel(k)
    with pytest.warns(UserWarning, match="is shown, but not legal"):
        shown = tvm.lower(s, [A, B], simple_mode=True)
    assert "k cannot be parallel" in str(shown)
    for refused in (lambda: tvm.lower(s, [A, B]), lambda: tvm.build(s, [A, B]), lambda: tvm.build(shown)):
        with pytest.raises(ScheduleError, match="k cannot be parallel"):
            refused()
