"""`LegalityTable`: the blocks of a module's functions that may be reordered and moved."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Mapping, Set
from typing import Any

from pegbox.loops.access.recurrence import is_update
from pegbox.loops.nodes import Function
from pegbox.schedule.analysis.legality import UNRESTRICTED, Legality, legality
from pegbox.schedule.state.handles import BlockRef, LoopRef
from pegbox.schedule.tree import Tree, blocks_below


class LegalityTable:
    """The legality of each function, computed once, for the program that the schedule began with."""

    def __init__(self, origins: Mapping[str, Function]) -> None:
        self._origins = origins
        self._known: dict[str, Legality] = {}
        self._rows: dict[str, bool] = {}

    def copy(self) -> LegalityTable:
        """Return an independent copy."""
        other = copy.copy(self)
        other._known, other._rows = dict(self._known), dict(self._rows)
        return other

    def lift(self) -> None:
        """Declare that the functions come from a computation: all of their blocks may be reordered and moved."""
        self._known = dict.fromkeys(self._origins, UNRESTRICTED)

    def rows(self, name: str) -> bool:
        """Check if a block reads values that it or a later block writes, which each step has to preserve."""
        if name not in self._rows:
            self._rows[name] = name in self._origins and not all(map(is_update, Tree(self._origins[name]).carried))
        return self._rows[name]

    def _of(self, name: str) -> Legality:
        if name not in self._known:
            self._known[name] = legality(Tree(self._origins[name]))
        return self._known[name]

    def check(self, name: str, tree: Tree, arguments: Iterable[Any], *, moves: bool) -> None:
        """Check that no block among the arguments, or below a loop among them, must keep its order or place."""
        known = self._of(name)
        if known is not UNRESTRICTED:
            for block, whole in _blocks(tree, arguments):
                known.check(tree, block, moves=moves and whole)

    def check_around(self, name: str, tree: Tree, block: str) -> None:
        """Check that a block whose inside is to be changed need not keep its order."""
        self._of(name).check(tree, block, moves=False)

    def immovable(self, name: str, tree: Tree, arguments: Iterable[Any]) -> str | None:
        """Return the reason that a block among the arguments, or below a loop among them, must keep its place."""
        reasons = self._of(name).immovable
        return next((reasons[b] for b, _ in _blocks(tree, arguments) if b in reasons), None) if reasons else None

    def mark_immovable(self, name: str, blocks: Set[str], reason: str) -> None:
        """Mark blocks that a step derived from an immovable block as immovable."""
        self._known[name] = self._of(name).with_immovable(dict.fromkeys(blocks, reason))


def _blocks(tree: Tree, arguments: Iterable[Any]) -> Iterator[tuple[str, bool]]:
    """Yield the blocks that are arguments (True) and those below loops that are arguments (False)."""
    for value in arguments:
        if isinstance(value, BlockRef | str) and (name := getattr(value, "name", value)) in tree.blocks:
            yield name, True
        elif isinstance(value, LoopRef) and value.var in tree.loops:
            yield from ((realize.block.name, False) for realize in blocks_below(tree.loops[value.var]))
        elif isinstance(value, tuple | list):
            yield from _blocks(tree, value)
