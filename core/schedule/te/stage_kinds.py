"""Stage methods for loop kinds and hints: vectorize, parallel, unroll, tensorize, pragma, prefetch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pegbox.checks import check_text
from pegbox.compute.axis import IterVar
from pegbox.compute.graph import post_order
from pegbox.compute.tensor import Tensor, TensorBuffer
from pegbox.errors import ScheduleError
from pegbox.expr.dtypes import integer
from pegbox.expr.nodes import Buffer
from pegbox.loops.foreign import CLibrary, CSource, c_source
from pegbox.schedule.analysis import read_buffers, written_buffers
from pegbox.schedule.intrinsics.intrinsic import TensorIntrin
from pegbox.schedule.primitives.kinds import pragma_value
from pegbox.schedule.state.handles import LoopRef
from pegbox.schedule.state.step import Step, mapped
from pegbox.schedule.te.replay_state import ReplayState
from pegbox.schedule.te.stage_base import StageBase, kind_of, record, te_method
from pegbox.shown import value_text

# Pragmas that are primitives under another name.
_KINDS = ("unroll", "vectorize", "parallel")
_HINTS = ("auto_unroll_max_step", "unroll_explicit", "loop_partition_hint", "nontemporal")
# Pragmas about sharing a loop: here always in equal parts, each loop its own region with a barrier at its end.
_NO_EFFECT = ("parallel_launch_point", "parallel_stride_pattern", "parallel_barrier_when_finish")
_REFUSED = {
    "import_llvm": "give C source instead: pragma import_c, or tir.c_source with the intrinsic that calls it",
    "debug_skip_region": "a program that leaves a part out computes something else; leave the stage out of the graph",
}


@te_method
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
    _set_kind(stage, loop, "vectorize")


@te_method
def unroll(stage: StageBase, loop: IterVar) -> None:
    """Unroll the iterations of a loop.

    Raises:
        ScheduleError: not a loop of this stage.
    """
    _set_kind(stage, loop, "unroll")


@te_method
def parallel(stage: StageBase, loop: IterVar) -> None:
    """Share the iterations of a loop among threads.

    Raises:
        ScheduleError: not a loop of this stage; when lowered: two iterations would write one element.
    """
    _set_kind(stage, loop, "parallel")


def _set_kind(stage: StageBase, loop: IterVar, primitive: str) -> None:
    stage.position(loop)
    before = stage.steps.get(("kind", loop))
    if before is not None and before.primitive == "bind":
        raise ScheduleError(
            f"{loop.name} is {kind_of(before).in_words} already",
            "split it before you bind a part of it, and use the other part",
        )
    record(stage, ("kind", loop), primitive, loop)


def replay_on_loops(replay: ReplayState, stage: StageBase, step: Step) -> None:
    """Call the primitive of the same name on the loops of the program."""
    live = replay.live(stage)
    args, options = (
        mapped(each, lambda value: live[value] if isinstance(value, IterVar) else value)
        for each in (step.args, step.options)
    )
    getattr(replay.sch, step.primitive)(*args, **dict(options))


def replay_kind(replay: ReplayState, stage: StageBase, step: Step) -> None:
    """Give a loop its kind; a draft shows it even if that is not legal."""
    try:
        replay_on_loops(replay, stage, step)
    except ScheduleError as error:
        replay.refuse(error, replay.live(stage)[step.args[0]], kind_of(step))


@te_method
def pragma(stage: StageBase, loop: IterVar, name: str, value: Any = True) -> None:
    """Attach a hint to a loop, for everything below it.

    - `auto_unroll_max_step` (steps): unroll inner loops whose statements, written out, are at most that many;
    - `unroll_explicit` (bool): pegbox unrolls itself, or leaves it to LLVM;
    - `loop_partition_hint` (bool): cut the loop where conditions of expressions begin or cease to hold;
    - `nontemporal` (bool): let whole cache lines that a loop of vectors writes go around the caches;
    - `unroll`, `vectorize`, `parallel`: the primitives of these names;
    - `import_c` (text, or what `tir.c_source` or `tir.c_library` gives): C functions that tensor intrinsics call;
      `import_llvm` takes the latter two as well;
    - `prefetch` (iterations ahead, by default 1): `prefetch` of each tensor that the stage reads;
    - `parallel_launch_point`, `parallel_stride_pattern`, `parallel_barrier_when_finish`: accepted, without effect.

    Raises:
        ScheduleError: the pragma is unknown or has no meaning here, the value is wrong, or this is not a loop of this
            stage.
    """
    check_text("pragma: name", name, error=ScheduleError)
    stage.position(loop)
    if name in ("import_c", "import_llvm") and isinstance(value, CSource | CLibrary):
        record(stage, ("import_c", value), "import_c", value)
        return
    if name in _REFUSED:
        raise ScheduleError(f"{name!r} is not supported", _REFUSED[name])
    if name == "import_c":
        code = c_source(value)
        record(stage, ("import_c", code), "import_c", code)
    elif name in (*_KINDS, *_NO_EFFECT):
        if value is not None and not (isinstance(value, int) and value == 1):  # TVM's default is None
            remedy = "leave the pragma out" if value is False else "leave the value out"
            raise ScheduleError(f"{value_text(value)} is not a value of {name}", remedy)
        if name in _KINDS:
            _set_kind(stage, loop, name)
    elif name in _HINTS:
        record(stage, ("pragma", loop, name), "pragma", loop, name, pragma_value(name, value))
    elif name == "prefetch":
        offset = 1 if value is True or value is None else _offset(value, 1)
        for tensor in stage.op.inputs:
            prefetch(stage, tensor, loop, offset)
    else:
        raise ScheduleError(
            f"unknown pragma {name!r}",
            f"use one of {', '.join((*_HINTS, *_KINDS, 'prefetch', 'import_c', *_NO_EFFECT))}",
        )


@te_method
def prefetch(stage: StageBase, tensor: Tensor, loop: IterVar, offset: int = 1, *, among: IterVar | None = None) -> None:
    """Prefetch, in each iteration of a loop, the part of a tensor that the stage will access `offset` iterations later.

    If another stage, computed inside the loop, reads the tensor in place of this one, its reads are prefetched. The
    tensor that the stage makes is prefetched for writing.

    Args:
        offset: iterations ahead: at least 1, or 0 with `among`.
        among: a loop inside `loop`, of this stage or one computed there. The prefetches of an iteration are shared
            evenly among its iterations, and reads come into the second cache. Without it, all are issued at once into
            the first cache, which can wait for only a few lines.

    Before `prefetch(A, i, 2)`::

        for i in range(8):
            for j in range(16):
                B[i, j] = A[i, j] + 1.0

    After::

        for i in range(8):
            prefetch(address(A[min(i + 2, 7), 0], "r"))
            for j in range(16):
                B[i, j] = A[i, j] + 1.0

    There is one prefetch for each cache line of 64 bytes. Values do not change.

    Raises:
        ScheduleError: not a loop of this stage, a tensor that the stage cannot access, or an offset that is too small
            or no integer; when lowered: the tensor is inlined or made inside the loop by another stage, a loop is
            vectorized, or `among` is not inside the loop.
    """
    if not isinstance(tensor, Tensor):
        raise ScheduleError(f"{value_text(tensor)} is not a tensor", "give one that the stage reads or makes")
    stage.position(loop)
    if among is not None and not isinstance(among, IterVar):
        raise ScheduleError(f"among={value_text(among)} is not a loop", "give one inside the loop")
    number = _offset(offset, 1 if among is None else 0)
    # This stage reads the inputs of inlined stages, which are known only when the schedule is lowered.
    if tensor not in stage.op.outputs and all(tensor not in op.inputs for op in post_order([stage.op])):
        raise ScheduleError(
            f"{stage.op.name} does not access {tensor.name}",
            f"it reads {', '.join(t.name for t in stage.op.inputs) or 'nothing'}",
        )
    options: dict[str, Any] = {} if among is None else {"among": among}
    record(stage, ("prefetch", loop, tensor), "prefetch", tensor, loop, number, **options)


def _offset(value: object, least: int) -> int:
    """Return the number of iterations ahead. Raises ScheduleError: it is too small, or not an integer."""
    number = integer(value)
    if number is None or number < least:
        raise ScheduleError(
            f"the offset is {value_text(value)}", f"give the number of iterations ahead, an integer from {least}"
        )
    return number


def replay_pragma(replay: ReplayState, stage: StageBase, step: Step) -> None:
    loop, name, value = step.args
    replay.sch.annotate(replay.live(stage)[loop], f"pragma_{name}", value)


def replay_prefetch(replay: ReplayState, stage: StageBase, step: Step) -> None:
    """Add prefetches last, because the place of every tensor must be known."""
    tensor, loop, offset = step.args
    block = replay.block(stage)
    tree, around = replay.sch.tree, replay.live(stage)[loop]
    options = {name: _loop_among(replay, loop, among) for name, among in step.options}
    reads = read_buffers(tree.blocks[block.name].block)
    if tensor in stage.op.outputs:
        reads = list(dict.fromkeys((*reads, *written_buffers(tree.blocks[block.name].block))))
    own = _places_of(tensor, reads)
    inside = (name for name, each in tree.blocks.items() if _places_of(tensor, read_buffers(each.block)))
    other = next((name for name in inside if tree.is_under(tree.blocks[name], replay.sch.find_loop(around))), None)
    if not own and other is not None:
        block = replay.sch.get_block(other)
        reads = read_buffers(tree.blocks[other].block)
        own = _places_of(tensor, reads)
    if not own:
        raise ScheduleError(
            f"prefetch({tensor.name}, {loop.name}): {stage.op.name} does not read {tensor.name} any more",
            f"it reads {', '.join(b.name for b in reads)}: prefetch one of these",
        )
    alone = [b.name for b in reads].count(tensor.name) == 1
    replay.sch.prefetch(block, tensor.name if alone else own[0], around, offset, **options)


def _loop_among(replay: ReplayState, loop: IterVar, among: IterVar) -> LoopRef:
    """Return the present loop among whose iterations prefetches are shared.

    Raises:
        ScheduleError: no stage has it any more.
    """
    found = next((loops[among] for loops in replay.loops.values() if among in loops), None)
    if found is None:
        raise ScheduleError(
            f"{among.name} is not a loop of a stage that is computed",
            f"share the prefetches among a loop inside {loop.name}",
        )
    return found


def _places_of(tensor: Tensor, reads: Sequence[Buffer]) -> list[int]:
    """Find a tensor among buffers; a stage with another scope has another buffer for the same tensor."""
    return [n for n, b in enumerate(reads) if isinstance(b, TensorBuffer) and b.tensor is tensor]


@te_method
def tensorize(stage: StageBase, var: IterVar, tensor_intrin: TensorIntrin | str) -> None:
    """Let a tensor intrinsic compute what a loop and all loops inside it compute.

    Before `tensorize(j_inner, gemv)`::

        for i in range(64):
            for j_outer in range(4):
                for j_inner in range(16):
                    for k in range(64):
                        C[i, j] = C[i, j] + A[i, k] * B[j, k]

    After::

        for i in range(64):
            for j_outer in range(4):
                call_extern("int32", "gemv", address(C[i, j_outer * 16 ...]), ...)

    Raises:
        ScheduleError: not a loop of this stage, or no tensor intrinsic; when lowered: the loops compute something
            else than the intrinsic describes, or their tiles are not whole.
    """
    stage.position(var)
    name = tensor_intrin.name if isinstance(tensor_intrin, TensorIntrin) else tensor_intrin
    if not isinstance(name, str):
        raise ScheduleError(
            f"{value_text(tensor_intrin)} is not a tensor intrinsic",
            "give one that te.decl_tensor_intrin made, or the name of a registered one",
        )
    TensorIntrin.get(name)
    before = stage.tensorized
    if before is not None and before.args[0] is not var:
        raise ScheduleError(f"{before.args[0].name} is tensorized already", "one loop of a stage can be")
    record(stage, ("tensorize", var), "tensorize", var, name)
