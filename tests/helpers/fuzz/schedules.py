"""Random schedules of both languages: a step is refused and changes nothing, or it is done."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence

from fuzz.cases import Case, Tally
from fuzz.drawing import Graph
from fuzz.steps import random_step
from fuzz.te_steps import te_step
from fuzz.te_storage_steps import replayed
from pegbox import te
from pegbox.errors import ScheduleError
from pegbox.loops.verify import verify
from pegbox.schedule import Schedule
from pegbox.schedule.te.schedule import TESchedule

_AT_ONCE = 3  # calls of TE: a schedule is replayed as a whole


def scheduled(case: Case, graph: Graph, tally: Tally) -> Schedule:
    """The graph after the steps of the case."""
    if case.trace is not None:
        return case.trace.apply(Schedule(graph.tensors))
    return _te(case, graph, tally) if case.language == "te" else with_steps(case, Schedule(graph.tensors), tally)


def with_steps(case: Case, sch: Schedule, tally: Tally) -> Schedule:
    for seed in case.steps:
        tir_step(sch, random.Random(seed), tally)
        if case.seed % 8 == 0:
            verify(sch.func)
    return sch


def tir_step(sch: Schedule, rng: random.Random, tally: Tally) -> None:
    """One random step; it is refused and changes nothing, or it is in the trace."""
    known = len(sch.trace)
    try:
        random_step(sch, rng.randrange)
    except ScheduleError as error:
        tally.refused[error.primitive or "(the step)"] += 1
    tally.done.update(step.primitive for step in list(sch.trace)[known:])


def _te(case: Case, graph: Graph, tally: Tally) -> Schedule:
    """Calls that make the schedule illegal are taken back; a part of the cases tries all of them at once."""
    if case.seed % 3 == 0:
        s, calls = called(graph, case.steps, tally)
        try:
            sch = replayed(s, graph.tensors)
        except ScheduleError:
            tally.refused["(a whole TE schedule)"] += 1
            return Schedule(graph.tensors)
        tally.done.update(f"te.{name}" for name in calls)
        return sch
    kept: list[int] = []
    known = 0  # calls of these: some are refused at once, and change nothing
    sch = Schedule(graph.tensors)
    for start in range(0, len(case.steps), _AT_ONCE):
        some = case.steps[start : start + _AT_ONCE]
        for seeds in (some, *((seed,) for seed in some)):  # one by one where not all of them are legal together
            s, calls = called(graph, [*kept, *seeds], tally)
            if len(calls) == known:
                continue
            try:
                sch = replayed(s, graph.tensors)
            except ScheduleError:
                if seeds is not some:
                    tally.refused[f"te.{calls[-1]}"] += 1
                continue
            tally.done.update(f"te.{name}" for name in calls[known:])
            known = len(calls)
            kept += seeds
            if seeds is some:
                break
    return sch


def called(graph: Graph, seeds: Sequence[int], tally: Tally) -> tuple[TESchedule, list[str]]:
    """A TE schedule after these calls, and the names of those that were not refused at once."""
    s, calls = te.create_schedule([t.op for t in graph.outputs]), []
    for number, seed in enumerate(seeds):
        attempted: Counter[str] = Counter()
        try:
            calls.append(te_step(s, seed, attempted, first=number < 2))
        except ScheduleError:
            tally.refused.update(f"te.{name}" for name in attempted)
    return s, calls
