"""Private loops: loops of which no two iterations touch the same element of a buffer."""

from __future__ import annotations

from collections.abc import Sequence, Set

from pegbox.expr.affine import Linear
from pegbox.expr.bounds import Ranges, linear_bounds
from pegbox.expr.equal import same
from pegbox.expr.injectivity import determined
from pegbox.expr.nodes import Expr, Var
from pegbox.expr.simplify import simplified_linear
from pegbox.expr.visit import free_vars, loads
from pegbox.loops.nodes import Region


def private_loops(regions: Sequence[Region], loops: Sequence[Var], fixed: Set[Var], ranges: Ranges) -> set[Var]:
    """Find the loops whose iterations touch distinct elements for constant `fixed` loops.

    All regions belong to one buffer. This is sound, but not complete.
    """
    settled, todo = set(fixed), list(loops)
    while new := [var for var in todo if _selects(var, regions, settled, ranges)]:
        # One by one, because known loops are fixed when the next one is judged.
        settled.add(new[0])
        todo.remove(new[0])
    return settled - fixed


def _selects(var: Var, regions: Sequence[Region], settled: Set[Var], ranges: Ranges) -> bool:
    columns = list(zip(*(region.box for region in regions), strict=True))
    if any(_is_digit(var, column, settled, ranges) for column in columns):
        return True
    alike = [column[0][0] for column in columns if all(n == 1 and same(lo, column[0][0]) for lo, n in column)]
    return var in determined([lo for lo in alike if not any(True for _ in loads(lo))], settled, ranges)


def _is_digit(var: Var, column: Sequence[tuple[Expr, int]], settled: Set[Var], ranges: Ranges) -> bool:
    """Check if an index is, everywhere, a multiple of the variable plus a smaller rest."""
    forms = [simplified_linear(lo, ranges) for lo, _ in column]
    factor = forms[0].coefficient(var)
    if not factor or any(f.coefficient(var) != factor for f in forms):
        return False
    first = forms[0]
    shared = {
        t: c
        for t, c in first.terms.items()
        if t is not var
        and free_vars(t) <= settled
        and not any(True for _ in loads(t))
        and all(f.coefficient(t) == c for f in forms)
    }
    common = Linear({var: factor, **shared}, 0)
    ends = []
    for form, (_, count) in zip(forms, column, strict=True):
        rest = form.add(common, -1)
        between = linear_bounds(rest, ranges)
        if between is None or any(var in free_vars(t) for t in rest.terms):
            return False
        ends += [between[0], between[1] + count - 1]
    return max(ends) - min(ends) < abs(factor)
