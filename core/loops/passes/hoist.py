"""Pass: move each test out to the innermost loop whose variable it uses, and around what only tested statements read.

    T = alloc                                if i < 5:
    for k: T[0] = T[0] + x[i, k]       =>        T = alloc
    if i < 5: out[i] = T[0]                      for k: T[0] = T[0] + x[i, k]
                                                 out[i] = T[0]

So a last block does not compute tiles that no output has.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Set
from dataclasses import dataclass, replace
from typing import NamedTuple

from pegbox.expr.build import all_of, conjuncts
from pegbox.expr.equal import same
from pegbox.expr.low_level import PREFETCH
from pegbox.expr.nodes import Buffer, Call, Expr, Load
from pegbox.expr.visit import free_vars
from pegbox.expr.visit import walk as walk_expr
from pegbox.loops.access.region import read_below, written_below
from pegbox.loops.nodes import Alloc, Evaluate, For, Function, If, Seq, Stmt, Store, seq
from pegbox.loops.passes.unused_buffer import calls_machine_code
from pegbox.loops.visit import walk


def hoist_tests(func: Function) -> Function:
    """Move the conditions of every If out of the loops that do not change them; neighbours share one test."""
    if not any(isinstance(node, If) for node in walk(func.body)):
        return func
    return func.with_body(_float(func.body).settled())


class _Test(NamedTuple):
    """A condition; `guard` as in `If`."""

    condition: Expr
    guard: bool

    def is_among(self, tests: Iterable[_Test]) -> bool:
        return any(same(self.condition, each.condition) for each in tests)


@dataclass(frozen=True)
class _Floating:
    """A statement, with those of its tests that have not found their place yet."""

    stmt: Stmt
    tests: tuple[_Test, ...] = ()

    def settled(self) -> Stmt:
        """Put the tests around the statement, guards directly around it."""
        inner = _guarded(self.stmt, [each for each in self.tests if each.guard])
        return _guarded(inner, [each for each in self.tests if not each.guard])


def _guarded(stmt: Stmt, tests: list[_Test]) -> Stmt:
    return If(all_of([each.condition for each in tests]), stmt, tests[0].guard) if tests else stmt


def _float(stmt: Stmt, private: Set[Buffer] = frozenset()) -> _Floating:
    """Take the tests out of a statement; `private` are the buffers that are allocated directly around it."""
    match stmt:
        case If():
            inner = _float(stmt.then)
            own = tuple(_Test(each, stmt.guard) for each in conjuncts(stmt.condition))
            fixed, moving = _split(own, lambda c: any(isinstance(e, Load) for e in walk_expr(c)))
            if fixed:
                # The element that a test reads may be written in between: such a test stays where it is.
                return _Floating(_Floating(inner.settled(), fixed).settled(), moving)
            return _Floating(inner.stmt, _union(moving, inner.tests))
        case For():
            inner = _float(stmt.body)
            fixed, moving = _split(inner.tests, lambda c: stmt.var in free_vars(c))
            return _Floating(stmt.with_body(_Floating(inner.stmt, fixed).settled()), moving)
        case Alloc(buffer, body):
            inner = _float(body, private | {buffer})
            return _Floating(Alloc(buffer, inner.stmt), inner.tests)
        case Seq(stmts):
            return _sequence(_tested_as_readers([_float(s) for s in stmts], private))
        case Store() | Evaluate():
            return _Floating(stmt)
        case _:
            raise TypeError(f"unknown statement {type(stmt).__name__}")


def _tested_as_readers(parts: list[_Floating], private: Set[Buffer]) -> list[_Floating]:
    """Give each part that writes only private buffers the common tests of all parts that read these buffers."""
    if not private or not any(part.tests for part in parts):
        return parts
    parts, reads = list(parts), [read_below(part.stmt) for part in parts]
    for place in reversed(range(len(parts))):
        part = parts[place]
        made = _made(part.stmt)
        if made is None or not made <= private:
            continue
        others = (each for each in range(len(parts)) if each != place)
        readers = [parts[each] for each in others if not made.isdisjoint(reads[each])]
        shared = [t for t in (readers[0].tests if readers else ()) if all(t.is_among(each.tests) for each in readers)]
        more = tuple(_Test(each.condition, True) for each in shared if not each.is_among(part.tests))
        parts[place] = replace(part, tests=part.tests + more)
    return parts


def _made(stmt: Stmt) -> Set[Buffer] | None:
    """Find the outer buffers that a statement writes; None if it may have other effects."""
    nodes = list(walk(stmt))
    if any(_has_effects(node) for node in nodes):
        return None
    return written_below(stmt).keys() - {node.buffer for node in nodes if isinstance(node, Alloc)}


def _has_effects(stmt: Stmt) -> bool:
    """Check if a statement itself may do more than write its buffer."""
    if isinstance(stmt, Evaluate):
        return not (isinstance(stmt.expr, Call) and stmt.expr.name == PREFETCH)
    return isinstance(stmt, Store) and calls_machine_code(stmt)


def _sequence(parts: list[_Floating]) -> _Floating:
    """Put neighbours under the same conditions under one test; conditions that all share float on."""
    groups: list[_Floating] = []
    for part in parts:
        if groups and _equal(groups[-1].tests, part.tests):
            groups[-1] = _Floating(seq(groups[-1].stmt, part.stmt), _union(groups[-1].tests, part.tests))
        else:
            groups.append(part)
    if len(groups) == 1:
        return groups[0]
    return _Floating(seq(*(group.settled() for group in groups)))


def _split(tests: tuple[_Test, ...], stays: Callable[[Expr], bool]) -> tuple[tuple[_Test, ...], tuple[_Test, ...]]:
    """Split tests into those that stay and those that move on."""
    staying = [stays(each.condition) for each in tests]
    fixed = tuple(each for each, stay in zip(tests, staying, strict=True) if stay)
    return fixed, tuple(each for each, stay in zip(tests, staying, strict=True) if not stay)


def _union(a: tuple[_Test, ...], b: tuple[_Test, ...]) -> tuple[_Test, ...]:
    """Return the tests of both, each once; a test that is not a guard in one of them is not a guard."""
    tests = [_Test(each.condition, each.guard and not each.is_among(t for t in b if not t.guard)) for each in a]
    return (*tests, *(each for each in b if not each.is_among(a)))


def _equal(a: tuple[_Test, ...], b: tuple[_Test, ...]) -> bool:
    return len(a) == len(b) and all(each.is_among(b) for each in a)
