"""Simplification against brute force: the same value for every assignment within the ranges."""

from __future__ import annotations

import itertools

from hypothesis import given, settings
from hypothesis import strategies as st

from pegbox.expr import build
from pegbox.expr.affine import Linear, linear
from pegbox.expr.bounds import bounds
from pegbox.expr.evaluate import evaluate
from pegbox.expr.nodes import Binary, Buffer, Compare, Const, Expr, Load, Logic, Not, Select, Var
from pegbox.expr.simplify import simplify
from pegbox.expr.visit import walk

X, Y, Z = VARS = build.variables("x y z")


def value(expr: Expr, env: dict[Var, int]) -> int | bool:
    """An evaluator that shares no code with the simplifier."""
    match expr:
        case Const(v):
            return v
        case Var():
            return env[expr]
        case Binary(op, a, b):
            left, right = value(a, env), value(b, env)
            return {
                "add": lambda: left + right,
                "sub": lambda: left - right,
                "mul": lambda: left * right,
                "floordiv": lambda: left // right,
                "floormod": lambda: left % right,
                "min": lambda: min(left, right),
                "max": lambda: max(left, right),
            }[op]()
        case Compare(op, a, b):
            left, right = value(a, env), value(b, env)
            table = {"lt": left < right, "le": left <= right, "gt": left > right, "ge": left >= right}
            return {**table, "eq": left == right, "ne": left != right}[op]
        case Logic(op, a, b):
            return (value(a, env) and value(b, env)) if op == "and" else (value(a, env) or value(b, env))
        case Not(a):
            return not value(a, env)
        case Select(cond, a, b):
            return value(a, env) if value(cond, env) else value(b, env)
        case _:
            raise TypeError(type(expr))


constants = st.integers(-9, 9).map(build.index)
divisors = st.integers(1, 9).map(build.index)


def _grow(inner: st.SearchStrategy[Expr]) -> st.SearchStrategy[Expr]:
    return st.one_of(
        st.builds(build.add, inner, inner),
        st.builds(build.sub, inner, inner),
        st.builds(build.mul, inner, constants),
        st.builds(build.mul, inner, inner),
        st.builds(build.floordiv, inner, divisors),
        st.builds(build.floormod, inner, divisors),
        st.builds(build.minimum, inner, inner),
        st.builds(build.maximum, inner, inner),
    )


integers = st.recursive(st.one_of(constants, st.sampled_from(VARS)), _grow, max_leaves=8)
comparisons = st.builds(build.compare, st.sampled_from(["lt", "le", "gt", "ge", "eq", "ne"]), integers, integers)
conditions = st.recursive(
    comparisons,
    lambda c: st.one_of(
        st.builds(build.logical_and, c, c), st.builds(build.logical_or, c, c), st.builds(build.logical_not, c)
    ),
    max_leaves=3,
)
ranges = st.tuples(st.integers(-5, 5), st.integers(0, 6)).map(lambda t: (t[0], t[0] + t[1]))
scopes = st.tuples(ranges, ranges, ranges).map(lambda rs: dict(zip(VARS, rs, strict=True)))


def assignments(scope: dict[Var, tuple[int, int]]):
    spans = [range(lo, hi + 1) for lo, hi in scope.values()]
    return (dict(zip(scope, point, strict=True)) for point in itertools.product(*spans))


@settings(max_examples=150, deadline=None)
@given(integers, scopes)
def test_simplified_arithmetic_has_the_same_value(expr, scope):
    simple = simplify(expr, scope)
    for env in assignments(scope):
        assert value(simple, env) == value(expr, env), (str(expr), str(simple), env)


@settings(max_examples=150, deadline=None)
@given(conditions, scopes)
def test_simplified_conditions_have_the_same_truth(condition, scope):
    simple = simplify(condition, scope)
    for env in assignments(scope):
        assert bool(value(simple, env)) == bool(value(condition, env)), (str(condition), str(simple), env)


@settings(max_examples=150, deadline=None)
@given(integers, scopes)
def test_bounds_hold_every_value(expr, scope):
    between = bounds(expr, scope)
    assert between is not None
    for env in assignments(scope):
        assert between[0] <= value(expr, env) <= between[1]


@settings(max_examples=100, deadline=None)
@given(integers)
def test_linear_form_means_the_same(expr):
    scope = dict.fromkeys(VARS, (-3, 3))
    back = linear(expr).to_expr()
    assert all(value(back, env) == value(expr, env) for env in assignments(scope))


