"""Intervals of an index while some loops run and the others are fixed.

An interval has a lowest value in terms of the fixed loops, and a constant number of values.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from math import gcd

from pegbox.expr.affine import Linear, constant, linear
from pegbox.expr.bounds import Ranges, bounds, fits, linear_bounds
from pegbox.expr.build import conjuncts, floordiv, floormod, index
from pegbox.expr.digits import Digit
from pegbox.expr.nodes import Binary, Compare, Const, Expr, Load, Var
from pegbox.expr.simplify import simplified_linear
from pegbox.expr.visit import substitute, walk
from pegbox.loops.nodes import BlockRealize


@dataclass(frozen=True, slots=True)
class SymbolicInterval:
    """The integers from `lo` to `lo + width`. `exact`: each of them occurs; else there may be gaps.

    `moved_by` are the running loops on which the index depends, `capped` the numbers of the caps that bound it.
    """

    lo: Linear
    width: int
    exact: bool = True
    moved_by: frozenset[Var] = frozenset()
    capped: frozenset[int] = frozenset()

    def plus(self, other: SymbolicInterval) -> SymbolicInterval:
        # Sums of independent contiguous intervals may have gaps (0, 4, 8 + 0, 1): callers check the strides.
        return SymbolicInterval(
            self.lo.add(other.lo),
            self.width + other.width,
            self.exact and other.exact,
            self.moved_by | other.moved_by,
            self.capped | other.capped,
        )

    def of(self, lo: Linear, width: int, *, exact: bool = False) -> SymbolicInterval:
        """Make an interval of other values that depend on the same loops and caps."""
        return SymbolicInterval(lo, width, exact, self.moved_by, self.capped)

    def covers(self, extent: int) -> bool:
        """Check if the interval contains all of `range(extent)` for all values of the fixed loops."""
        return self.lo.is_const and self.lo.const <= 0 and self.lo.const + self.width >= extent - 1

    def hull(self, other: SymbolicInterval) -> SymbolicInterval | None:
        """Find the smallest interval around both; None if their distance is not constant."""
        gap = other.lo.minus(self.lo)
        if not gap.is_const:
            return None
        first, last = min(0, gap.const), max(self.width, gap.const + other.width)
        same = gap.const == 0 and self.width == other.width and self.exact and other.exact
        moved, capped = self.moved_by | other.moved_by, self.capped | other.capped
        return SymbolicInterval(self.lo.add(constant(first)), last - first, same, moved, capped)


@dataclass(frozen=True, slots=True)
class Relaxation:
    """The running loops, the ranges of all loops, and the caps of predicates on sums of loops.

    Attributes:
        caps: the caps on sums of only running loops.
        limits: the caps on sums of any loops.
    """

    running: Set[Var]
    ranges: Ranges
    caps: Sequence[tuple[Mapping[Expr, int], int]] = ()
    limits: Sequence[tuple[Mapping[Expr, int], int]] = ()


def caps_of(predicate: Expr, running: Set[Var], ranges: Ranges) -> list[tuple[Mapping[Expr, int], int]]:
    """Find `sum of running loops < n` among the predicate's parts, as (coefficients, n - 1) with the least n."""
    found: dict[frozenset[tuple[Expr, int]], tuple[Mapping[Expr, int], int]] = {}
    for part in conjuncts(predicate):
        if isinstance(part, Compare) and part.op == "lt" and isinstance(part.b, Const):
            form = linear(part.a)
            affine = all(isinstance(t, Var) and t in running and c > 0 for t, c in form.terms.items())
            if affine and fits(form, ranges):
                last, terms = part.b.integer - form.const - 1, frozenset(form.terms.items())
                if terms not in found or last < found[terms][1]:
                    found[terms] = form.terms, last
    return list(found.values())


def relaxation(running: Set[Var], ranges: Ranges, *tests: Expr) -> Relaxation:
    """Make the relaxation of running loops under tests."""
    limits = [limit for test in tests for limit in caps_of(test, ranges.keys(), ranges)]
    return Relaxation(running, ranges, [cap for cap in limits if cap[0].keys() <= running], limits)


def tested_ranges(conditions: Iterable[Expr], ranges: Ranges) -> Ranges:
    """Narrow the ranges of loops by the conditions `i < 5`, `i >= 5` and `i == 5` that hold."""
    found = dict(ranges)
    for part in (part for condition in conditions for part in conjuncts(condition)):
        if isinstance(part, Compare) and isinstance(part.a, Var) and isinstance(part.b, Const) and part.a in found:
            low, high = found[part.a]
            limit = int(part.b.value)
            if part.op == "lt":
                found[part.a] = low, min(high, limit - 1)
            elif part.op == "ge":
                found[part.a] = max(low, limit), high
            elif part.op == "eq":
                found[part.a] = limit, limit
    return found


