"""What is asked of a scheduled program: that it computes NumPy's values, reads back, and can be made again."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import numpy as np
from lowered_interpreter import POISON_INT, run_on
from numpy.typing import NDArray

import pegbox as pb
from fuzz.graphs import Graph
from pegbox.compute.reference import evaluate
from pegbox.loops.equal import structural_equal
from pegbox.loops.nodes import Function
from pegbox.loops.passes import lower_function
from pegbox.loops.verify import verify
from pegbox.measure.guard_band import GuardedArray
from pegbox.schedule import Schedule, Trace
from pegbox.tir.script import from_source

Array = NDArray[Any]
TARGET = "llvm -num-cores 2"


class Different(AssertionError):
    """The program computes something else."""


def values(func: Function, graph: Graph, rng: random.Random) -> None:
    """Lowered, and run by the interpreter that suspects everything.

    Raises:
        Different: other values than NumPy's; BrokenProgram: what no lowered program may do.
    """
    lowered = lower_function(func, simple=rng.random() < 0.15)
    verify(lowered)
    inputs = graph.inputs()
    # Integers have no NaN: two kinds of poison, so that no wrong value hides.
    for poison in (POISON_INT, 0) if rng.random() < 0.25 else (POISON_INT,):
        _same(run_on(lowered, graph.tensors, inputs, poison=poison), graph, f"lowered:\n{lowered}")


def machine_code(func: Function, graph: Graph) -> None:
    """Compiled, and run on arrays with guard bands around them.

    Raises:
        Different: other values than NumPy's, or something was written outside of the arrays.
    """
    lowered = lower_function(func)
    kernel = pb.build(lowered, target=TARGET)
    inputs = graph.inputs()
    banded = [GuardedArray.copy_of(inputs[t] if t in inputs else _junk(t.shape, t.dtype)) for t in graph.tensors]
    kernel(*(b.array for b in banded))
    for tensor, band in zip(graph.tensors, banded, strict=True):
        if overrun := band.overrun():
            raise Different(f"{tensor.name}: {overrun}, by\n{lowered}")
        if tensor in inputs and not np.array_equal(band.array, inputs[tensor]):
            raise Different(f"the input {tensor.name} was changed:\n{lowered}")
    results = [b.array for b, t in zip(banded, graph.tensors, strict=True) if t.buffer in func.outputs]
    _same(results, graph, f"machine code of\n{lowered}")


def _junk(shape: tuple[int, ...], dtype: str) -> Array:
    return np.full(shape, np.nan if dtype.startswith("float") else 77, dtype)


def _same(results: Sequence[Array], graph: Graph, what: str) -> None:
    wanted = evaluate(graph.outputs, graph.inputs())
    for tensor, got, want in zip(graph.outputs, results, wanted, strict=True):
        same = np.array_equal(got, want) if graph.exact else np.allclose(got, want, rtol=1e-4, atol=1e-4)
        if not same:
            raise Different(f"{tensor.name} is\n{got}\ninstead of\n{want}\n{what}")


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