LOWEST, HIGHEST = -(2**63), 2**63 - 1
EDGES = [LOWEST, LOWEST + 1, HIGHEST, HIGHEST - 1, 2**62, -(2**62), 2**32, 6364136223846793005, -1, 0, 1, 3]
wide = st.one_of(st.sampled_from(EDGES), st.integers(LOWEST, HIGHEST)).map(build.index)


def _grow_wide(inner: st.SearchStrategy[Expr]) -> st.SearchStrategy[Expr]:
    parts = st.one_of(inner, wide)
    return st.one_of(
        st.builds(build.add, parts, parts),
        st.builds(build.sub, parts, parts),
        st.builds(build.mul, parts, parts),
        st.builds(build.quotient, parts, parts),
        st.builds(build.remainder, parts, parts),
        st.builds(build.minimum, parts, parts),
        st.builds(build.maximum, parts, parts),
        st.builds(
            build.select, st.builds(build.compare, st.sampled_from(["lt", "ge", "eq"]), parts, parts), parts, parts
        ),
    )


wrapping = st.recursive(st.sampled_from(VARS), _grow_wide, max_leaves=6)


@settings(max_examples=300, deadline=None)
@given(wrapping, scopes)
def test_what_wraps_around_keeps_its_value(expr, scope):
    simple, back, between = simplify(expr, scope), linear(expr).to_expr(), bounds(expr, scope)
    for env in itertools.islice(assignments(scope), 12):
        wanted = evaluate(expr, env)
        assert evaluate(simple, env) == wanted, (str(expr), str(simple), env)
        assert evaluate(back, env) == wanted, (str(expr), str(back), env)
        assert between is None or between[0] <= wanted <= between[1], (str(expr), between, env)
    assert all(LOWEST <= c.integer <= HIGHEST for c in walk(simple) if isinstance(c, Const) and c.dtype == "int64")


@settings(max_examples=300, deadline=None)
@given(st.builds(build.compare, st.sampled_from(["lt", "le", "gt", "ge", "eq", "ne"]), wrapping, wrapping), scopes)
def test_comparisons_of_what_wraps_around_keep_their_truth(condition, scope):
    simple = simplify(condition, scope)
    for env in itertools.islice(assignments(scope), 12):
        assert evaluate(simple, env) == evaluate(condition, env), (str(condition), str(simple), env)


@settings(max_examples=100, deadline=None)
@given(integers, integers, divisors)
def test_what_divides_the_same_sum_cancels_in_whatever_order_it_was_added(a, b, divisor):
    for divide in (build.floordiv, build.floormod):
        one, other = divide(build.add(a, b), divisor), divide(build.add(b, a), divisor)
        assert linear(one).minus(linear(other)) == Linear({}, 0)


repeated = st.builds(
    lambda a, b, d, other: build.floordiv(
        build.add(build.floordiv(build.add(a, b), d), build.floordiv(build.add(b, a), d)), other
    ),
    st.sampled_from(VARS),
    st.sampled_from(VARS),
    divisors,
    divisors,
)
"""Quotients of a sum of two quotients that mean the same, in another order."""


def test_terms_that_mean_the_same_count_each():
    half = build.floordiv(build.add(X, Y), build.index(4))
    twice = build.add(half, build.floordiv(build.add(Y, X), build.index(4)))
    one, both = (build.floordiv(a, build.index(3)) for a in (half, twice))
    assert not linear(both).minus(linear(one)).is_const


@settings(max_examples=100, deadline=None)
@given(integers | repeated, integers | repeated, scopes)
def test_a_difference_is_one_of_values(a, b, scope):
    rest = linear(a).minus(linear(b)).to_expr()
    for env in itertools.islice(assignments(scope), 8):
        assert value(rest, env) == value(a, env) - value(b, env)


