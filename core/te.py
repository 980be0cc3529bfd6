"""`pegbox.te`: the compute language and TE schedules, as users import them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from pegbox.checks import check_list, check_text
from pegbox.compute import elementwise as _elementwise  # noqa: F401  (gives whole tensors their operators)
from pegbox.compute.axis import IterVar as IterVar
from pegbox.compute.axis import SizeVar
from pegbox.compute.division import ceildiv as ceildiv
from pegbox.compute.division import div as div
from pegbox.compute.division import truncdiv as truncdiv
from pegbox.compute.division import truncmod as truncmod
from pegbox.compute.ops import compute as compute
from pegbox.compute.ops import max as max
from pegbox.compute.ops import min as min
from pegbox.compute.ops import placeholder as placeholder
from pegbox.compute.ops import prod as prod
from pegbox.compute.ops import reduce_axis as reduce_axis
from pegbox.compute.ops import sum as sum
from pegbox.compute.reducer import comm_reducer as comm_reducer
from pegbox.compute.scan import cumprod as cumprod
from pegbox.compute.scan import cumsum as cumsum
from pegbox.compute.scan import scan as scan
from pegbox.compute.tag import tag_scope as tag_scope
from pegbox.compute.tensor import Tensor as Tensor
from pegbox.compute.tensor import TensorSlice as TensorSlice
from pegbox.errors import ComputeError, ExprError
from pegbox.expr import dtypes, intrinsics, low_level
from pegbox.expr.build import all_of, any_of, as_expr
from pegbox.expr.build import cast as cast
from pegbox.expr.build import const as const
from pegbox.expr.build import floordiv as floordiv
from pegbox.expr.build import floormod as floormod
from pegbox.expr.build import if_then_else as if_then_else
from pegbox.expr.build import logical_not as logical_not
from pegbox.expr.build import maximum as maximum
from pegbox.expr.build import minimum as minimum
from pegbox.expr.math import abs as abs
from pegbox.expr.math import acos as acos
from pegbox.expr.math import acosh as acosh
from pegbox.expr.math import asin as asin
from pegbox.expr.math import asinh as asinh
from pegbox.expr.math import atan as atan
from pegbox.expr.math import atan2 as atan2
from pegbox.expr.math import atanh as atanh
from pegbox.expr.math import ceil as ceil
from pegbox.expr.math import clz as clz
from pegbox.expr.math import copysign as copysign
from pegbox.expr.math import cos as cos
from pegbox.expr.math import cosh as cosh
from pegbox.expr.math import erf as erf
from pegbox.expr.math import exp as exp
from pegbox.expr.math import exp2 as exp2
from pegbox.expr.math import exp10 as exp10
from pegbox.expr.math import floor as floor
from pegbox.expr.math import fmod as fmod
from pegbox.expr.math import hypot as hypot
from pegbox.expr.math import isfinite as isfinite
from pegbox.expr.math import isinf as isinf
from pegbox.expr.math import isnan as isnan
from pegbox.expr.math import ldexp as ldexp
from pegbox.expr.math import log as log
from pegbox.expr.math import log1p as log1p
from pegbox.expr.math import log2 as log2
from pegbox.expr.math import log10 as log10
from pegbox.expr.math import nearbyint as nearbyint
from pegbox.expr.math import popcount as popcount
from pegbox.expr.math import pow as pow
from pegbox.expr.math import round as round
from pegbox.expr.math import rsqrt as rsqrt
from pegbox.expr.math import sigmoid as sigmoid
from pegbox.expr.math import sin as sin
from pegbox.expr.math import sinh as sinh
from pegbox.expr.math import sqrt as sqrt
from pegbox.expr.math import tan as tan
from pegbox.expr.math import tanh as tanh
from pegbox.expr.math import trunc as trunc
from pegbox.expr.nodes import Expr as Expr
from pegbox.loops import foreign
from pegbox.loops.from_compute import function_from_tensors
from pegbox.loops.nodes import Function
from pegbox.loops.threads.axis import thread_axis as thread_axis
from pegbox.schedule.te.intrinsic import IntrinBuffer
from pegbox.schedule.te.intrinsic import decl_buffer as decl_buffer
from pegbox.schedule.te.intrinsic import decl_tensor_intrin as decl_tensor_intrin
from pegbox.schedule.te.schedule import TESchedule as TESchedule
from pegbox.schedule.te.schedule import create_schedule as create_schedule
from pegbox.schedule.te.stage import Stage as Stage
from pegbox.task.extern import extern as extern

__all__ = [
    "Expr", "IterVar", "Stage", "TESchedule", "Tensor", "TensorSlice", "abs", "acos", "acosh", "all", "any", "asin",
    "asinh", "atan", "atan2", "atanh", "call_extern", "call_llvm_intrin", "call_llvm_pure_intrin",
    "call_pure_extern", "call_python", "cast", "ceil", "ceildiv", "clz", "comm_reducer", "compute", "const",
    "copysign", "cos", "cosh", "create_prim_func", "create_schedule", "cumprod", "cumsum", "decl_buffer",
    "decl_tensor_intrin", "div",
    "erf", "exp", "exp2", "exp10", "extern", "floor", "floordiv", "floormod", "fmod", "hypot", "if_then_else",
    "indexdiv", "indexmod", "isfinite", "isinf", "isnan", "ldexp", "log", "log1p", "log2", "log10", "logical_not",
    "max", "max_value", "maximum", "min", "min_value", "minimum", "nearbyint", "placeholder", "popcount", "pow",
    "power", "prod", "reduce_axis", "reinterpret", "relu", "round", "rsqrt", "scan", "select", "sigmoid", "sin", "sinh",
    "size_var", "sqrt", "sum", "tag_scope", "tan", "tanh", "thread_axis", "trunc", "truncdiv", "truncmod", "var",
]  # fmt: skip

select = if_then_else
indexdiv = floordiv
indexmod = floormod


def __dir__() -> list[str]:
    return __all__


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


def call_extern(dtype: str, func_name: str, *args: object) -> Expr:
    """A call of a C function, for tensor intrinsics and `te.extern`. Pointers are `operand.access_ptr("r")` or `.data`.

    Whole numbers are passed as 64 bits; functions that take `int` read them too.
    """
    return low_level.call_extern(
        dtype, func_name, *(arg.data if isinstance(arg, IntrinBuffer) else as_expr(arg) for arg in args)
    )


def call_python(function: Callable[..., object], *buffers: IntrinBuffer) -> Expr:
    """A call of a Python function, for `te.extern`: it takes the buffers as NumPy arrays, and writes its outputs.

    `te.call_python(numpy.cumsum, ...)` does not write; `te.call_python(lambda a, b: numpy.cumsum(a, out=b), ins[0],
    outs[0])` does. What the function raises, the call of the kernel raises. Such a kernel runs in this process only:
    it is neither searched nor saved.

    Raises:
        ArgumentError: it is no function.
    """
    wanted = "the buffers that fcompute of te.extern is given"
    given = check_list("call_python: buffers", buffers, wanted, of=IntrinBuffer)
    return foreign.call_python(function, [buffer.data for buffer in given])


def call_pure_extern(dtype: str, func_name: str, *args: object) -> Expr:
    """A call of a C function without effects, on numbers: those of the mathematical library are the functions of `te`.

    `call_pure_extern("float32", "expf", x)` is `te.exp(x)`.
    """
    check_text("call_pure_extern: func_name", func_name, error=ExprError)
    name = func_name.removeprefix("__").removesuffix("f")
    if intrinsics.ARITY.get(name) != len(args) or not dtypes.is_float(dtypes.check(dtype)):
        return call_extern(dtype, func_name, *args)
    return intrinsics.call(name, *(cast(dtype, arg) for arg in args))


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


power = pow


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


def create_prim_func(args: Tensor | Sequence[Tensor], name: str = "main") -> Function:
    """The program that computes every tensor of `args` that is not a placeholder, one plain nest for each operation.

    Args:
        args: the function's parameters in call order, inputs and outputs.

    Raises:
        LoweringError: an input is missing from `args`, or nothing is computed.
    """
    attrs = {"global_symbol": name, "tir.noalias": True}
    return replace(function_from_tensors([args] if isinstance(args, Tensor) else args, name), attrs=attrs)
