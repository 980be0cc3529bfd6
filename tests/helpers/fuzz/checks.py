"""The checks of a scheduled program: it computes NumPy's values, reads back, and can be made again."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

from lowered_interpreter import POISON_INT, run_on
from numpy.typing import NDArray

from fuzz import values
from fuzz.drawing import Graph
from fuzz.kernels import Effort, junk, run_kernel
from pegbox.codegen import Target
from pegbox.compute.reference import evaluate
from pegbox.compute.tensor import Tensor
from pegbox.loops.equal import structural_equal
from pegbox.loops.nodes import For, Function, Stmt
from pegbox.loops.visit import children
from pegbox.schedule import Schedule, Trace
from pegbox.tir.script import from_source

Array = NDArray[Any]
MOST_STEPS = 6000
"""Statements that an interpreter runs in some tens of milliseconds."""


class Different(AssertionError):
    """The program computes something else."""


def interpreted(lowered: Function, graph: Graph, rng: random.Random) -> None:
    """Run by the interpreter that suspects everything, on small integers.

    Raises:
        Different: other values than NumPy's; BrokenProgram: what no lowered program may do.
    """
    inputs = graph.inputs(small=True)
    # Integers have no NaN: two kinds of poison, so that no wrong value hides.
    for poison in (POISON_INT, 0) if rng.random() < 0.25 else (POISON_INT,):
        got = run_on(lowered, graph.tensors, inputs, poison=poison)
        _same(got, graph, inputs, f"lowered:\n{lowered}", exact=graph.exact, signed_zeros=False)


def machine_code(lowered: Function, graph: Graph, target: Target, effort: Effort, *, small: bool = False) -> None:
    """Compiled, and run on arrays with guard bands around them.

    Raises:
        Different: other values than NumPy's; Broken: something was written outside of the arrays.
    """
    inputs = graph.inputs(small=small)
    made = run_kernel(
        lowered, target, effort, [inputs[t] if t in inputs else junk(t.shape, t.dtype) for t in graph.tensors]
    )
    results = [array for array, t in zip(made, graph.tensors, strict=True) if t in graph.outputs]
    what = f"machine code ({target}, {effort.name}) of\n{lowered}"
    _same(results, graph, inputs, what, exact=graph.exact, signed_zeros=graph.signed_zeros)


def _same(
    results: Sequence[Array],
    graph: Graph,
    inputs: dict[Tensor, Array],
    what: str,
    *,
    exact: bool,
    signed_zeros: bool,
) -> None:
    wanted = evaluate(graph.outputs, inputs)
    for tensor, got, want in zip(graph.outputs, results, wanted, strict=True):
        wrong = values.difference(got, want, exact=exact, signed_zeros=signed_zeros)
        if wrong is not None:
            raise Different(f"{tensor.name}: {wrong}\n{what}")


def is_short(lowered: Function) -> bool:
    """Tell whether an interpreter runs the program in a moment."""

    def steps(stmt: Stmt, times: int) -> int:
        times *= stmt.extent if isinstance(stmt, For) else 1
        below = children(stmt)
        return sum(steps(each, times) for each in below) if below else times

    return steps(lowered.body, 1) <= MOST_STEPS


def replays(sch: Schedule, args: Sequence[Any]) -> None:
    """Its trace makes an equal program, through JSON and as the Python that it is printed as."""
    again = Trace.from_json(sch.trace.to_json()).apply(Schedule(args))
    if str(again.func) != str(sch.func) or again.trace != sch.trace:
        raise Different(f"the trace replays to\n{again.func}\ninstead of\n{sch.func}")
    _equal(again.func, sch.func, "replayed")
    scope: dict[str, Any] = {"sch": Schedule(args)}
    exec(str(sch.trace), scope)
    _equal(scope["sch"].func, sch.func, f"printed as\n{sch.trace}")
    if str(scope["sch"].trace) != str(sch.trace):
        raise Different(f"the trace\n{sch.trace}\nis printed again as\n{scope['sch'].trace}")


def reads_back(func: Function) -> None:
    """The printed script is read to an equal program."""
    text = func.script()
    again = from_source(text)
    assert isinstance(again, Function)
    _equal(again, func, text)
    if again.script() != text:
        raise Different(f"the script\n{text}\nis printed again as\n{again.script()}")


def _equal(one: Function, other: Function, what: str) -> None:
    if not structural_equal(one, other):
        raise Different(f"no equal program, {what}:\n{one}\ninstead of\n{other}")
