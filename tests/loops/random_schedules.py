"""Random TE schedules: splits, fusions, orders, caches, places and kinds of loops, legal more often than not."""

from __future__ import annotations

from hypothesis import strategies as st

from pegbox import te
from pegbox.compute.tensor import IterVar, Tensor
from pegbox.loops.nodes import ForKind
from pegbox.schedule.stage import Inline, Root, Stage
from pegbox.schedule.te_schedule import TESchedule

FACTORS = st.sampled_from([1, 2, 3, 4, 5, 8])


def schedule(draw: st.DrawFn, outputs: tuple[Tensor, ...], log: list[str]) -> TESchedule:
    """A random schedule; `log` gets what was done, as text. May raise ScheduleError."""
    s = te.create_schedule([t.op for t in outputs])
    _caches(draw, s, log)
    for stage in reversed(s.stages):
        _place(draw, s, stage, log)
        if not isinstance(stage.attach, Inline):
            _loops(draw, stage, log)
    return s


def _caches(draw: st.DrawFn, s: TESchedule, log: list[str]) -> None:
    for stage in list(s.stages):
        if len(stage.op.outputs) == 1 and draw(st.integers(0, 3)) == 0:
            log.append(f"cache_write({stage.op.name})")
            s.cache_write(stage.op.outputs[0], draw(st.sampled_from(["local", "global"])))
    for stage in list(s.stages):
        for tensor in stage.op.inputs:
            if draw(st.integers(0, 5)) == 0:
                log.append(f"cache_read({tensor.name}, {stage.op.name})")
                s.cache_read(tensor, "local", [stage.op])


def _place(draw: st.DrawFn, s: TESchedule, stage: Stage, log: list[str]) -> None:
    if stage.is_output:
        return
    readers = [other for other in s.stages if any(_same(t, stage) for t in other.op.inputs)]
    choices = ["root"]
    loops = [] if isinstance(readers[0].attach, Inline) else _serial_outside(readers[0])
    if len(readers) == 1 and loops:
        choices += ["at", "at", "at"]
    if stage.op.reduce is None and len(stage.op.outputs) == 1:
        choices.append("inline")
    match draw(st.sampled_from(choices)):
        case "at":
            loop = draw(st.sampled_from(loops))
            log.append(f"{stage.op.name}.compute_at({readers[0].op.name}, {loop.name})")
            stage.compute_at(readers[0], loop)
        case "inline":
            log.append(f"{stage.op.name}.compute_inline()")
            stage.compute_inline()
        case _:
            pass


def _serial_outside(stage: Stage) -> list[IterVar]:
    """The loops that are neither lanes nor inside of lanes."""
    loops = stage.leaf_iter_vars
    lanes = [n for n, iv in enumerate(loops) if stage.kinds.get(iv) is ForKind.VECTORIZED]
    return loops[: lanes[0]] if lanes else loops


def _same(tensor: Tensor, stage: Stage) -> bool:
    return any(tensor.buffer is t.buffer for t in stage.op.outputs)


def _loops(draw: st.DrawFn, stage: Stage, log: list[str]) -> None:
    name = stage.op.name
    # Where reduce loops and spatial ones are fused, only some orders are legal; keep such programs few.
    for _ in range(draw(st.integers(0, 3))):
        iv: IterVar = draw(st.sampled_from(stage.leaf_iter_vars))
        if draw(st.booleans()):
            factor = draw(FACTORS)
            log.append(f"{name}.split({iv.name}, factor={factor})")
            stage.split(iv, factor=factor)
        else:
            parts = draw(FACTORS)
            log.append(f"{name}.split({iv.name}, nparts={parts})")
            stage.split(iv, nparts=parts)
    if len(stage.leaf_iter_vars) > 1 and draw(st.integers(0, 3)) == 0:
        at = draw(st.integers(0, len(stage.leaf_iter_vars) - 2))
        pair = stage.leaf_iter_vars[at : at + 2]
        log.append(f"{name}.fuse({pair[0].name}, {pair[1].name})")
        stage.fuse(*pair)
    if draw(st.booleans()):
        order = draw(st.permutations(stage.leaf_iter_vars))
        log.append(f"{name}.reorder({', '.join(iv.name for iv in order)})")
        stage.reorder(*order)
    _kinds(draw, stage, log)


def _kinds(draw: st.DrawFn, stage: Stage, log: list[str]) -> None:
    name, loops = stage.op.name, list(stage.leaf_iter_vars)
    if draw(st.integers(0, 2)) == 0:
        loop = loops.pop()
        log.append(f"{name}.vectorize({loop.name})")
        stage.vectorize(loop)
    outermost = loops and loops[0].kind == "spatial" and isinstance(stage.attach, Root)
    if outermost and draw(st.integers(0, 2)) == 0:
        loop = loops.pop(0)
        log.append(f"{name}.parallel({loop.name})")
        stage.parallel(loop)
    if loops and draw(st.integers(0, 2)) == 0:
        loop = draw(st.sampled_from(loops))
        log.append(f"{name}.unroll({loop.name})")
        stage.unroll(loop)
