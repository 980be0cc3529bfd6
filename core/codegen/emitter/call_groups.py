"""Groups of calls: neighbouring vectors take turns in calling a mathematical function.

Most instructions of such a function wait for the previous one, for forty cycles or more in all. Those for the next
vector are independent, but if they follow all instructions for this one, the processor's scheduler fills up with
waiting instructions before it reaches many of them. So four calls become one function whose instructions alternate.
More calls would need more registers than there are.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from pegbox.codegen.emitter import calls
from pegbox.codegen.emitter.expressions import evaluate
from pegbox.codegen.emitter.frame import Frame
from pegbox.codegen.emitter.gates import fused
from pegbox.codegen.emitter.lanes import Chunk
from pegbox.expr.low_level import is_machine_call
from pegbox.expr.nodes import Binary, Call, Cast, Expr
from pegbox.expr.visit import children

_MOST = 4


def call_groups(frame: Frame, expr: Expr, chunks: Sequence[Chunk]) -> Iterator[Sequence[Chunk]]:
    """Yield the chunks in groups, each after the expression's calls have been emitted for it.

    `evaluate` finds the results of these calls.
    """
    wanted = list(_calls(expr))
    for _, same in groupby(chunks, key=lambda chunk: chunk.width):
        rest = list(same)
        while rest:
            group, rest = rest[:_MOST], rest[_MOST:]
            for call in wanted if len(group) > 1 else ():
                calls.math_calls(
                    frame, call.name, [[evaluate(frame, arg, chunk) for arg in call.args] for chunk in group]
                )
            yield group


def _calls(expr: Expr) -> Iterator[Call]:
    """Yield the calls that are made unconditionally, inner ones first."""
    expr = fused(expr)
    if isinstance(expr, Binary | Cast | Call) and not (isinstance(expr, Call) and is_machine_call(expr.name)):
        for part in children(expr):
            yield from _calls(part)
        if isinstance(expr, Call):
            yield expr
