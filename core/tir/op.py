"""Functions of expressions under the names that TVM keeps in `tir`."""

from __future__ import annotations

from pegbox.expr.build import floordiv as floordiv
from pegbox.expr.build import floormod as floormod
from pegbox.loops.foreign import c_library as c_library
from pegbox.loops.foreign import c_source as c_source
from pegbox.te import abs as abs
from pegbox.te import all as all
from pegbox.te import any as any
from pegbox.te import call_extern as call_extern
from pegbox.te import call_llvm_intrin as call_llvm_intrin
from pegbox.te import call_llvm_pure_intrin as call_llvm_pure_intrin
from pegbox.te import cast as cast
from pegbox.te import ceil as ceil
from pegbox.te import const as const
from pegbox.te import erf as erf
from pegbox.te import exp as exp
from pegbox.te import floor as floor
from pegbox.te import if_then_else as if_then_else
from pegbox.te import log as log
from pegbox.te import max as max
from pegbox.te import max_value as max_value
from pegbox.te import min as min
from pegbox.te import min_value as min_value
from pegbox.te import pow as pow
from pegbox.te import power as power
from pegbox.te import reinterpret as reinterpret
from pegbox.te import round as round
from pegbox.te import rsqrt as rsqrt
from pegbox.te import sigmoid as sigmoid
from pegbox.te import sqrt as sqrt
from pegbox.te import sum as sum
from pegbox.te import tanh as tanh

indexdiv = floordiv
indexmod = floormod
Select = if_then_else
