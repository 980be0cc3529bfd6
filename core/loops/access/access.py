"""Reads and writes of buffers by a statement and everything below it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from pegbox.expr.nodes import Buffer, Expr, Var
from pegbox.expr.visit import substitute
from pegbox.loops.access.region import read, written
from pegbox.loops.nodes import Alloc, BlockRealize, Evaluate, For, If, Region, Stmt, Store
from pegbox.loops.visit import children


class Access(NamedTuple):
    """A read or write of a box of a buffer; `path` leads down to the accessing statement, which comes last."""

    region: Region
    stores: bool
    path: tuple[Stmt, ...]

    @property
    def buffer(self) -> Buffer:
        return self.region.buffer

    @property
    def loops(self) -> set[Var]:
        """The surrounding loops within the path."""
        return {s.var for s in self.path if isinstance(s, For)}

    @property
    def tests(self) -> list[If]:
        """The surrounding tests within the path."""
        return [s for s in self.path if isinstance(s, If)]


def accesses(stmt: Stmt) -> list[Access]:
    """List every access below, in the order of the program, except those to buffers that are allocated there.

    A statement reads before it writes. Variables of blocks below are replaced by their bindings.
    """
    found: list[Access] = []
    _collect(stmt, (), {}, found)
    return found


def _collect(stmt: Stmt, above: tuple[Stmt, ...], values: Mapping[Var, Expr], found: list[Access]) -> None:
    path, first = (*above, stmt), len(found)
    if isinstance(stmt, BlockRealize):
        values = {**values, **{var: substitute(value, values) for var, value in stmt.bindings.items()}}
    elif isinstance(stmt, Store | Evaluate | If):
        found += [Access(_substituted(region, values), False, path) for region in read(stmt)]
        found += [Access(_substituted(region, values), True, path) for region in written(stmt)]
    for child in children(stmt):
        _collect(child, path, values, found)
    if isinstance(stmt, Alloc):
        found[first:] = [access for access in found[first:] if access.buffer is not stmt.buffer]


def _substituted(region: Region, values: Mapping[Var, Expr]) -> Region:
    if not values:
        return region
    return Region(region.buffer, tuple((substitute(lo, values), count) for lo, count in region.box))
