"""`pegbox.te`: the compute language and TE schedules, as users import them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NoReturn

from pegbox.checks import check_text
from pegbox.compute.axis import IterVar as IterVar
from pegbox.compute.axis import SizeVar
from pegbox.compute.ops import compute as compute
from pegbox.compute.ops import max as max
from pegbox.compute.ops import min as min
from pegbox.compute.ops import placeholder as placeholder
from pegbox.compute.ops import prod as prod
from pegbox.compute.ops import reduce_axis as reduce_axis
from pegbox.compute.ops import sum as sum
from pegbox.compute.reducer import comm_reducer as comm_reducer
from pegbox.compute.tensor import Tensor as Tensor
from pegbox.compute.thread_axis import thread_axis as thread_axis
from pegbox.errors import ComputeError
from pegbox.expr import dtypes, intrinsics, low_level
from pegbox.expr.build import all_of, any_of, as_expr, select
from pegbox.expr.build import cast as cast
from pegbox.expr.build import const as const
from pegbox.expr.build import floordiv as floordiv
from pegbox.expr.build import floormod as floormod
from pegbox.expr.build import logical_not as logical_not
from pegbox.expr.build import maximum as maximum
from pegbox.expr.build import minimum as minimum
from pegbox.expr.nodes import Expr as Expr
from pegbox.loops.from_compute import function_from_tensors
from pegbox.loops.nodes import Function
from pegbox.schedule.te.intrinsic import decl_buffer as decl_buffer
from pegbox.schedule.te.intrinsic import decl_tensor_intrin as decl_tensor_intrin
from pegbox.schedule.te.schedule import TESchedule as TESchedule
from pegbox.schedule.te.schedule import create_schedule as create_schedule
from pegbox.schedule.te.stage import Stage as Stage

if_then_else = select
indexdiv = floordiv
indexmod = floormod


def var(name: str = "n", dtype: str = dtypes.INDEX) -> SizeVar:
    """A size that is known only when arrays are given, for shapes, ends of reduce axes and expressions.

    `te.placeholder((n, n + 2))`. `pegbox.build` compiles such a computation once for each set of sizes that it is
    called with; `pegbox.lower` takes `sizes={"n": 128}`.

    Args:
        dtype: an integer type, as TVM asks for it; sizes are int64.

    Raises:
        ComputeError: a type that is not one of integers.
    """
    check_text("var: name", name, error=ComputeError)
    if not dtypes.is_int(dtypes.check(dtype)):
        raise ComputeError(f"var({name!r}, {dtype!r}): variables are sizes; pass other values as te.placeholder(())")
    return SizeVar(name)


size_var = var


def extern(*_args: object, name: str = "extern", **_options: object) -> NoReturn:
    """Refused: pegbox has no operations whose loops it does not know.

    Raises:
        ComputeError: always; it names the ways that there are.
    """
    raise ComputeError(
        f"te.extern({name!r}): operations whose insides are unknown cannot be scheduled or checked; write what it "
        "computes with te.compute, and call C code in place of its inner loops with te.decl_tensor_intrin and tensorize"
    )


def call_extern(dtype: str, func_name: str, *args: object) -> Expr:
    """A call of a C function, for the body of a tensor intrinsic. Pointers are `operand.access_ptr("r")`.

    Whole numbers are passed as 64 bits; functions that take `int` read them too.
    """
    return low_level.call_extern(dtype, func_name, *map(as_expr, args))


def call_llvm_pure_intrin(dtype: str, name: str, *args: object) -> Expr:
    """A call of an LLVM intrinsic, such as "llvm.x86.avx512.vpdpbusd.512", on vectors as `operand.vload` gives them.

    The number of arguments, which TVM wants in front of them, is left out.
    """
    return low_level.call_llvm(dtype, name, *map(as_expr, args))


call_llvm_intrin = call_llvm_pure_intrin


def reinterpret(dtype: str, value: object) -> Expr:
    """The same bits as another type of the same size."""
    return low_level.reinterpret(dtype, as_expr(value))


def all(*conditions: object) -> Expr:
    """True where every condition holds."""
    return all_of(conditions)


def any(*conditions: object) -> Expr:
    """True where some condition holds."""
    return any_of(conditions)


def exp(x: object) -> Expr:
    return intrinsics.call("exp", x)


def log(x: object) -> Expr:
    """Natural logarithm."""
    return intrinsics.call("log", x)


def sqrt(x: object) -> Expr:
    return intrinsics.call("sqrt", x)


def rsqrt(x: object) -> Expr:
    """`1 / sqrt(x)`."""
    return intrinsics.call("rsqrt", x)


def tanh(x: object) -> Expr:
    return intrinsics.call("tanh", x)


def sigmoid(x: object) -> Expr:
    """`1 / (1 + exp(-x))`."""
    return intrinsics.call("sigmoid", x)


def erf(x: object) -> Expr:
    return intrinsics.call("erf", x)


def pow(x: object, y: object) -> Expr:
    return intrinsics.call("pow", x, y)


power = pow


def abs(x: object) -> Expr:
    return intrinsics.call("abs", x)


def floor(x: object) -> Expr:
    return intrinsics.call("floor", x)


def ceil(x: object) -> Expr:
    return intrinsics.call("ceil", x)


def round(x: object) -> Expr:
    """To the nearest integer, halves to the even one, as NumPy rounds."""
    return intrinsics.call("round", x)


def min_value(dtype: str) -> Expr:
    """The lowest value of a type (-inf for floats)."""
    return const(dtypes.value_range(dtypes.check(dtype))[0], dtype)


def max_value(dtype: str) -> Expr:
    """The highest value of a type (inf for floats)."""
    return const(dtypes.value_range(dtypes.check(dtype))[1], dtype)


def relu(x: object) -> Expr:
    """`max(x, 0)`."""
    expr = as_expr(x)
    return maximum(expr, const(0, expr.dtype))


def create_prim_func(args: Sequence[Tensor], name: str = "main") -> Function:
    """The program that computes every tensor of `args` that is not a placeholder, one plain nest for each operation.

    Args:
        args: the function's parameters in call order, inputs and outputs.

    Raises:
        LoweringError: an input is missing from `args`, or nothing is computed.
    """
    attrs = {"global_symbol": name, "tir.noalias": True}
    return replace(function_from_tensors(args, name), attrs=attrs)
