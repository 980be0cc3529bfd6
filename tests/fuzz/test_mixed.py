"""Random programs under random schedules: a step is refused, or NumPy's values stay.

A run of the tests takes a part of a thousand cases; `.ci/run` takes the others, and has LLVM optimize more of them
(PEGBOX_OPTIMIZE=1).
PEGBOX_FUZZ=20000 runs that many cases with other seeds than the usual ones, and other ones each day;
`python3 tests/helpers/fuzz --help` runs them without pytest.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from functools import cache
from typing import Any

import pytest
from fuzz.batches import Outcome, run_batches
from fuzz.cases import LANGUAGES, Tally, draw_case
from fuzz.driver import run_case
from fuzz.kinds import KINDS
from fuzz.te_steps import TE_STEPS
from stage import SECOND

from pegbox.schedule import Schedule

FUZZ = int(os.environ.get("PEGBOX_FUZZ", "0"))
CHUNKS = 10
CASES = FUZZ or 760  # and those of `test_what_people_tune_...`: a thousand together
OPTIMIZED = range(4, CHUNKS)  # the chunks for `.ci/run` alone
HERE = range(CHUNKS) if FUZZ else OPTIMIZED if SECOND else range(OPTIMIZED.start)
EACH_KIND = max(20, FUZZ // 100)
FIRST = int(time.time()) // 86400 * 1_000_000 if FUZZ else 0
OTHER_TESTS = {"work_on"}  # of modules with several functions
LEAST = 2  # times that each primitive has to be done in a third of a thousand cases

TALLY = Tally()

pytestmark = pytest.mark.skipif(
    "-mtriple" in os.environ.get("PEGBOX_TARGET", "") and "PEGBOX_EMULATE" not in os.environ,
    reason="its code is not run",
)


def passed(outcomes: Iterable[Outcome[Any]]) -> Tally:
    """Return the outcomes of cases, none of which failed. They run in a child process, which may crash or hang."""
    tally = Tally()
    for outcome in outcomes:
        assert not outcome.failure, outcome.failure
        tally.update(outcome.tally)
    return tally


@pytest.mark.parametrize("chunk", HERE)
def test_mixed_random_schedules_keep_the_values(chunk: int) -> None:
    seeds = range(FIRST + chunk, FIRST + CASES, CHUNKS)
    TALLY.update(passed(run_batches(seeds, lambda seed, tally: run_case(draw_case(seed), tally))))


def test_every_primitive_was_done_often() -> None:
    """Refusals are answers too, but a test in which nothing is done would say nothing."""
    if TALLY.cases < CASES * len(HERE) // CHUNKS or HERE == OPTIMIZED:
        pytest.skip("speaks of all cases")
    done, refused = sum(TALLY.done.values()), sum(TALLY.refused.values())
    assert done > refused / 2, str(TALLY)
    names = {*Schedule.primitives() - OTHER_TESTS, *(f"te.{step.__name__}" for step in TE_STEPS)}
    rare = {name for name in names if TALLY.done[name] < LEAST}
    assert not rare, f"hardly ever done: {sorted(rare)}\n{TALLY}"


def test_most_programs_run_as_machine_code() -> None:
    if not TALLY.cases:
        pytest.skip("speaks of the cases above")
    compiled = sum(count for name, count in TALLY.checked.items() if " code for " in name)
    assert compiled > TALLY.cases / 2, str(TALLY)
    assert all(TALLY.checked[f"language {language}"] for language in LANGUAGES), str(TALLY)


@cache
def of_all_kinds() -> list[Outcome[tuple[str, int]]]:
    """Some cases of each kind, from one child process: forking that of pytest takes a while."""
    seeds = range(FIRST, FIRST + EACH_KIND) if FUZZ else range(SECOND, EACH_KIND, 2)
    keys = [(kind, seed) for kind in KINDS for seed in seeds]
    return list(run_batches(keys, lambda key, tally: run_case(draw_case(key[1], key[0], "te"), tally)))


@pytest.mark.parametrize("kind", KINDS)
def test_what_people_tune_keeps_its_values_under_te(kind: str) -> None:
    tally = passed(outcome for outcome in of_all_kinds() if outcome.key[0] == kind)
    assert tally.cases > tally.refused["(a whole TE schedule)"]
