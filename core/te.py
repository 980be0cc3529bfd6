"""`pegbox.te`: the compute language and TE schedules, as users import them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from pegbox.checks import check_list, check_text
from pegbox.compute import elementwise as _elementwise  # noqa: F401  (gives whole tensors their operators)
from pegbox.compute.axis import IterVar, SizeVar
from pegbox.compute.division import ceildiv, div, truncdiv, truncmod
from pegbox.compute.ops import compute, max, min, placeholder, prod, reduce_axis, sum
from pegbox.compute.reducer import comm_reducer
from pegbox.compute.scan import cumprod, cumsum, scan
from pegbox.compute.tag import tag_scope
from pegbox.compute.tensor import Tensor, TensorSlice
from pegbox.errors import ComputeError, ExprError
from pegbox.expr import dtypes, intrinsics, low_level
from pegbox.expr.build import (
    all_of,
    any_of,
    as_expr,
    cast,
    const,
    floordiv,
    floormod,
    if_then_else,
    logical_not,
    maximum,
    minimum,
)
from pegbox.expr.math import (
    abs,
    acos,
    acosh,
    asin,
    asinh,
    atan,
    atan2,
    atanh,
    bitwise_and,
    bitwise_not,
    bitwise_or,
    bitwise_xor,
    ceil,
    clz,
    copysign,
    cos,
    cosh,
    erf,
    exp,
    exp2,
    exp10,
    floor,
    fmod,
    hypot,
    isfinite,
    isinf,
    isnan,
    ldexp,
    log,
    log1p,
    log2,
    log10,
    nearbyint,
    nonpositive,
    popcount,
    pow,
    round,
    rsqrt,
    shift_left,
    shift_right,
    sigmoid,
    sin,
    sinh,
    sqrt,
    tan,
    tanh,
    trunc,
)
from pegbox.expr.nodes import Expr
from pegbox.loops import foreign
from pegbox.loops.from_compute import function_from_tensors
from pegbox.loops.nodes import Function
from pegbox.schedule.te.intrinsic import IntrinBuffer, decl_buffer, decl_tensor_intrin
from pegbox.schedule.te.schedule import TESchedule, create_schedule
from pegbox.schedule.te.stage import Stage
from pegbox.schedule.te.stage_threads import thread_axis
from pegbox.task.extern import extern

__all__ = [
    "Expr", "IterVar", "Stage", "TESchedule", "Tensor", "TensorSlice", "abs", "acos", "acosh", "all", "any", "asin",
    "asinh", "atan", "atan2", "atanh", "bitwise_and", "bitwise_not", "bitwise_or", "bitwise_xor", "call_extern",
    "call_llvm_intrin", "call_llvm_pure_intrin", "call_pure_extern", "call_python", "cast", "ceil", "ceildiv",
    "clz", "comm_reducer", "compute", "const", "copysign", "cos", "cosh", "create_prim_func", "create_schedule",
    "cumprod", "cumsum", "decl_buffer", "decl_tensor_intrin", "div", "erf", "exp", "exp2", "exp10", "extern",
    "floor", "floordiv", "floormod", "fmod", "hypot", "if_then_else", "indexdiv", "indexmod", "isfinite", "isinf",
    "isnan", "ldexp", "log", "log1p", "log2", "log10", "logical_not", "max", "max_value", "maximum", "min",
    "min_value", "minimum", "nearbyint", "nonpositive", "placeholder", "popcount", "pow", "power", "prod",
    "reduce_axis", "reinterpret", "relu", "round", "rsqrt", "scan", "select", "shift_left", "shift_right", "sigmoid",
    "sin", "sinh", "size_var", "sqrt", "sum", "tag_scope", "tan", "tanh", "thread_axis", "trunc", "truncdiv",
    "truncmod", "var",
]  # fmt: skip

select = if_then_else
indexdiv = floordiv
indexmod = floormod


def __dir__() -> list[str]:
    return __all__


def var(name: str = "n", dtype: str = dtypes.INDEX) -> SizeVar:
    """Make a size that is known only at the call, for shapes, ends of reduce axes and expressions.

    `te.placeholder((n, n + 2))`. `pegbox.build` compiles such a computation once for each set of sizes that it is
    called with; `pegbox.lower` takes `sizes={"n": 128}`.

    Args:
        dtype: an integer type, for compatibility with TVM; sizes are int64.

    Raises:
        ComputeError: the type is not an integer type.
    """
    check_text("var: name", name, error=ComputeError)
    if not dtypes.is_int(dtypes.check(dtype)):
        raise ComputeError(f"var({name!r}, {dtype!r}): variables are sizes; pass other values as te.placeholder(())")
    return SizeVar(name)


size_var = var


def call_extern(dtype: str, func_name: str, *args: object) -> Expr:
    """Call a C function, for tensor intrinsics and `te.extern`. Pointers are `operand.access_ptr("r")` or `.data`.

    Whole numbers are passed as 64 bits; functions that take `int` read them too.
    """
    return low_level.call_extern(
        dtype, func_name, *(arg.data if isinstance(arg, IntrinBuffer) else as_expr(arg) for arg in args)
    )


def call_python(function: Callable[..., object], *buffers: IntrinBuffer) -> Expr:
    """Call a Python function, for `te.extern`: it takes the buffers as NumPy arrays, and writes its outputs.

    `te.call_python(numpy.cumsum, ...)` does not write; `te.call_python(lambda a, b: numpy.cumsum(a, out=b), ins[0],
    outs[0])` does. The kernel's call raises any exception of the function. Such a kernel runs in this process only: it
    can be neither tuned nor saved.

    Raises:
        ArgumentError: `function` is not callable.
    """
    wanted = "the buffers that fcompute of te.extern is given"
    given = check_list("call_python: buffers", buffers, wanted, of=IntrinBuffer)
    return foreign.call_python(function, [buffer.data for buffer in given])


def call_pure_extern(dtype: str, func_name: str, *args: object) -> Expr:
    """Call a C function without side effects on numbers; `te` has functions for those of the mathematical library.

    `call_pure_extern("float32", "expf", x)` is `te.exp(x)`.
    """
    check_text("call_pure_extern: func_name", func_name, error=ExprError)
    name = func_name.removeprefix("__").removesuffix("f")
    if intrinsics.ARITY.get(name) != len(args) or not dtypes.is_float(dtypes.check(dtype)):
        return call_extern(dtype, func_name, *args)
    return intrinsics.call(name, *(cast(dtype, arg) for arg in args))


def call_llvm_pure_intrin(dtype: str, name: str, *args: object) -> Expr:
    """Call an LLVM intrinsic, such as "llvm.x86.avx512.vpdpbusd.512", on vectors as `operand.vload` gives them.

    Leave out the number of arguments that TVM puts first.
    """
    return low_level.call_llvm(dtype, name, *map(as_expr, args))


call_llvm_intrin = call_llvm_pure_intrin


def reinterpret(dtype: str, value: object) -> Expr:
    """Read the same bits as another type of the same size."""
    return low_level.reinterpret(dtype, as_expr(value))


def all(*conditions: object) -> Expr:
    """Test whether every condition holds."""
    return all_of(conditions)


def any(*conditions: object) -> Expr:
    """Test whether any condition holds."""
    return any_of(conditions)


power = pow


def min_value(dtype: str) -> Expr:
    """Return the lowest value of a type (-inf for floats)."""
    return const(dtypes.value_range(dtypes.check(dtype))[0], dtype)


def max_value(dtype: str) -> Expr:
    """Return the highest value of a type (inf for floats)."""
    return const(dtypes.value_range(dtypes.check(dtype))[1], dtype)


def relu(x: object) -> Expr:
    """Compute `max(x, 0)`."""
    expr = as_expr(x)
    return maximum(expr, const(0, expr.dtype))


def create_prim_func(args: Tensor | Sequence[Tensor], name: str = "main") -> Function:
    """Make the program that computes all tensors of `args` except placeholders, one plain loop nest per operation.

    Args:
        args: the function's parameters in call order, inputs and outputs.

    Raises:
        LoweringError: an input is missing from `args`, or nothing is computed.
    """
    attrs = {"global_symbol": name, "tir.noalias": True}
    return replace(function_from_tensors([args] if isinstance(args, Tensor) else args, name), attrs=attrs)
