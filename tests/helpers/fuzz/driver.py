"""One random case after the other: a program, a random schedule of it, and everything that is asked of the result.

A case that fails is shrunk (steps are left out while it still fails) and reported with the seed, the graph, the steps
and the program (`reports.py`).
"""

from __future__ import annotations

import random
from itertools import islice

from fuzz import checks
from fuzz.cases import Case, CaseFailed, Tally
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


_REFUSALS = {
    "double_buffer": "(a double buffer)",  # which only the whole program can grant
    "is stored in": "(another place for a stage)",  # as above
    "emits more than": "(a program that long)",
    "assumes that neighbours": "(a stride that a C function does not know)",
    "so that no stride of dimension": "(a stride that some sizes cannot have)",
}
"""The refusals that lowering and the emitter may make, by words of the message."""


def run_case(case: Case, tally: Tally) -> None:
    """Run a case, and shrink it if it fails.

    Raises:
        CaseFailed: with a report on the shrunk case.
    """
    try:
        run(case, tally)
    except Exception as error:
        raise CaseFailed(report(shrunk(case, type(error), run), run, error)) from None


def run(case: Case, tally: Tally) -> Schedule | None:
    """Schedule and check; gives the schedule, where there is one. Raises whatever goes wrong."""
    tally.cases += 1
    tally.checked[f"language {case.language}"] += 1
    try:
        return _run(case, tally)
    except (LoweringError, CompileError) as error:
        reason = next((reason for words, reason in _REFUSALS.items() if words in str(error)), None)
        if reason is None:
            raise
        tally.refused[reason] += 1
        return None


def _run(case: Case, tally: Tally) -> Schedule | None:
    rng = random.Random(case.seed + 1)
    target, effort = draw_target(rng), draw_effort(rng, thorough=case.thorough)
    code = f"{effort.name.lower()} code for {target.cpu}"
    match case.language:
        case "sketch":
            tally.checked[code] += 1
            check_sketch(case.graph(), rng, target, effort)
            return None
        case "sizes":
            check_sizes(case.seed, case.steps, rng, target, effort, tally)
            return None
        case "script":
            tally.checked[code] += 1
            original = read(draw_script(random.Random(case.seed)))
            sch = Schedule(original)
            if case.seed % 2:
                with_steps(case, sch, tally)
            verify(sch.func)
            check_script(original, sch.func, case.seed, target, effort)
            return sch
    graph = case.graph()
    sch = scheduled(case, graph, tally)
    if _is_huge(sch.func):
        tally.refused["(a program that large)"] += 1
        return sch
    verify(sch.func)
    lowered = lower_function(sch.func, simple=rng.random() < 0.15)
    verify(lowered)
    share = rng.random()
    interprets = (case.thorough or share < 0.35) and checks.is_short(lowered) and not graph.foreign
    if interprets:
        tally.checked["interpreted"] += 1
        checks.interpreted(lowered, graph, rng)
    if case.thorough or share > 0.35 or not interprets:
        tally.checked[code] += 1
        checks.machine_code(lowered, graph, target, effort)
    if case.seed % 16 == 7 and not graph.foreign:
        tally.checked["code for another architecture"] += 1
        compile_elsewhere(lowered, effort)
    if case.seed % 8 == 0:
        tally.checked["read back"] += 1
        checks.reads_back(sch.func)
    if case.seed % 8 == 1 and case.language == "tir":
        tally.checked["replayed"] += 1
        checks.replays(sch, graph.tensors)
    return sch


def _is_huge(func: Function) -> bool:
    nodes = (node for stmt in walk(func.body) for expr in expressions(stmt) for node in walk_expr(expr))
    return next(islice(nodes, MOST_NODES, None), None) is not None