def index_interval(expr: Expr, realize: BlockRealize, relax: Relaxation, count: int = 1) -> SymbolicInterval | None:
    """Find the values of an index over a block's variables, as the block is bound; see `interval`."""
    return interval(substitute(expr, realize.bindings), relax, count)


def interval(expr: Expr, relax: Relaxation, count: int = 1) -> SymbolicInterval | None:
    """Find the values of an expression over loops, each given with its `count - 1`.

    None if unknown (gathers, products of loops ...).
    """
    found = _relax(simplified_linear(expr, relax.ranges), relax)
    return found if found is None or count == 1 else found.of(found.lo, found.width + count - 1)


def hull(intervals: Iterable[SymbolicInterval | None]) -> SymbolicInterval | None:
    """Find the smallest interval around all; None if one is unknown, or there are none."""
    found: SymbolicInterval | None = None
    for number, each in enumerate(intervals):
        if each is None:
            return None
        found = each if number == 0 else found.hull(each) if found is not None else None
        if found is None:
            return None
    return found


def _relax(form: Linear, relax: Relaxation) -> SymbolicInterval | None:
    still: dict[Expr, int] = {t: c for t, c in form.terms.items() if isinstance(t, Var) and t not in relax.running}
    digits: dict[Expr, int] = {t: c for t, c in form.terms.items() if isinstance(t, Var) and t in relax.running}
    result = SymbolicInterval(Linear(still, form.const), 0).plus(_sum(digits, relax))
    for term, coefficient in form.terms.items():
        if isinstance(term, Var):
            continue
        part = _term(term, relax)
        if part is None:
            return None
        scaled = _scaled(part, coefficient)
        exact = scaled.width == 0 or (result.width == 0 and scaled.exact)
        total = result.plus(scaled)
        result = SymbolicInterval(total.lo, total.width, total.exact and exact, total.moved_by, total.capped)
    return result


def _sum(digits: Mapping[Expr, int], relax: Relaxation) -> SymbolicInterval:
    """Sum coefficient × running loop; a group capped by a predicate counts as one digit with fewer values."""
    moved = frozenset(t for t in digits if isinstance(t, Var))
    rest = dict(digits)
    spans: list[tuple[int, int]] = []  # (coefficient, last value) of each digit
    contiguous = True
    capped = set()
    for number, (terms, last) in enumerate(relax.caps):
        ratios = {divmod(rest.get(t, 0), c) for t, c in terms.items()}
        factor, remainder = ratios.pop()
        natural = [(abs(c), relax.ranges[t][1]) for t, c in terms.items() if isinstance(t, Var)]
        if factor and not remainder and not ratios and last < sum(c * hi for c, hi in natural):
            contiguous = contiguous and _contiguous(natural)
            spans.append((factor, last))
            capped.add(number)
            rest = {t: c for t, c in rest.items() if t not in terms}
    spans += [(c, relax.ranges[t][1]) for t, c in rest.items() if isinstance(t, Var)]
    lo = sum(c * last for c, last in spans if c < 0)
    width = sum(abs(c) * last for c, last in spans)
    exact = contiguous and _contiguous([(abs(c), last) for c, last in spans])
    return SymbolicInterval(constant(lo), width, exact, moved, frozenset(capped))


def _contiguous(spans: Sequence[tuple[int, int]]) -> bool:
    """Check that the sums of coefficient × digit leave no gaps."""
    reach = 0
    for coefficient, last in sorted(spans):
        if last > 0:
            if coefficient > reach + 1:
                return False
            reach += coefficient * last
    return True


def _scaled(part: SymbolicInterval, factor: int) -> SymbolicInterval:
    lo = part.lo if factor >= 0 else part.lo.add(constant(part.width))
    exact = part.exact and (abs(factor) == 1 or part.width == 0)
    return part.of(lo.times(factor), part.width * abs(factor), exact=exact)


