"""The visits of a program: which block computes which element, in the order in which the loops run."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pegbox.expr.evaluate import evaluate
from pegbox.loops.nodes import Block, BlockRealize, For, Function, Seq, Stmt


@dataclass(frozen=True)
class Visit:
    """One run of a block, at values of its variables; `real` is False where a split that does not divide skips it."""

    block: Block
    at: tuple[int, ...]
    real: bool = True

    def reads(self) -> list[tuple[str, tuple[int, ...]]]:
        """The buffers that it reads, by name, each with the lowest index."""
        values = {it.var: value for it, value in zip(self.block.iters, self.at, strict=True)}
        return [(r.buffer.name, tuple(int(evaluate(low, values)) for low, _ in r.box)) for r in self.block.reads]


def visits(program: Function) -> list[Visit]:
    """All runs of blocks of a scheduled program (`tir.Schedule.func`) of serial loops."""
    return list(_walk(program.body, {}))


def _walk(stmt: Stmt, values: dict[Any, int]) -> Iterator[Visit]:
    match stmt:
        case For(var, extent, body):
            for value in range(extent):
                yield from _walk(body, {**values, var: value})
        case Seq(stmts):
            for each in stmts:
                yield from _walk(each, values)
        case BlockRealize(bound, block, predicate):
            at = tuple(int(evaluate(value, values)) for value in bound)
            yield Visit(block, at, bool(evaluate(predicate, values)))
        case _:
            raise TypeError(f"no picture shows a {type(stmt).__name__}")
