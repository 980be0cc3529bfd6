"""Groups of calls: neighbouring vectors call a mathematical function in turns.

Most instructions of such a function wait for the one before them, for forty cycles and more in all. The next vector's
are independent, but a processor that finds them behind all of this one's has its scheduler full of waiting
instructions before it gets far. So four calls are one function whose instructions alternate. More need more registers
than there are.
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
    """Yield the chunks in groups, each when the calls in the expression have been made for it.

    `evaluate` finds their results.
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
    """Yield the calls that are made under all conditions, inner ones first."""
    expr = fused(expr)
    if isinstance(expr, Binary | Cast | Call) and not (isinstance(expr, Call) and is_machine_call(expr.name)):
        for part in children(expr):
            yield from _calls(part)
        if isinstance(expr, Call):
            yield expr
