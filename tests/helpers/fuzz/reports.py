"""Cases that fail: made smaller, and reported with everything that a new run needs."""

from __future__ import annotations

import json
import random
import traceback
from collections.abc import Callable
from dataclasses import replace

from fuzz.cases import Case, Tally
from fuzz.schedules import scheduled, with_steps
from fuzz.scripts import draw_script, read
from pegbox.schedule import Schedule

Run = Callable[[Case, Tally], object]


def shrunk(case: Case, kind: type[Exception], run: Run) -> Case:
    """A case with as few steps as possible that still fails, in the same way."""
    width = max(len(case.steps) // 2, 1)
    while case.steps and case.language != "sketch":
        for start in range(0, len(case.steps), width):
            fewer = replace(case, steps=case.steps[:start] + case.steps[start + width :])
            if _fails(fewer, kind, run):
                case = fewer
                break
        else:
            if width == 1:
                break
            width //= 2
    return case


def _fails(case: Case, kind: type[Exception], run: Run) -> bool:
    try:
        run(case, Tally())
    except Exception as error:
        return type(error) is kind
    return False


def report(case: Case, run: Run, first: Exception) -> str:
    """Write the text that a person needs for a case that fails; `first` is its error before shrinking."""
    lines = [f"seed {case.seed}, to be run again by: {case.command}", *_program(case)]
    try:
        run(case, Tally())
    except Exception as error:
        lines += traceback.format_exception(error, limit=-6)
    else:
        lines += ["it passes when it is run again; at first:", *traceback.format_exception(first, limit=-6)]
    return "\n".join(lines)


def _program(case: Case) -> list[str]:
    """The graph or the script, and the program after the steps that are left."""
    if case.language == "sizes":
        return []
    if case.language == "script":
        original = read(draw_script(random.Random(case.seed)))
        sch, lines = Schedule(original), [original.script()]
        if not case.seed % 2:
            return lines
    else:
        graph = case.graph()
        sch, lines = Schedule(graph.tensors), [str(graph)]
        if case.language == "sketch":
            return lines
    try:
        if case.language in ("script", "tir") and case.trace is None:
            with_steps(case, sch, Tally())
        else:
            sch = scheduled(case, graph, Tally())
    except Exception:
        lines.append("while it was scheduled:")
    return [*lines, "steps:", str(sch.trace), str(sch.func), f"--trace '{json.dumps(sch.trace.to_json())}'"]
