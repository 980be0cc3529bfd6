"""Functions of expressions: those of `te`, and the names that TVM keeps in `tir`."""

from __future__ import annotations

from pegbox.expr.build import floordiv as floordiv
from pegbox.expr.build import floormod as floormod
from pegbox.loops.foreign import c_library as c_library
from pegbox.loops.foreign import c_source as c_source
from pegbox.te import abs as abs
from pegbox.te import acos as acos
from pegbox.te import acosh as acosh
from pegbox.te import all as all
from pegbox.te import any as any
from pegbox.te import asin as asin
from pegbox.te import asinh as asinh
from pegbox.te import atan as atan
from pegbox.te import atan2 as atan2
from pegbox.te import atanh as atanh
from pegbox.te import bitwise_and as bitwise_and
from pegbox.te import bitwise_not as bitwise_not
from pegbox.te import bitwise_or as bitwise_or
from pegbox.te import bitwise_xor as bitwise_xor
from pegbox.te import call_extern as call_extern
from pegbox.te import call_llvm_intrin as call_llvm_intrin
from pegbox.te import call_llvm_pure_intrin as call_llvm_pure_intrin
from pegbox.te import call_pure_extern as call_pure_extern
from pegbox.te import call_python as call_python
from pegbox.te import cast as cast
from pegbox.te import ceil as ceil
from pegbox.te import ceildiv as ceildiv
from pegbox.te import clz as clz
from pegbox.te import const as const
from pegbox.te import copysign as copysign
from pegbox.te import cos as cos
from pegbox.te import cosh as cosh
from pegbox.te import div as div
from pegbox.te import erf as erf
from pegbox.te import exp as exp
from pegbox.te import exp2 as exp2
from pegbox.te import exp10 as exp10
from pegbox.te import floor as floor
from pegbox.te import fmod as fmod
from pegbox.te import hypot as hypot
from pegbox.te import if_then_else as if_then_else
from pegbox.te import isfinite as isfinite
from pegbox.te import isinf as isinf
from pegbox.te import isnan as isnan
from pegbox.te import ldexp as ldexp
from pegbox.te import log as log
from pegbox.te import log1p as log1p
from pegbox.te import log2 as log2
from pegbox.te import log10 as log10
from pegbox.te import max as max
from pegbox.te import max_value as max_value
from pegbox.te import min as min
from pegbox.te import min_value as min_value
from pegbox.te import nearbyint as nearbyint
from pegbox.te import nonpositive as nonpositive
from pegbox.te import popcount as popcount
from pegbox.te import pow as pow
from pegbox.te import power as power
from pegbox.te import reinterpret as reinterpret
from pegbox.te import round as round
from pegbox.te import rsqrt as rsqrt
from pegbox.te import shift_left as shift_left
from pegbox.te import shift_right as shift_right
from pegbox.te import sigmoid as sigmoid
from pegbox.te import sin as sin
from pegbox.te import sinh as sinh
from pegbox.te import sqrt as sqrt
from pegbox.te import sum as sum
from pegbox.te import tan as tan
from pegbox.te import tanh as tanh
from pegbox.te import trunc as trunc
from pegbox.te import truncdiv as truncdiv
from pegbox.te import truncmod as truncmod

__all__ = [
    "Select", "abs", "acos", "acosh", "all", "any", "asin", "asinh", "atan", "atan2", "atanh", "bitwise_and",
    "bitwise_not", "bitwise_or", "bitwise_xor", "c_library", "c_source", "call_extern", "call_llvm_intrin",
    "call_llvm_pure_intrin", "call_pure_extern", "call_python", "cast", "ceil", "ceildiv", "clz", "const",
    "copysign", "cos", "cosh", "div", "erf", "exp", "exp2", "exp10", "floor", "floordiv", "floormod", "fmod",
    "hypot", "if_then_else", "indexdiv", "indexmod", "isfinite", "isinf", "isnan", "ldexp", "log", "log1p", "log2",
    "log10", "max", "max_value", "min", "min_value", "nearbyint", "nonpositive", "popcount", "pow", "power",
    "reinterpret", "round", "rsqrt", "shift_left", "shift_right", "sigmoid", "sin", "sinh", "sqrt", "sum", "tan",
    "tanh", "trunc", "truncdiv", "truncmod",
]  # fmt: skip

indexdiv = floordiv
indexmod = floormod
Select = if_then_else