def _term(term: Expr, relax: Relaxation) -> SymbolicInterval | None:
    nodes = list(walk(term))
    if any(isinstance(n, Load) for n in nodes):
        return None
    is_fixed = not any(n in relax.running for n in nodes if isinstance(n, Var))
    whole = SymbolicInterval(Linear({term: 1}, 0), 0)
    if isinstance(term, Binary) and isinstance(term.b, Const):
        form = linear(term.a)
        inner = _relax(form, relax) if fits(form, relax.ranges) else None
        if inner is not None and term.op in ("floordiv", "floormod"):
            found = whole if is_fixed else _divided(term.op, inner, term.b.integer, relax)
            return _limited(term.op, found, inner, form, term.b.integer, relax)
        if inner is not None and not is_fixed and term.op in ("min", "max"):
            # `max(expr, limit)` is at most as far above `expr` as `limit` is above the smallest value of `expr`.
            between = bounds(term.a, relax.ranges)
            if between is None:
                return None
            limit = term.b.integer
            reach = max(0, limit - between[0] if term.op == "max" else between[1] - limit)
            lo = inner.lo if term.op == "max" else inner.lo.add(constant(-reach))
            return inner.of(lo, inner.width + reach)
    if is_fixed:
        return whole
    moved = frozenset(n for n in nodes if isinstance(n, Var))
    between = bounds(term, relax.ranges) if moved <= relax.running else None
    # A term of only running loops takes all values in their ranges.
    return None if between is None else SymbolicInterval(constant(between[0]), between[1] - between[0], False, moved)


def _divided(op: str, inner: SymbolicInterval, divisor: int, relax: Relaxation) -> SymbolicInterval | None:
    """Divide `lo .. lo + width` by a constant: lo is a multiple of `step`, plus `phase`."""
    if divisor <= 0:
        return None
    anything = inner.of(constant(0), divisor - 1)
    if inner.lo.is_const:
        first, last = inner.lo.const, inner.lo.const + inner.width
        if op == "floordiv":
            return inner.of(constant(first // divisor), last // divisor - first // divisor)
        if first // divisor == last // divisor:
            return inner.of(constant(first % divisor), inner.width, exact=inner.exact)
        return anything
    step = gcd(divisor, *inner.lo.terms.values())
    phase = inner.lo.const % step
    reach = divisor - step + phase + inner.width  # the largest (lo % divisor) + width
    lo = inner.lo.to_expr()
    if op == "floordiv":
        first_value = simplified_linear(floordiv(lo, index(divisor)), relax.ranges)
        return inner.of(first_value, reach // divisor, exact=reach < divisor)
    if reach < divisor:
        first_value = simplified_linear(floormod(lo, index(divisor)), relax.ranges)
        return inner.of(first_value, inner.width, exact=inner.exact)
    return anything


def _limited(
    op: str, found: SymbolicInterval | None, inner: SymbolicInterval, form: Linear, divisor: int, relax: Relaxation
) -> SymbolicInterval | None:
    """Bound a quotient or a rest by the limits of its dividend, unless `found` is narrower.

    Where `o * 7 + i < 10`, `(o * 7 + i) // 5` is 0 or 1, and `(o * 7 + i) % 10` is the dividend. Such a quotient does
    not depend on the fixed loops.
    """
    last, low = _last(form, relax), linear_bounds(form, relax.ranges)
    if found is None or last is None or low is None:
        return found
    if op == "floordiv":
        first = low[0] // divisor
        width = last // divisor - first
        return found.of(constant(first), width, exact=width == 0) if 0 <= width <= found.width else found
    if last >= divisor or low[0] < 0 or inner.width > found.width:
        return found
    return inner.of(inner.lo, inner.width, exact=inner.width == 0)


def _last(form: Linear, relax: Relaxation) -> int | None:
    """Return the largest value that the limits leave to a form; None if they say nothing about it."""
    found = (_last_of(form.terms, terms, last) for terms, last in relax.limits)
    return min((last + form.const for last in found if last is not None), default=None)


def _last_of(sought: Mapping[Expr, int], terms: Mapping[Expr, int], last: int) -> int | None:
    """Return the largest value of a sum of loops that is a part of a limited sum, or a fraction of a part.

    `o * 4 + i` is 2 at most where `o * 64 + i * 16 + j < 36`: loops start at 0.
    """
    ratios = {divmod(terms.get(t, 0), c) for t, c in sought.items()}
    factor, rest = ratios.pop() if len(ratios) == 1 else (0, 0)
    return last // factor if factor > 0 and rest == 0 else None


def digits_interval(
    digits: Sequence[tuple[int, Digit]], needed: Mapping[int, SymbolicInterval | None]
) -> SymbolicInterval | None:
    """Find the values of a variable while each digit (by position) takes the needed values.

    Below a digit with several values, all values of lower digits count as needed, since a variable's values are one
    interval.
    """
    lo = constant(0)
    for position, digit in digits:
        found = needed[position]
        if found is None:
            return None
        lo = lo.add(found.lo, digit.step)
        if found.width > 0 or digit.step == 1:
            return SymbolicInterval(lo, (found.width + 1) * digit.step - 1, False, found.moved_by)
    return None
