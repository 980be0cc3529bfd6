"""The loop IR: nodes of programs, modules, and how values are written in scripts.

Names are imported when they are first used, because processes that compile candidates need few.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pegbox.exports import on_demand

if TYPE_CHECKING:
    from pegbox.loops.equal import structural_equal
    from pegbox.loops.module import IRModule
    from pegbox.loops.nodes import (
        Alloc,
        Block,
        BlockIter,
        BlockRealize,
        Evaluate,
        For,
        ForKind,
        Function,
        If,
        IterKind,
        Region,
        Seq,
        Stmt,
        Store,
    )
    from pegbox.loops.script.style import literal
    from pegbox.loops.visit import walk

__all__ = [
    "Alloc", "Block", "BlockIter", "BlockRealize", "Evaluate", "For", "ForKind", "Function", "IRModule", "If",
    "IterKind", "Region", "Seq", "Stmt", "Store", "literal", "structural_equal", "walk",
]  # fmt: skip

__getattr__ = on_demand(__name__)


def __dir__() -> list[str]:
    return __all__
