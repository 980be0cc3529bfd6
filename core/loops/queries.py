"""Queries on a program: its allocations, and the loops around a statement."""

from __future__ import annotations

from collections.abc import Sequence

from pegbox.checks import check_flag, check_text
from pegbox.errors import LoweringError
from pegbox.expr.printer import unused_name
from pegbox.loops.access.region import read_below, written_below
from pegbox.loops.nodes import Alloc, BlockRealize, For, Function, Stmt
from pegbox.loops.visit import paths, walk

Loop = tuple[str, int, str]


def allocations(func: Function) -> dict[str, tuple[tuple[int, ...], str, str]]:
    """List the intermediate buffers of a scheduled or lowered program: {name: (shape, dtype, scope)}."""
    found: dict[str, tuple[tuple[int, ...], str, str]] = {}
    for buffer in (*func.allocs, *(s.buffer for s in walk(func.body) if isinstance(s, Alloc))):
        kind = buffer.shape, buffer.dtype, buffer.scope
        # A tail has allocations of its own; equal ones are listed once.
        found[unused_name(buffer.name, {name for name, other in found.items() if other != kind})] = kind
    return found


def loops_around(func: Function, name: str, *, init: bool = False) -> list[Loop]:
    """See `Function.loops`."""
    check_text("loops: name", name, error=LoweringError)
    init = check_flag("loops: init", init, error=LoweringError)
    origins = dict(func.origins)
    blocks = {p[-1].block.name: p for p in paths(func.body) if isinstance(p[-1], BlockRealize)}
    base = name.removesuffix("_init")
    if name not in origins and name not in blocks and (base in origins or base in blocks):
        name, init = base, init or base != name
    if name in blocks:
        return _loops(blocks[name]) if not init else _refuse_init(func, name, "before lowering, its init has no loops")
    buffers = origins.get(name, (name,))
    plain = (p for p in paths(func.body) if not isinstance(p[-1], BlockRealize))
    stores = [p for p in plain if any(buffer.name in buffers for buffer in written_below(p[-1]))]
    if not stores:
        raise _unknown(func, name, [*origins, *blocks])
    # A reduction is its update, unless its init is asked for; a block NAME_init has nothing else.
    updates = [p for p in stores if written_below(p[-1]).keys() & read_below(p[-1]).keys()]
    starts = [p for p in stores if not any(p is update for update in updates)]
    if init and not (starts and updates):
        _refuse_init(func, name, "it is not a reduction")
    own_init = init or (name.endswith("_init") and name in origins)
    return _loops((starts if own_init else updates or stores)[0])


def _refuse_init(func: Function, name: str, why: str) -> list[Loop]:
    raise LoweringError(f"{func.name}: {name} has no init to show: {why}; ask without init")


def _unknown(func: Function, name: str, names: Sequence[str]) -> LoweringError:
    there = ", ".join(dict.fromkeys(names))
    if any(buffer.name == name for buffer in func.params):
        return LoweringError(f"{func.name}: {name} is an input, no statement writes it; there are {there}")
    return LoweringError(
        f"{func.name}: no block or buffer is called {name!r} (a stage that was inlined has no loops of its own); "
        f"there are {there}"
    )


def _loops(path: tuple[Stmt, ...]) -> list[Loop]:
    return [(s.var.name, s.extent, str(s.kind)) for s in path if isinstance(s, For)]
