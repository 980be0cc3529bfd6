"""Stage methods for loop kinds: vectorize, parallel, unroll, pragma, prefetch."""

from __future__ import annotations

from typing import Any

from pegbox.checks import check_text
from pegbox.compute.axis import IterVar
from pegbox.compute.graph import post_order
from pegbox.compute.tensor import Tensor
from pegbox.errors import ScheduleError
from pegbox.expr.dtypes import integer
from pegbox.loops.foreign import CLibrary, CSource, c_source
from pegbox.loops.nodes import ForKind
from pegbox.schedule.primitives.kinds import pragma_value
from pegbox.schedule.te.stage_base import Prefetch, StageBase, recorded
from pegbox.shown import value_text

# Pragmas that are primitives under another name.
_KINDS = {"unroll": ForKind.UNROLLED, "vectorize": ForKind.VECTORIZED, "parallel": ForKind.PARALLEL}
_HINTS = ("auto_unroll_max_step", "unroll_explicit")
# How threads share a loop: here always in equal parts, each loop a region of its own with a barrier at its end.
_NO_EFFECT = ("parallel_launch_point", "parallel_stride_pattern", "parallel_barrier_when_finish")
_REFUSED = {
    "import_llvm": "give C source instead: pragma import_c, or tir.c_source with the intrinsic that calls it",
    "debug_skip_region": "a program that leaves a part out computes something else; leave the stage out of the graph",
}


@recorded
def vectorize(stage: StageBase, loop: IterVar) -> None:
    """Run the iterations of a loop as the lanes of vectors.

    Before `vectorize(j)`::

        for j in range(16):
            B[j] = A[j] + 1.0

    After::

        for j in vectorized range(16):
            B[j] = A[j] + 1.0

    Raises:
        ScheduleError: not a loop of this stage; when lowered: two lanes would write one element.
    """
    _annotate(stage, loop, ForKind.VECTORIZED)


@recorded
def unroll(stage: StageBase, loop: IterVar) -> None:
    """Write the iterations of a loop out.

    Raises:
        ScheduleError: not a loop of this stage.
    """
    _annotate(stage, loop, ForKind.UNROLLED)


@recorded
def parallel(stage: StageBase, loop: IterVar) -> None:
    """Share the iterations of a loop among threads.

    Raises:
        ScheduleError: not a loop of this stage; when lowered: two iterations would write one element.
    """
    _annotate(stage, loop, ForKind.PARALLEL)


def _annotate(stage: StageBase, loop: IterVar, kind: ForKind) -> None:
    stage.position(loop)
    _check_free(stage, loop)
    stage.kinds[loop] = kind


def _check_free(stage: StageBase, loop: IterVar) -> None:
    kind = stage.kinds.get(loop)
    if kind is not None and kind.is_bound:
        raise ScheduleError(
            f"{loop.name} is {kind.in_words} already",
            "split it before you bind a part of it, and use the other part",
        )


@recorded
def pragma(stage: StageBase, loop: IterVar, name: str, value: Any = True) -> None:
    """Attach a hint to a loop, for everything below it.

    - `auto_unroll_max_step` (steps): unroll inner loops whose statements, written out, are at most that many;
    - `unroll_explicit` (bool): pegbox unrolls itself, or leaves it to LLVM;
    - `unroll`, `vectorize`, `parallel`: the primitives of these names;
    - `import_c` (text, or what `tir.c_source` or `tir.c_library` gives): C functions that tensor intrinsics call;
      `import_llvm` takes the latter two as well;
    - `prefetch` (iterations ahead, 1 unless told): `prefetch` of each tensor that the stage reads;
    - `parallel_launch_point`, `parallel_stride_pattern`, `parallel_barrier_when_finish`: accepted, without effect.

    Raises:
        ScheduleError: an unknown pragma, one that has no meaning here, a wrong value, or not a loop of this stage.
    """
    check_text("pragma: name", name, error=ScheduleError)
    stage.position(loop)
    if name in ("import_c", "import_llvm") and isinstance(value, CSource | CLibrary):
        stage.code.append(value)
        return
    if name in _REFUSED:
        raise ScheduleError(f"{name!r} is not supported", _REFUSED[name])
    if name == "import_c":
        stage.code.append(c_source(value))
    elif name in _KINDS:
        if value is False:
            raise ScheduleError("False says nothing", "leave it out instead")
        _annotate(stage, loop, _KINDS[name])
    elif name in _HINTS:
        stage.pragmas.setdefault(loop, {})[name] = pragma_value(name, value)
    elif name == "prefetch":
        for tensor in stage.op.inputs:
            prefetch(stage, tensor, loop, 1 if value is True else value)
    elif name not in _NO_EFFECT:
        raise ScheduleError(
            f"unknown pragma {name!r}",
            f"use one of {', '.join((*_HINTS, *_KINDS, 'prefetch', 'import_c', *_NO_EFFECT))}",
        )


@recorded
def prefetch(stage: StageBase, tensor: Tensor, loop: IterVar, offset: int = 1) -> None:
    """Prefetch, in each iteration of a loop, what the stage will read of a tensor `offset` iterations later.

    Before `prefetch(A, i, 2)`::

        for i in range(8):
            for j in range(16):
                B[i, j] = A[i, j] + 1.0

    After::

        for i in range(8):
            prefetch(address(A[min(i + 2, 7), 0], "r"))
            for j in range(16):
                B[i, j] = A[i, j] + 1.0

    There is one prefetch for each cache line of 64 bytes. Values stay what they are.

    Raises:
        ScheduleError: not a loop of this stage, a tensor that the stage cannot read, or an offset that is no
            positive integer; when lowered: the tensor is inlined or made inside of the loop, or the loop stands
            in lanes.
    """
    if not isinstance(tensor, Tensor):
        raise ScheduleError(f"{value_text(tensor)} is not a tensor", "give one that the stage reads")
    stage.position(loop)
    number = integer(offset)
    if number is None or number < 1:
        raise ScheduleError(
            f"the offset is {value_text(offset)}",
            "give the number of iterations ahead, an integer from 1",
        )
    # What an inlined stage reads is read here; which ones are inlined is known when the schedule is lowered.
    if all(tensor not in op.inputs for op in post_order([stage.op])):
        raise ScheduleError(
            f"{stage.op.name} does not read {tensor.name}",
            f"it reads {', '.join(t.name for t in stage.op.inputs) or 'nothing'}",
        )
    stage.prefetches = [p for p in stage.prefetches if (p.tensor, p.loop) != (tensor, loop)]
    stage.prefetches.append(Prefetch(tensor, loop, number))
