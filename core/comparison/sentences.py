"""Verdicts as sentences: the winners, the indistinguishable tuners, and the limits of few seeds."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence

from pegbox.comparison.runs import Run, Setup
from pegbox.comparison.statistics import median, smallest_p
from pegbox.comparison.verdicts import LEVEL, Question, Verdict
from pegbox.task.speed_text import format_seconds

LEAST_WAIT = 0.05
"""The smallest share of runs' time spent waiting for cores that is worth a remark."""


def sentences(verdicts: Sequence[Verdict], tuners: Sequence[str]) -> list[str]:
    """Write one for each question, e.g. "xgb beats random at 100 trials (p = 0.002); xgb and ga cannot be told apart".

    `tuners` is the order of names in a group.
    """
    written = []
    for question in dict.fromkeys(verdict.question for verdict in verdicts):
        asked = [verdict for verdict in verdicts if verdict.question == question]
        decided = [f"{_decided(verdict)} ({p_text(verdict.corrected)})" for verdict in asked if verdict.decided]
        groups = _undecided([verdict for verdict in asked if not verdict.decided], tuners)
        if not decided:
            budget = question.kind == "budget"
            place = f"at {question.at:g} trials" if budget else f"by their trials to {question.at:.0%}"
            groups = [groups[0].replace(" (", f" {place} (", 1), *groups[1:]]
        written.append("; ".join([*decided, *groups]) + ".")
    return written


def space_sentence(verdict: Verdict, best: Mapping[str, float]) -> str:
    """Compare two spaces of one computation, e.g. "a has a better space than b (p = 0.002): its best ...".

    Args:
        best: the lowest final cost of any run by task; infinite if none found anything valid.
    """
    one, other = verdict.better, verdict.worse
    if best[one] == best[other] == math.inf:
        return f"Of the spaces of {one} and {other}, which compute the same, no run found anything valid."
    p = p_text(verdict.corrected)
    if not verdict.decided:
        one, other = sorted((one, other), key=best.__getitem__)
    first, second = (format_seconds(best[task]) if best[task] < math.inf else "nothing valid" for task in (one, other))
    shown = f"the best {first}, against {second}"
    if max(best[one], best[other]) < math.inf:
        shown += f" ({best[other] / best[one]:.2f}x)"
    if verdict.decided:
        return f"{one} has a better space than {other}, which computes the same ({p}): {shown}."
    return f"The spaces of {one} and {other}, which compute the same, cannot be told apart ({p}): {shown}."


def remarks(runs: Mapping[str, Sequence[Run]], setup: Setup) -> list[str]:
    """List the limits of the sentences; `runs` are those of one task by tuner."""
    notes = _experience(runs) + (_run_queue_wait(runs) if setup.jobs > 1 else [])
    for tuner, some in runs.items():
        if ended := [run for run in some if len(run.curve) < setup.trials]:
            why = joined(sorted({run.stopped_because for run in ended}))
            fewest = min(len(run.curve) for run in ended)
            many = f"{len(ended)} of {len(some)} runs"
            notes.append(f"{tuner} ended early in {many} ({why}), at the earliest after {fewest} trials.")
        if dropped := sum(run.dropped for run in some):  # these cost the tuner's time, but no trials
            notes.append(f"{dropped:,} proposals of {tuner} were not measured: repetitions, or more than requested.")
    counts = sorted(len(some) for some in runs.values())
    absent = [tuner for tuner in setup.tuners if tuner not in runs]
    if len(counts) < 2 and absent:
        without = f"No run of {joined(absent)} is finished"
        return [*notes, f"{without}: there is nothing to compare {joined(list(runs))} with."] if runs else notes
    if len(counts) < 2:
        return [*notes, "There is one tuner, so there is nothing to compare."]
    if counts[-1] < 2:
        return [*notes, "One seed: no statistics. A difference may be luck; seeds=10 can tell."]
    if counts[0] < 2:
        notes.append("A tuner with one finished seed is left out of the tests.")
    tested = [count for count in counts if count > 1]
    return notes + (_power(tested) if len(tested) > 1 else [])


