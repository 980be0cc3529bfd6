"""Whatever a schedule makes of a program, its script reads back to an equal one, before and after lowering.

PEGBOX_FUZZ=1000 tries that many random programs instead of the usual few.
"""

from __future__ import annotations

import os
import random

import pytest
from fuzz.cases import Tally, draw_case
from fuzz.checks import reads_back
from fuzz.driver import run
from fuzz.expressions import draw_expression_graph
from fuzz.kinds import KINDS
from hypothesis import given, settings
from hypothesis import strategies as st

from pegbox.errors import LoweringError
from pegbox.loops.from_compute import function_from_tensors
from pegbox.loops.module import IRModule
from pegbox.loops.nodes import Function
from pegbox.loops.passes import lower_function
from pegbox.loops.verify import verify
from pegbox.tir import script

CASES = int(os.environ.get("PEGBOX_FUZZ", "0")) or 32
PARTS = 8


def forms(func: Function) -> list[Function]:
    """The program before and after lowering."""
    try:
        return [func, lower_function(func), lower_function(func, simple=True)]
    except LoweringError as error:
        # A wish that only the whole program can grant.
        if not str(error).startswith("double_buffer"):
            raise
        return [func]


@pytest.mark.parametrize("part", range(PARTS))
def test_random_programs_read_back(part: int) -> None:
    for seed in range(part, CASES, PARTS):
        sch = run(draw_case(seed + 5000), Tally())
        if sch is not None:
            for func in forms(sch.func):
                verify(func)
                reads_back(func)


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_computation_reads_back(kind: str) -> None:
    for language in ("te", "tir"):
        sch = run(draw_case(7, kind, language), Tally())
        assert sch is not None
        mod = IRModule({f"f{number}": func for number, func in enumerate(forms(sch.func))})
        again = script.from_source(mod.script())
        assert again == mod
        assert str(again) == str(mod)


@given(st.integers(0, 10**9))
@settings(max_examples=40)
def test_every_operation_on_every_type_reads_back(seed: int) -> None:
    func = function_from_tensors(draw_expression_graph(random.Random(seed)).tensors)
    for form in (func, lower_function(func)):
        reads_back(form)
