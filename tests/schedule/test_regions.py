"""Index intervals and distinct iterations, against brute force."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pegbox.expr import build
from pegbox.expr.build import index
from pegbox.expr.injectivity import determined
from pegbox.expr.nodes import Binary, Compare, Const, Expr, Var
from pegbox.expr.simplify import simplify
from pegbox.expr.visit import free_vars
from pegbox.loops.access.interval import Relaxation, caps_of, interval, relaxation
from pegbox.schedule.analysis.required_region import span

A, B, C = Var("a"), Var("b"), Var("c")
LOOPS = (A, B, C)


def _value(expr: Expr, env: dict[Var, int]) -> int:
    match expr:
        case Const(value):
            return int(value)
        case Var():
            return env[expr]
        case Binary(op, a, b):
            x, y = _value(a, env), _value(b, env)
            return {"add": x + y, "sub": x - y, "mul": x * y, "floordiv": x // (y or 1), "floormod": x % (y or 1),
                    "min": min(x, y), "max": max(x, y)}[op]  # fmt: skip
        case Compare("lt", a, b):
            return _value(a, env) < _value(b, env)
        case _:
            raise TypeError(expr)


sums = st.builds(
    lambda ks, c: sum((v * k for v, k in zip(LOOPS, ks, strict=True)), index(c)),
    st.tuples(*[st.sampled_from([0, 1, 1, 2, 3, 4, 6, 8, 12, -1, -4])] * 3),
    st.integers(-3, 3),
)
exprs = st.one_of(
    sums,
    st.builds(lambda e, d: e // d, sums, st.integers(2, 8)),
    st.builds(lambda e, d: e % d, sums, st.integers(2, 8)),
    st.builds(lambda e, c: build.maximum(e, index(c)), sums, st.integers(-3, 9)),
    st.builds(lambda e, c: build.minimum(e, index(c)), sums, st.integers(-3, 9)),
    st.builds(lambda e, f, c, k: build.minimum(e, index(c)) + f * k, sums, sums, st.integers(0, 9), st.integers(1, 3)),
    st.builds(lambda e, f, d, k: e // d + f * k, sums, sums, st.integers(2, 8), st.integers(1, 3)),
)
extents = st.tuples(*[st.integers(1, 5)] * 3)


@settings(max_examples=200, deadline=None)
@given(expr=exprs, sizes=extents, running=st.sets(st.sampled_from(LOOPS), min_size=1), cap=st.integers(1, 12))
def test_an_interval_holds_all_values_and_an_exact_one_nothing_else(
    expr: Expr, sizes: Any, running: set[Var], cap: int
) -> None:
    ranges = {v: (0, n - 1) for v, n in zip(LOOPS, sizes, strict=True)}
    guard = build.compare("lt", A * 3 + B, cap)
    found = interval(expr, Relaxation(running, ranges, caps_of(guard, running, ranges)))
    assert found is not None
    assert not free_vars(found.lo.to_expr()) & running
    still = [v for v in LOOPS if v not in running]
    for outer in product(*(range(ranges[v][1] + 1) for v in still)):
        env = dict(zip(still, outer, strict=True))
        values = set()
        for inner in product(*(range(ranges[v][1] + 1) for v in running)):
            full = {**env, **dict(zip(running, inner, strict=True))}
            if not found.capped or _value(guard, full):
                values.add(_value(expr, full))
        lo = _value(found.lo.to_expr(), env)
        box = set(range(lo, lo + found.width + 1))
        assert values <= box
        if found.exact:
            assert values == box


sum_of_two = st.integers(-3, 9).map(lambda c: A * 3 + B + c)
quotients = st.builds(lambda a, d, f, k: a // d + f * k, sum_of_two, st.integers(2, 8), sums, st.integers(0, 2))
rests = st.builds(lambda a, d, f, k: a % d + f * k, sum_of_two, st.integers(2, 14), sums, st.integers(0, 2))


@settings(max_examples=400, deadline=None)
@given(
    expr=st.one_of(exprs, quotients, rests),
    divisor=st.integers(1, 8),
    sizes=extents,
    running=st.sets(st.sampled_from(LOOPS), min_size=1),
    limited=st.sampled_from([A * 3 + B, A * 6 + B * 2 + C]),
    cap=st.integers(1, 24),
)
def test_an_interval_where_a_test_holds_has_all_values_and_no_more_than_without(
    expr: Expr, divisor: int, sizes: Any, running: set[Var], limited: Expr, cap: int
) -> None:
    ranges = {v: (0, n - 1) for v, n in zip(LOOPS, sizes, strict=True)}
    guard = build.compare("lt", limited, cap)
    tested, plain = interval(expr, relaxation(running, ranges, guard)), interval(expr, Relaxation(running, ranges))
    quotient = interval(expr // divisor, relaxation(running, ranges, guard))
    assert tested is not None
    assert plain is not None
    assert quotient is not None
    assert tested.width <= plain.width
    for point in product(*(range(n) for n in sizes)):
        env = dict(zip(LOOPS, point, strict=True))
        if _value(guard, env):
            for found, value in ((tested, _value(expr, env)), (quotient, _value(expr, env) // divisor)):
                lo = _value(found.lo.to_expr(), env)
                assert lo <= value <= lo + found.width


def test_a_guard_on_loops_that_stand_still_bounds_a_quotient() -> None:
    """The second tile of seven rows ends at the tenth row, because later ones belong to another head."""
    ranges = {A: (0, 1), B: (0, 6)}
    rows = A * 7 + B
    found = interval(rows // 10, relaxation({B}, ranges, build.compare("lt", rows, 10)))
    assert found is not None
    assert (found.lo.const, found.width) == (0, 0)


def test_a_guard_on_parts_of_vectors_bounds_quotients_and_rests_of_whole_ones() -> None:
    """The second tile of four vectors has three of a group: 112 elements, counted or in vectors of 16."""
    ranges = {A: (0, 1), B: (0, 3), C: (0, 15)}
    vectors, elements = A * 4 + B, A * 64 + B * 16 + C
    guard = build.compare("lt", elements, 112)
    relax = relaxation({B, C}, ranges, guard)
    found = [interval(expr, relax) for expr in (vectors // 7, vectors % 7, elements // 112, elements % 112 // 16)]
    assert [(str(f.lo.to_expr()), f.width) for f in found if f] == [("0", 0), ("a * 4", 3), ("0", 0), ("a * 4", 3)]
    whole = [interval(expr, relaxation({C}, ranges, guard)) for expr in (vectors // 7, vectors % 7)]
    assert [(str(f.lo.to_expr()), f.width) for f in whole if f] == [("0", 0), ("a * 4 + b", 0)]


@settings(max_examples=150, deadline=None)
@given(expr=exprs, sizes=extents, running=st.sets(st.sampled_from(LOOPS), min_size=1), extent=st.integers(1, 20))
def test_a_span_covers_the_part_of_the_domain_that_is_needed(
    expr: Expr, sizes: Any, running: set[Var], extent: int
) -> None:
    ranges = {v: (0, n - 1) for v, n in zip(LOOPS, sizes, strict=True)}
    found = interval(expr, Relaxation(running, ranges))
    assert found is not None
    still = [v for v in LOOPS if v not in running]
    for part in (span(found, extent, ranges), span(found, extent, ranges, most=True)):
        for outer in product(*(range(ranges[v][1] + 1) for v in still)):
            env = dict(zip(still, outer, strict=True))
            lo = _value(found.lo.to_expr(), env)
            needed = set(range(lo, lo + found.width + 1)) & set(range(extent))
            first = _value(part.lo.to_expr(), env)
            ran = set(range(first, first + part.extent))
            if not part.guard_low:
                assert min(ran) >= 0
            if not part.guard_high:
                assert max(ran) < extent
            assert needed <= ran


@settings(max_examples=200, deadline=None)
@given(values=st.lists(exprs, min_size=1, max_size=3), sizes=extents, fixed=st.sets(st.sampled_from(LOOPS)))
def test_a_determined_loop_never_visits_a_point_twice(values: list[Expr], sizes: Any, fixed: set[Var]) -> None:
    ranges = {v: (0, n - 1) for v, n in zip(LOOPS, sizes, strict=True)}
    for var in determined(values, fixed, ranges):
        seen: dict[Any, int] = {}
        for point in product(*(range(n) for n in sizes)):
            env = dict(zip(LOOPS, point, strict=True))
            key = (tuple(env[v] for v in LOOPS if v in fixed), tuple(_value(e, env) for e in values))
            assert seen.setdefault(key, env[var]) == env[var]


@given(
    st.lists(exprs, min_size=1, max_size=2),
    st.tuples(*[st.integers(1, 4)] * 3),
    st.tuples(*[st.integers(0, 3)] * 3).filter(any),
    st.integers(1, 9),
)
def test_among_iterations_that_count_a_determined_loop_never_visits_a_point_twice(
    values: list[Expr], sizes: Any, factors: Any, limit: int
) -> None:
    """An iteration counts where a sum of loops is below a limit: the predicate of a tail."""
    ranges = {v: (0, n - 1) for v, n in zip(LOOPS, sizes, strict=True)}
    total = A * factors[0] + B * factors[1] + C * factors[2]
    for var in determined(values, set(), ranges, caps_of(total < limit, set(LOOPS), ranges)):
        seen: dict[Any, int] = {}
        for point in product(*(range(n) for n in sizes)):
            env = dict(zip(LOOPS, point, strict=True))
            if _value(total, env) < limit:
                key = tuple(_value(e, env) for e in values)
                assert seen.setdefault(key, env[var]) == env[var]


def test_tails_that_would_overlap_are_told_apart_by_their_predicate() -> None:
    ranges = {A: (0, 3), B: (0, 3), C: (0, 1)}
    tiles = A * 6 + B * 2 + C
    assert determined([tiles], set(), ranges) == set()
    assert determined([tiles], set(), ranges, caps_of(B * 2 + C < 6, set(LOOPS), ranges)) == {A, B, C}
    assert determined([tiles], set(), ranges, caps_of(B * 2 + C < 8, set(LOOPS), ranges)) == set()


@pytest.mark.parametrize(("tiles", "mr", "queries"), [(1, 4, 5), (2, 5, 5), (5, 2, 8), (3, 6, 8), (1, 7, 3), (4, 4, 5)])
def test_quotients_of_a_tail_are_told_apart_by_its_predicate(tiles: int, mr: int, queries: int) -> None:
    """Three heads share rows of queries, in blocks of tiles that do not divide them; one row more is another head."""
    head, rows = Var("head"), 3 * queries
    ranges = {head: (0, 3), A: (0, -(-rows // (tiles * mr)) - 1), B: (0, tiles - 1), C: (0, mr - 1)}
    row = A * (tiles * mr) + B * mr + C
    values = [simplify(value, ranges) for value in (head * 3 + row // queries, row % queries)]
    for more, is_known in (0, True), (1, False):
        caps = caps_of(row < rows + more, set(ranges), ranges)
        assert (head in determined(values, set(), ranges, caps)) == is_known


def test_digits_of_fused_and_split_loops_are_read_back() -> None:
    ranges = {A: (0, 9), B: (0, 3)}
    fused = A * 4 + B
    assert determined([fused // 35, fused // 7 % 5, fused % 7], set(), ranges) == {A, B}
    assert determined([fused // 7], set(), ranges) == set()
    assert determined([A * 2 + B], set(), ranges) == set()
    assert determined([A * 2 + B], {A}, ranges) == {B}
