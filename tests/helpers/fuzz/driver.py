"""One random case after the other: a program, a random schedule of it, and everything that is asked of the result.

A case that fails is shrunk (steps are left out while it still fails) and reported with the seed, the graph, the steps
and the program (`reports.py`).
"""

from __future__ import annotations

import random
from itertools import islice

from fuzz import checks
from fuzz.cases import Case, CaseFailed, Tally
from fuzz.drawing import Graph
from fuzz.kernels import compile_elsewhere, draw_effort
from fuzz.reports import report, shrunk
from fuzz.schedules import scheduled, with_steps
from fuzz.scripts import check_script, draw_script, read
from fuzz.sizes import check_sizes
from fuzz.sketches import check_sketch
from fuzz.targets import draw_target
from pegbox.errors import CompileError, LoweringError
from pegbox.expr.visit import walk as walk_expr
from pegbox.loops.nodes import Function
from pegbox.loops.passes import lower_function
from pegbox.loops.verify import verify
from pegbox.loops.visit import expressions, walk
from pegbox.schedule import Schedule

MOST_NODES = 50_000
"""Inlining one thing into another may double a program each time: above so many nodes a case takes minutes."""


class Refused(Exception):
    """A program that is not compiled, for a reason that is no defect."""


def run_case(case: Case, tally: Tally) -> None:
    """Run a case, and shrink it if it fails.

    Raises:
        CaseFailed: with a report on the shrunk case.
    """
    try:
        run(case, tally)
    except Exception as error:
        raise CaseFailed(report(shrunk(case, type(error), run), run)) from None


def run(case: Case, tally: Tally) -> Schedule | None:
    """Schedule and check; gives the schedule, where there is one. Raises whatever goes wrong."""
    tally.cases += 1
    tally.checked[f"language {case.language}"] += 1
    rng = random.Random(case.seed + 1)
    target, effort = draw_target(rng), draw_effort(rng, thorough=case.thorough)
    match case.language:
        case "sketch":
            tally.checked[f"{effort.name.lower()} code for {target.cpu}"] += 1
            check_sketch(case.graph(), rng, target, effort)
            return None
        case "sizes":
            check_sizes(case.seed, case.steps, rng, target, effort, tally)
            return None
        case "script":
            original = read(draw_script(random.Random(case.seed)))
            sch = Schedule(original)
            if case.seed % 2:
                with_steps(case, sch, tally)
            verify(sch.func)
            check_script(original, sch.func, case.seed, target, effort)
            return sch
        case _:
            graph = case.graph()
            sch = scheduled(case, graph, tally)
            try:
                _check(case, graph, sch, tally)
            except Refused as reason:
                tally.refused[str(reason)] += 1
            return sch


def _check(case: Case, graph: Graph, sch: Schedule, tally: Tally) -> None:
    rng = random.Random(case.seed + 1)
    target, effort = draw_target(rng), draw_effort(rng, thorough=case.thorough)
    if _is_huge(sch.func):
        raise Refused("(a program that large)")
    verify(sch.func)
    lowered = _lowered(sch.func, simple=rng.random() < 0.15)
    verify(lowered)
    share = rng.random()
    if (case.thorough or share < 0.5) and checks.is_short(lowered) and not graph.foreign:
        tally.checked["interpreted"] += 1
        checks.interpreted(lowered, graph, rng)
    if case.thorough or share > 0.3 or case.trace is not None:
        tally.checked[f"{effort.name.lower()} code for {target.cpu}"] += 1
        try:
            checks.machine_code(lowered, graph, target, effort)
        except CompileError as error:
            if "unrolled" not in str(error):
                raise
            raise Refused("(a program that long)") from None
    if case.seed % 16 == 7 and not graph.foreign:
        tally.checked["code for another architecture"] += 1
        compile_elsewhere(lowered, effort)
    if case.seed % 8 == 0:
        tally.checked["read back"] += 1
        checks.reads_back(sch.func)
    if case.seed % 8 == 1 and case.language == "tir":
        tally.checked["replayed"] += 1
        checks.replays(sch, graph.tensors)


def _lowered(func: Function, *, simple: bool) -> Function:
    try:
        return lower_function(func, simple=simple)
    except LoweringError as error:
        # A wish that only the whole program can grant: it names the buffer and the remedy.
        if not str(error).startswith("double_buffer"):
            raise
        raise Refused("(a double buffer)") from None


def _is_huge(func: Function) -> bool:
    nodes = (node for stmt in walk(func.body) for expr in expressions(stmt) for node in walk_expr(expr))
    return next(islice(nodes, MOST_NODES, None), None) is not None
