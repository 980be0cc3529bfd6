"""Calls on different TE stages have no order: attaching before or after splitting, consumers first or last."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
from fuzz.drawing import Graph
from fuzz.graphs import draw_graph
from fuzz.te_steps import FACTORS

from pegbox import te
from pegbox.errors import ScheduleError
from pegbox.schedule.te.replay import lower_te
from pegbox.schedule.te.schedule import TESchedule
from pegbox.schedule.te.stage import Stage

Call = Callable[[], object]


def _own(stage: Stage, rng: random.Random) -> list[Call]:
    """Calls that speak of the stage's own loops only; what they draw does not depend on when they are made."""

    def split() -> None:
        seed = random.Random(seeds.pop(0))
        stage.split(seed.choice(stage.leaf_iter_vars), factor=seed.choice(FACTORS))

    def reorder() -> None:
        seed = random.Random(seeds.pop(0))
        loops = list(stage.leaf_iter_vars)
        seed.shuffle(loops)
        stage.reorder(*loops)

    def fuse() -> None:
        seeds.pop(0)
        if len(stage.leaf_iter_vars) > 1:
            stage.fuse(*stage.leaf_iter_vars[:2])

    def unroll() -> None:
        seeds.pop(0)
        stage.unroll(stage.leaf_iter_vars[-1])

    if not stage.leaf_iter_vars:  # a scalar
        return []
    calls = rng.choices([split, split, reorder, fuse], k=rng.randint(0, 4)) + [unroll] * rng.randint(0, 1)
    seeds = [rng.randrange(2**32) for _ in calls]
    return list(calls)


def _attach(s: TESchedule, stage: Stage, rng: random.Random) -> Call | None:
    """Attaching it to a loop that its consumer has when all its own calls are made."""
    buffers = [t.buffer for t in stage.op.outputs]
    readers = [x for x in s.stages if any(t.buffer in buffers for t in x.op.inputs)]
    if stage.is_output or len(readers) != 1 or not readers[0].leaf_iter_vars or rng.random() < 0.3:
        return None
    at = rng.random()
    return lambda: stage.compute_at(readers[0], readers[0].leaf_iter_vars[int(at * len(readers[0].leaf_iter_vars))])


def _program(graph: Graph, seed: int, order: str) -> str:
    s, rng = te.create_schedule([t.op for t in graph.outputs]), random.Random(seed)
    own = [_own(stage, rng) for stage in s.stages]
    attach = [_attach(s, stage, rng) for stage in s.stages]
    stages = list(zip(own, attach, strict=True))
    if order == "attached last":
        for calls, _ in stages:
            for call in calls:
                call()
        for _, place in stages:
            if place is not None:
                place()
    else:
        for calls, place in reversed(stages):
            if place is not None:
                place()
            for call in calls:
                call()
    try:
        return str(lower_te(s, graph.tensors))
    except ScheduleError as error:
        return f"refused: {error}"


@pytest.mark.parametrize("chunk", range(4))
def test_attaching_before_or_after_splitting_gives_the_same_program(chunk: int) -> None:
    refused = 0
    for seed in range(chunk * 100, chunk * 100 + 100):
        graph = draw_graph(random.Random(seed))
        first, second = (_program(graph, seed, order) for order in ("attached last", "attached first"))
        assert first == second, f"seed {seed}\n{graph}\n{first}\n{second}"
        refused += first.startswith("refused")
    assert refused < 60
