"""One random case after the other: a graph, a random schedule of it, and everything that is asked of the result.

A case is its seed. A case that fails is shrunk (steps are left out while it still fails) and reported with the seed,
the graph, the steps and the program.
"""

from __future__ import annotations

import json
import random
import traceback
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import islice

from fuzz import checks
from fuzz.graphs import Graph, draw_graph
from fuzz.kinds import KINDS
from fuzz.steps import random_step
from fuzz.te_steps import te_step
from fuzz.te_storage_steps import replayed
from pegbox import te
from pegbox.errors import LoweringError, ScheduleError
from pegbox.expr.visit import walk as walk_expr
from pegbox.loops.nodes import Function
from pegbox.loops.verify import verify
from pegbox.loops.visit import expressions, walk
from pegbox.schedule import Schedule, Trace
from pegbox.schedule.te.schedule import TESchedule

MOST_NODES = 50_000
"""Inlining one thing into another may double a program each time: above so many nodes a case takes minutes."""

RERUN = "python3 tests/helpers/fuzz --seed {0.seed} --kind {0.kind} --language {0.language}"


class CaseFailed(AssertionError):
    """A random case went wrong; the message says all."""


@dataclass(frozen=True)
class Case:
    """`steps` are the seeds of the single steps, so that one can be left out without changing what the others draw."""

    seed: int
    kind: str  # of the graph, one of KINDS; or "drawn"
    language: str
    steps: tuple[int, ...]
    trace: Trace | None = None  # in place of steps, whose choices change when primitives are added

    def graph(self) -> Graph:
        rng = random.Random(self.seed)
        return draw_graph(rng) if self.kind == "drawn" else KINDS[self.kind](rng)


@dataclass
class Tally:
    """How often each primitive was done and refused."""

    done: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    cases: int = 0
    compiled: int = 0

    def __str__(self) -> str:
        names = sorted({*self.done, *self.refused})
        rows = [f"  {n:32} {self.done[n]:8} done {self.refused[n]:8} refused" for n in names]
        return "\n".join([f"{self.cases} cases, {self.compiled} of them compiled", *rows])


def draw_case(seed: int, kind: str | None = None, language: str | None = None) -> Case:
    """The case of a seed: mostly a graph drawn freely; kind and language may be given."""
    rng = random.Random(seed * 2 + 1)
    # Drawn in any case: what is drawn after them must not depend on whether they are given.
    drawn = rng.choice(list(KINDS)) if rng.random() < 0.25 else "drawn"
    kind, language = kind or drawn, language or ("te" if rng.random() < 0.35 else "tir")
    count = rng.randint(8, 24 if language == "tir" else 18)
    return Case(seed, kind, language, tuple(rng.randrange(2**32) for _ in range(count)))


def run_case(case: Case, tally: Tally) -> None:
    """Run a case, and shrink it if it fails.

    Raises:
        CaseFailed: with a report on the shrunk case.
    """
    try:
        run(case, tally)
    except Exception as error:
        raise CaseFailed(report(shrunk(case, type(error)))) from None


def run(case: Case, tally: Tally) -> Schedule | None:
    """Schedule and check; gives the schedule. Raises whatever goes wrong."""
    graph = case.graph()
    sch = _scheduled(case, graph, tally)
    tally.cases += 1
    _check(case, graph, sch, tally)
    return sch


def _scheduled(case: Case, graph: Graph, tally: Tally) -> Schedule:
    if case.trace is not None:
        return case.trace.apply(Schedule(graph.tensors))
    return _te(case, graph, tally) if case.language == "te" else _tir(case, Schedule(graph.tensors), tally)


def _check(case: Case, graph: Graph, sch: Schedule, tally: Tally) -> None:
    rng = random.Random(case.seed + 1)
    if _is_huge(sch.func):
        tally.refused["(a program that large)"] += 1
        return
    verify(sch.func)
    try:
        checks.values(sch.func, graph, rng)
    except LoweringError as error:
        # A wish that only the whole program can grant: it names the buffer and the remedy.
        if not str(error).startswith("double_buffer"):
            raise
        tally.refused["(a double buffer)"] += 1
        return
    if case.seed % 4 == 0:
        checks.reads_back(sch.func)
    if case.seed % 4 == 1 and case.language == "tir":
        checks.replays(sch, graph.tensors)
    if case.seed % 10 == 3 or case.trace is not None:
        tally.compiled += 1
        checks.machine_code(sch.func, graph)


def _is_huge(func: Function) -> bool:
    nodes = (node for stmt in walk(func.body) for expr in expressions(stmt) for node in walk_expr(expr))
    return next(islice(nodes, MOST_NODES, None), None) is not None


def _tir(case: Case, sch: Schedule, tally: Tally) -> Schedule:
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
    sch = Schedule(graph.tensors)
    for seed in case.steps:
        s, calls = called(graph, [*kept, seed], tally)
        if len(calls) <= len(kept):
            continue  # refused at once
        try:
            sch = replayed(s, graph.tensors)
        except ScheduleError:
            tally.refused[f"te.{calls[-1]}"] += 1
            continue
        tally.done[f"te.{calls[-1]}"] += 1
        kept.append(seed)
    return sch


def called(graph: Graph, seeds: Sequence[int], tally: Tally) -> tuple[TESchedule, list[str]]:
    """A TE schedule after these calls, and the names of those that were not refused at once."""
    s, calls = te.create_schedule([t.op for t in graph.outputs]), []
    for number, seed in enumerate(seeds):
        attempted: Counter[str] = Counter()
        try:
            calls.append(te_step(s, random.Random(seed), attempted, first=number < 2))
        except ScheduleError:
            tally.refused.update(f"te.{name}" for name in attempted)
    return s, calls


def shrunk(case: Case, kind: type[Exception]) -> Case:
    """A case with as few steps as possible that still fails, in the same way."""
    width = max(len(case.steps) // 2, 1)
    while True:
        for start in range(0, len(case.steps), width):
            fewer = replace(case, steps=case.steps[:start] + case.steps[start + width :])
            if _fails(fewer, kind):
                case = fewer
                break
        else:
            if width == 1:
                return case
            width //= 2


def _fails(case: Case, kind: type[Exception]) -> bool:
    try:
        run(case, Tally())
    except Exception as error:
        return type(error) is kind
    return False


def report(case: Case) -> str:
    """What a person needs to know of a case that fails."""
    graph = case.graph()
    lines = [f"seed {case.seed}, to be run again by: {RERUN.format(case)}", str(graph)]
    sch = Schedule(graph.tensors)
    try:
        drawn = case.language == "tir" and case.trace is None
        sch = _tir(case, sch, Tally()) if drawn else _scheduled(case, graph, Tally())
    except Exception:
        lines.append("while it was scheduled:")
    lines += ["steps:", str(sch.trace), str(sch.func), f"--trace '{json.dumps(sch.trace.to_json())}'"]
    try:
        run(case, Tally())
    except Exception:
        lines.append(traceback.format_exc(limit=-6))
    return "\n".join(lines)
