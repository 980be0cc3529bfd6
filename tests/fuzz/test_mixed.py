"""Random graphs under random schedules of both languages: a step is refused, or NumPy's values stay.

A run of the tests takes half of a thousand cases; `.ci/run` takes the others with LLVM's optimizer (PEGBOX_OPTIMIZE=1).
PEGBOX_FUZZ=20000 runs that many cases with other seeds than the usual ones, and other ones each day;
`python3 tests/helpers/fuzz --help` runs them without pytest.
"""

from __future__ import annotations

import os
import time

import pytest
from fuzz.driver import Tally, draw_case, run_case
from fuzz.kinds import KINDS
from fuzz.te_steps import TE_STEPS
from stage import SECOND

from pegbox.schedule import Schedule

FUZZ = int(os.environ.get("PEGBOX_FUZZ", "0"))
CHUNKS = 20
CASES = FUZZ or 760  # and those of `test_what_people_tune_...`: a thousand together
OPTIMIZED = range(8, CHUNKS)  # the chunks for `.ci/run` alone
HERE = range(CHUNKS) if FUZZ else OPTIMIZED if SECOND else range(OPTIMIZED.start)
EACH_KIND = max(20, FUZZ // 100)
FIRST = int(time.time()) // 86400 * 1_000_000 if FUZZ else 0
OTHER_TESTS = {"work_on"}  # of modules with several functions
LEAST = 5  # times that each primitive has to be done

TALLY = Tally()


@pytest.mark.parametrize("chunk", HERE)
def test_mixed_random_schedules_keep_the_values(chunk: int) -> None:
    for seed in range(FIRST + chunk, FIRST + CASES, CHUNKS):
        run_case(draw_case(seed), TALLY)


def test_every_primitive_was_done_often() -> None:
    """Refusals are answers too, but a test in which nothing is done would say nothing."""
    if TALLY.cases < CASES * len(HERE) // CHUNKS or HERE == OPTIMIZED:
        pytest.skip("speaks of all cases")
    done, refused = sum(TALLY.done.values()), sum(TALLY.refused.values())
    assert done > refused / 2, str(TALLY)
    names = {*Schedule.primitives() - OTHER_TESTS, *(f"te.{step.__name__}" for step in TE_STEPS)}
    rare = {name for name in names if TALLY.done[name] < LEAST}
    assert not rare, f"hardly ever done: {sorted(rare)}\n{TALLY}"


@pytest.mark.parametrize("kind", KINDS)
def test_what_people_tune_keeps_its_values_under_te(kind: str) -> None:
    tally = Tally()
    for seed in range(EACH_KIND) if FUZZ else range(SECOND, EACH_KIND, 2):
        run_case(draw_case(FIRST + seed, kind, "te"), tally)
    assert tally.cases > tally.refused["(a whole TE schedule)"]