def _experience(runs: Mapping[str, Sequence[Run]]) -> list[str]:
    """Name the tuners that began with measurements of other workloads, which are thus compared as well."""
    with_it = [tuner for tuner, some in runs.items() if any(run.experienced for run in some)]
    if not with_it:
        return []
    others = [tuner for tuner in runs if tuner not in with_it]
    without = f"; {joined(others)} did not" if others else ""
    return [
        f"{joined(with_it)} began with experience, measurements of other workloads{without}. To compare what "
        "tuners learn by themselves, leave it out: experience=False, or --no-experience."
    ]


def _run_queue_wait(runs: Mapping[str, Sequence[Run]]) -> list[str]:
    """Tell how long runs waited for cores during others, since these waits are part of the tuners' overhead."""
    share = median([run.run_queue_wait for some in runs.values() for run in some])
    if share < LEAST_WAIT:
        return []
    return [
        f"Runs waited for a core for {share:.0%} of their time, as there were several at the same time; overheads "
        "include this waiting. With jobs=1 (--jobs 1), or jobs='auto' on a machine at rest, they do not."
    ]


def question_text(question: Question) -> str:
    """Name the subject of a question: "best after 100 trials", "trials to 95% of the best known"."""
    if question.kind == "budget":
        return f"best after {question.at:g} trials"
    return f"trials to {question.at:.0%} of the best known"


def p_text(p: float) -> str:
    """Write a p value with two digits, the precision of a test of a few dozen runs."""
    return "p < 0.0001" if p < 1e-4 else f"p = {p:.2g}" if p < 0.995 else "p = 1"


def joined(names: Sequence[str]) -> str:
    """Join names as in a sentence: a; a and b; a, b and c."""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _decided(verdict: Verdict) -> str:
    question = verdict.question
    if question.kind == "budget":
        return f"{verdict.better} beats {verdict.worse} at {question.at:g} trials"
    return f"{verdict.better} reaches {question.at:.0%} of the best known sooner than {verdict.worse}"


def _undecided(verdicts: Sequence[Verdict], tuners: Sequence[str]) -> list[str]:
    """List groups of indistinguishable tuners, such that each undecided pair is in at least one of them."""
    ps = {frozenset((verdict.better, verdict.worse)): verdict.corrected for verdict in verdicts}
    left = dict.fromkeys(ps)
    said: list[str] = []
    while left:
        group = _group(next(iter(left)), ps, tuners)
        inside = [frozenset(pair) for pair in itertools.combinations(group, 2)]
        lowest = p_text(min(ps[pair] for pair in inside))
        p = lowest if len(inside) == 1 or lowest == "p = 1" else lowest.replace("=", ">=")
        said.append(f"{joined(group)} cannot be told apart ({p})")
        for pair in inside:
            left.pop(pair, None)
    return said


def _group(pair: frozenset[str], ps: Mapping[frozenset[str], float], tuners: Sequence[str]) -> list[str]:
    """Find the pair and every further tuner that is indistinguishable from all in the group."""
    group = set(pair)
    for tuner in tuners:
        if all(frozenset((tuner, other)) in ps for other in group - {tuner}):
            group.add(tuner)
    return sorted(group, key=tuners.index)


def _power(counts: Sequence[int]) -> list[str]:
    """Name the smallest possible p if it is not below the level; `counts` are the seeds per tuner, ascending."""
    pairs = math.comb(len(counts), 2)
    low = smallest_p(counts[0], counts[1])
    if low * pairs < LEVEL:
        return []
    over = f" ({min(1.0, low * pairs):.2g} when corrected for {pairs} pairs)" if pairs > 1 else ""
    enough = next(seeds for seeds in itertools.count(2) if smallest_p(seeds, seeds) * pairs < LEVEL)
    return [
        f"With {counts[0]} seeds p is at least {low:.2g}{over}, so hardly anything can be told apart at {LEVEL:g}: "
        f"take {enough} seeds or more."
    ]
