"""What Ansor samples at random for a sketch (OSDI 2020, section 4.2), as knobs: places, threads, vectors, unrolling."""

from __future__ import annotations

from collections.abc import Sequence

from pegbox.codegen.targets.target import Target
from pegbox.plugins.sketch.state import State
from pegbox.plugins.sketch.steps import Call, Choice, Knob, Name, Stage, Step, Value

UNROLL = (0, 16, 64, 512)
ROOT = "root"
_MOST_PLACES = 4  # loops of a consumer that a stage may be computed in


def annotate(state: State, target: Target) -> State:
    """The sketch with everything that is said after its loops are there, left to knobs."""
    new = state.copy()
    stages = [name for name in new.stages if not new.is_inlined(name)]
    movable = {name: _places(new, name) for name in stages}
    for name in stages:
        _choose_place(new, name, movable[name])
    for name in reversed(stages):
        loops = new.loops(name)
        if not loops:
            continue
        if new.op(name).reduce_axis:
            knob = new.knob(Knob(f"{name}_unroll", candidates=UNROLL))
            new.call(name, "pragma", Name(loops[0]), "auto_unroll_max_step", Value(knob))
        lanes = not new.is_reduce(loops[-1])
        if lanes:
            new.call(name, "vectorize", Name(loops[-1]))
        if target.num_cores > 1 and new.is_root(name):
            _share(new, name, loops[:-1] if lanes else loops, movable)
    return new


def _places(state: State, name: str) -> tuple[str, list[str]] | None:
    """The single consumer of a stage at the root, and the loops of it that the stage may be computed in."""
    if not state.is_root(name) or state.graph.is_output(state.op(name)):
        return None
    consumers = state.consumers(name)
    if len(consumers) != 1 or state.is_cached(name):
        return None
    loops = _outer_spatial(state, consumers[0])
    return (consumers[0], loops[:_MOST_PLACES]) if loops else None


def _outer_spatial(state: State, name: str) -> list[str]:
    """A stage's loops before the first one that reduces, without the innermost."""
    loops = state.loops(name)
    first = next((n for n, loop in enumerate(loops) if state.is_reduce(loop)), len(loops) - 1)
    return loops[:first]


def _choose_place(state: State, name: str, place: tuple[str, list[str]] | None) -> None:
    if place is None:
        return
    consumer, loops = place
    knob = state.knob(Knob(f"{name}_at", candidates=(ROOT, *loops)))
    state.choose(knob, [(loop, [_attach(name, consumer, loop)]) for loop in loops])


def _attach(name: str, consumer: str, loop: str) -> Step:
    return Call(name, "compute_at", (Stage(consumer), Name(loop)))


def _share(state: State, name: str, loops: Sequence[str], movable: dict[str, tuple[str, list[str]] | None]) -> None:
    """Let threads share the outer loops, fused: how many of them is a knob."""
    fixed = {loop: other for other, loop in state.attached(name)}
    outer = []
    for loop in loops:
        if state.is_reduce(loop):
            break
        outer.append(loop)
        if loop in fixed:  # what stands further inside would have to move
            break
    if not outer:
        return
    moves = [(other, place[1]) for other, place in movable.items() if place is not None and place[0] == name]
    branches = [(n, _shared(name, outer[:n], fixed, moves)) for n in range(1, len(outer) + 1)]
    place = f"{name}_at" if movable.get(name) else None
    when = (place, (ROOT,)) if place else None
    knob = state.knob(Knob(f"{name}_parallel", candidates=tuple(range(len(outer) + 1)), when=when))
    if place is None:
        state.choose(knob, branches)
    else:
        state.choose(place, [(ROOT, [Choice(knob, tuple((n, tuple(steps)) for n, steps in branches))])])


def _shared(
    name: str, loops: Sequence[str], fixed: dict[str, str], moves: Sequence[tuple[str, list[str]]]
) -> list[Step]:
    """Fuse loops and share them. What was computed in one that is gone is computed in the fused one."""
    if len(loops) == 1:
        return [Call(name, "parallel", (Name(loops[0]),))]
    fused = f"{name}_fused"
    steps: list[Step] = [
        Call(name, "fuse", tuple(map(Name, loops)), (fused,)),
        Call(name, "parallel", (Name(fused),)),
        *(_attach(fixed[loop], name, fused) for loop in loops if loop in fixed),
    ]
    for other, places in moves:
        gone = [loop for loop in places if loop in loops]
        if gone:
            steps.append(Choice(f"{other}_at", tuple((loop, (_attach(other, name, fused),)) for loop in gone)))
    return steps
