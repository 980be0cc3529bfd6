"""Asking a program instead of reading it: what does it allocate, which loops stand around a statement?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pegbox.errors import LoweringError
from pegbox.loops.nodes import Alloc, BlockRealize, Evaluate, For, Function, Stmt, Store
from pegbox.loops.regions import read, written
from pegbox.loops.visit import children, realizes, walk

Loop = tuple[str, int, str]


def allocations(func: Function) -> dict[str, tuple[tuple[int, ...], str, str]]:
    """The intermediate buffers of a scheduled or lowered program: {name: (shape, dtype, scope)}."""
    found: dict[str, tuple[tuple[int, ...], str, str]] = {}
    for buffer in (*func.allocs, *(s.buffer for s in walk(func.body) if isinstance(s, Alloc))):
        name, count = buffer.name, 0
        while name in found and found[name] != (buffer.shape, buffer.dtype, buffer.scope):
            # A tail has allocations of its own; those that are the same are told once.
            count += 1
            name = f"{buffer.name}_{count}"
        found[name] = (buffer.shape, buffer.dtype, buffer.scope)
    return found


def origins_of(func: Function) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Each block of a scheduled program, with the names of the buffers that it writes."""
    return tuple(
        (r.block.name, tuple(dict.fromkeys(w.buffer.name for w in r.block.writes))) for r in realizes(func.body)
    )


def loops_around(func: Function, name: str) -> list[Loop]:
    """See `Function.loops`."""
    for path in _paths(func.body, ()):
        last = path[-1]
        if isinstance(last, BlockRealize) and last.block.name == name:
            return _loops(path)
    known = dict(func.origins)
    buffers = known.get(name, (name,))
    stores = [p for p in _paths(func.body, ()) if _writes(p[-1], buffers)]
    if not stores:
        names = dict.fromkeys([*known, *(r.block.name for r in realizes(func.body))])
        raise LoweringError(f"{func.name}: no block or buffer is called {name!r}; there are {', '.join(names)}")
    starts = name.endswith("_init") and name in known
    # Of a reduction, its update counts, unless its init is asked for.
    fitting = [p for p in stores if _updates(p[-1]) is not starts] or stores
    return _loops(fitting[0])


def _writes(stmt: Stmt, names: Sequence[str]) -> bool:
    return not isinstance(stmt, BlockRealize) and any(region.buffer.name in names for region in written(stmt))


def _updates(stmt: Stmt) -> bool:
    own = {region.buffer for region in written(stmt)}
    return any(region.buffer in own for region in read(stmt))


def _paths(stmt: Stmt, above: tuple[Stmt, ...]) -> Iterator[tuple[Stmt, ...]]:
    here = (*above, stmt)
    if isinstance(stmt, Store | Evaluate | BlockRealize):
        yield here
    for child in children(stmt):
        yield from _paths(child, here)


def _loops(path: tuple[Stmt, ...]) -> list[Loop]:
    return [(s.var.name, s.extent, str(s.kind)) for s in path if isinstance(s, For)]
