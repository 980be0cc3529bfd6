"""erf: x + x E(x^2) below one, 1 - exp(q(x)) above, where the polynomial q approximates log(erfc(x)).

In the upper part an error of q counts erfc(x) times, which is what its fit minimises.
"""

from __future__ import annotations

from pegbox.codegen.vector_math import coefficients
from pegbox.codegen.vector_math.exponential import FORMATS, expm1_reduced, power_of_two, reduce
from pegbox.codegen.vector_math.values import VectorValue, horner

_TABLES = {
    # erf rounds to one above the last number
    "float": (coefficients.ERF_SMALL_F32, coefficients.LOG_ERFC_F32, 4.0),
    "double": (coefficients.ERF_SMALL_F64, coefficients.LOG_ERFC_F64, 6.0),
}


def erf(x: VectorValue) -> VectorValue:
    """The error function, 2/sqrt(pi) times the integral of e^-t^2 from 0 to x."""
    small_table, large_table, limit = _TABLES[x.element]
    size = x.abs()
    small = x.fma(horner(x * x, small_table), x)
    r, n = reduce(horner(size.at_most(limit), large_table))
    erfc = (expm1_reduced(r, FORMATS[x.element].exp_tail) + 1.0) * power_of_two(n, x.element)
    return size.lt(1.0).where(small, (1.0 - erfc).copysign(x))