def test_what_may_wrap_around_is_left_alone():
    scope = {X: (0, 7)}
    assert str(simplify(X + HIGHEST > X, scope)) == f"x + {HIGHEST} > x"
    assert str(simplify((X * 2**62) // 2**62, scope)) == f"x * {2**62} // {2**62}"
    assert str(simplify((X * 2**59) // 2**59, scope)) == "x"
    assert str(simplify(X * 2**62 * 4, scope)) == "0"
    assert str(simplify((X + LOWEST) - 1, scope)) == f"x + {HIGHEST}"
    assert str(simplify((X * 4) // 4, {})) == "x * 4 // 4"
    assert bounds(X * 2**62, scope) is None
    assert bounds(X * 2**60, scope) == (0, 7 * 2**60)


def test_packed_indices_fall_apart():
    scope = {X: (0, 31), Y: (0, 7)}
    assert str(simplify((Y * 32 + X) // 32, scope)) == "y"
    assert str(simplify((Y * 32 + X) % 32, scope)) == "x"


def test_division_stays_where_the_ranges_do_not_help():
    assert str(simplify((Y * 32 + X) // 32, {X: (0, 32), Y: (0, 7)})) == "y + x // 32"


def test_common_factors_of_a_division_cancel():
    assert str(simplify((X * 4) // 8, {X: (0, 2**60)})) == "x // 2"
    assert str(simplify((X * 4 + 1) % 8, {X: (0, 2**60)})) == "x % 2 * 4 + 1"


@settings(max_examples=60, deadline=None)
@given(st.integers(2, 6), st.integers(2, 5), st.integers(1, 7), st.integers(-9, 9), st.integers(-20, 20))
def test_a_division_drops_what_is_below_a_common_factor(g, d, count, shift, first):
    """(x * 3 + y) // 6 is x // 2 and (x * 3 + y) % 6 is x % 2 * 3 + y, where 0 <= y < 3."""
    inside = count <= g
    scope = {X: (first, first + 12), Y: (0, count - 1)}
    sums = X * g + (Y + shift * g)
    quotient, rest = simplify(sums // (g * d), scope), simplify(sums % (g * d), scope)
    for x, y in itertools.product(range(first, first + 13), range(count)):
        env = {X: x, Y: y}
        assert (value(quotient, env), value(rest, env)) == divmod(x * g + y + shift * g, g * d)
    assert not inside or quotient == simplify((X + shift) // d, scope)
    assert not inside or rest == simplify((X + shift) % d * g + Y, scope)


def test_nested_divisions_merge():
    assert str(simplify((X // 2) // 3, {})) == "x // 6"
    assert str(simplify((X % 12) % 4, {})) == "x % 4"


def test_a_variable_with_one_value_is_a_constant():
    assert str(simplify(X * 3 + Y, {X: (2, 2)})) == "y + 6"
    assert str(simplify(X, {X: (2, 2)})) == "2"


def test_ranges_decide_comparisons():
    assert str(simplify(X * 8 + Y < 64, {X: (0, 7), Y: (0, 7)})) == "True"
    assert str(simplify(X * 8 + Y < 63, {X: (0, 7), Y: (0, 7)})) == "x * 8 + y < 63"


def test_numbers_from_memory_may_be_the_lowest_of_their_type():
    """`a > b` is not `a - b > 0` where the difference wraps around."""
    a, b = (Load(Buffer(name, (8,), "int64"), (X,)) for name in "ab")
    assert str(simplify(a > b, {X: (0, 7)})) == "a[x] > b[x]"
    assert str(simplify(a + 1 > a, {X: (0, 7)})) == "a[x] + 1 > a[x]"
    assert str(simplify(build.maximum(a + 1, a), {X: (0, 7)})) == "max(a[x] + 1, a[x])"
    assert str(simplify((a * 4 + 3) // 4, {X: (0, 7)})) == "(a[x] * 4 + 3) // 4"
    assert str(simplify((a // 4) // 2, {X: (0, 7)})) == "a[x] // 8"


def test_constants_that_wrap_around_on_the_way_are_those_that_int64_has() -> None:
    """x + 1 + 2^63 is x + 1 - 2^63: it is negative, and simplifying once more finds nothing else."""
    beyond = X - build.index(-1) - build.index(-(2**63))
    assert str(simplify(build.maximum(beyond, 12), {X: (0, 16)})) == "12"
    assert str(simplify(beyond < 0, {X: (0, 16)})) == "True"
    assert str(simplify(beyond, {X: (0, 16)})) == "x - 9223372036854775807"


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.integers(2, 4), st.booleans()), min_size=1, max_size=3),
    st.integers(1, 4),
    st.sampled_from(["x", "x + y"]),
    st.randoms(use_true_random=False),
)
def test_digits_of_a_number_join_again_without_the_lowest_ones(radices, lowest, number, order):
    """x // 8 * 4 + x % 8 // 2 is x // 2, whichever way the digits are taken: x % 8 // 2 or x // 2 % 4."""
    whole, unit = {"x": X, "x + y": build.add(X, Y)}[number], lowest
    parts: list[Expr] = []
    for radix, remainder_first in radices:
        digit = whole % (unit * radix) // unit if remainder_first else whole // unit % radix
        parts.append(build.mul(digit, unit // lowest))
        unit *= radix
    parts.append(build.mul(whole // unit, unit // lowest))
    order.shuffle(parts)
    scope = {X: (0, 200), Y: (-3, 100)}
    assert simplify(sum(parts[1:], parts[0]), scope) == simplify(whole // lowest, scope)
