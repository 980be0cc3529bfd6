"""Make docs/league.md: our tuners and those of other libraries on the suites of spaces.

    python3 benchmarks/league.py runs/                          # make runs, hours on one core; the same command goes on
    python3 benchmarks/league.py runs/ --minutes 30 --suites hard,knobs --seeds 2 --tuners bayes,optuna_tpe
    python3 benchmarks/league.py runs/ --trials 50 --tuners optuna_gp      # a slow tuner gets the first budgets only
    python3 benchmarks/league.py runs/ --trials 50 --first 5 --seeds 20    # short runs of more seeds than the long ones
    python3 benchmarks/league.py runs/ --page docs/league.md    # make the page from the finished runs

`runs/` gets a log for each suite, with experience and without; finished runs are never made again. After a change of a
tuner, `--forget bayes` drops its runs. Nothing is timed but the tuners: costs come from records and functions.

The page compares tuners by the seeds that all of them have on a space; it says how many these are. It ends with the
bar for the default tuner.
"""

from __future__ import annotations

import argparse
import datetime
import json
import math
import statistics
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from importlib import metadata
from pathlib import Path

import pegbox as pb
from pegbox.codegen.targets.host import cpu_name, describe_host
from pegbox.comparison import Comparison
from pegbox.comparison.run_log import longest_runs
from pegbox.comparison.runs import Run, Setup
from pegbox.comparison.statistics import mann_whitney, median
from pegbox.comparison.verdicts import LEVEL
from pegbox.hooks import registry
from pegbox.suites import load_suite

DEFAULT = "bayes"
OURS = ("bayes", "xgb", "evolution", "ga", "droplet", "random")
THEIRS = ("optuna_tpe", "optuna_cmaes", "optuna_nsga2", "nevergrad", "forest", "kernel_tuner", "smac", "optuna_gp")
SUITES = ("hard", "knobs", "templates", "sketches")
BUDGETS = (25, 50, 100, 200)
EXPERIENCED = ("bayes", "xgb", "evolution", "random")
"""The tuners that are also compared with experience, which others cannot use, and the baseline."""

FEWEST = 1
"""The fewest seeds of a tuner on a space that count."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="where the runs are kept")
    parser.add_argument("--suites", default=",".join(SUITES))
    parser.add_argument("--tuners", default=",".join((*OURS, *THEIRS)))
    parser.add_argument("--seeds", type=int, default=5, help="the end of the seeds: the last one is this number less 1")
    parser.add_argument("--first", type=int, default=0, help="the first seed; earlier ones may have longer runs")
    parser.add_argument("--trials", type=int, default=max(BUDGETS), choices=BUDGETS, help="the length of runs")
    parser.add_argument("--jobs", default="1", help="runs at a time")
    parser.add_argument("--minutes", type=float, default=math.inf, help="start no further seed of a suite after this")
    parser.add_argument("--experience", action="store_true", help="make the runs with experience")
    parser.add_argument("--forget", help="drop the runs of this tuner, and end")
    parser.add_argument("--page", type=Path, help="write the page, and make no runs")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    suites, tuners = options.suites.split(","), options.tuners.split(",")
    if options.forget:
        forget(options.folder, options.forget)
    elif options.page:
        options.page.write_text("\n".join(page(options.folder, suites, tuners)) + "\n", encoding="utf-8")
    else:
        make(options.folder, suites, tuners, options)
    return 0


def make(folder: Path, suites: Sequence[str], tuners: Sequence[str], options: argparse.Namespace) -> None:
    """Make the runs that are missing; where time is short, a seed of all suites before the next."""
    began = time.monotonic()
    if options.experience:
        tuners = [tuner for tuner in tuners if tuner in EXPERIENCED]
    # A comparison opens its spaces once for all seeds, which takes as long as a few seeds of a fast tuner.
    seeds = [*range(options.first, options.seeds)]
    rounds = [[seed] for seed in seeds] if math.isfinite(options.minutes) else [seeds]
    for seeds in rounds:
        for suite in suites:
            if time.monotonic() - began > 60 * options.minutes:
                return
            pb.compare(
                suite=suite,
                tuners=tuners,
                trials=options.trials,
                seeds=seeds,
                experience=options.experience,
                jobs=options.jobs if options.jobs == "auto" else int(options.jobs),
                log=log_of(folder, suite, options.experience),
                progress=False,
            )
            print(f"{suite}, seeds {seeds}: {time.monotonic() - began:.0f} s", flush=True)


def log_of(folder: Path, suite: str, experience: bool) -> Path:
    return folder / f"{suite}-{'experience' if experience else 'alone'}.jsonl"


def lines_of(log: Path) -> Iterator[dict]:
    for line in log.read_text(encoding="utf-8").splitlines() if log.is_file() else ():
        try:
            yield json.loads(line)
        except ValueError:  # torn by a kill
            continue


def forget(folder: Path, tuner: str) -> None:
    for log in folder.glob("*.jsonl"):
        kept = [json.dumps(line) for line in lines_of(log) if line["run"]["tuner"] != tuner]
        log.write_text("".join(f"{line}\n" for line in kept), encoding="utf-8")


def reaches(run: Run, budget: int) -> bool:
    """Test whether a run is as long as the budget; one that used up its space is as long as any."""
    return len(run.curve) >= budget or run.stopped_because != "trials"


@dataclass(frozen=True)
class League:
    """The comparisons of one part of the page, one for each suite, of the same tuners.

    A tuner may have more seeds of short runs than of long ones: each budget has the runs that reach it.
    """

    reports: dict[str, Comparison]

    @cached_property
    def at(self) -> dict[int, dict[str, Comparison]]:
        """The comparisons of the runs that reach each budget, by suite."""
        found: dict[int, dict[str, Comparison]] = {}
        for budget in BUDGETS:
            found[budget] = {}
            for suite, report in self.reports.items():
                runs = tuple(run for run in report.runs if reaches(run, budget))
                tuners = tuple(tuner for tuner in report.setup.tuners if any(run.tuner == tuner for run in runs))
                if runs:
                    found[budget][suite] = Comparison(replace(report.setup, tuners=tuners, planned=len(runs)), runs)
        return found

    @cached_property
    def scores(self) -> dict[int, dict[str, dict[tuple[str, str], float]]]:
        """The scores of each tuner at each budget, by suite and space."""
        found: dict[int, dict[str, dict[tuple[str, str], float]]] = {}
        for budget, reports in self.at.items():
            held = found[budget] = defaultdict(dict)
            for suite, report in reports.items():
                for score in report.aggregate(budget).scores:
                    held[score.tuner] |= {(suite, one.space): one.score for one in score.spaces}
        return found

    @property
    def tuners(self) -> list[str]:
        return list(dict.fromkeys(run.tuner for report in self.reports.values() for run in report.runs))

    @cached_property
    def seeds(self) -> dict[int, dict[str, int]]:
        """The median number of seeds over the spaces, by budget and tuner.

        A tuner is missing at a budget that it does not reach on all of its spaces.
        """
        counts: dict[int, dict[str, list[int]]] = {budget: defaultdict(list) for budget in BUDGETS}
        for report in self.reports.values():
            for task in report.tasks:
                for tuner, runs in report.runs_of(task.name).items():
                    for budget in BUDGETS:
                        counts[budget][tuner].append(sum(reaches(run, budget) for run in runs))
        return {
            budget: {tuner: int(statistics.median(some)) for tuner, some in held.items() if all(some)}
            for budget, held in counts.items()
        }

    def overheads(self) -> dict[str, float]:
        """Return, for each tuner, the median over the spaces of its own milliseconds for each trial."""
        spent: dict[str, dict[tuple[str, str], list[float]]] = defaultdict(lambda: defaultdict(list))
        for suite, report in self.reports.items():
            for run in report.runs:
                seconds = run.tuner_seconds * (1.0 - run.run_queue_wait)
                spent[run.tuner][suite, run.task].append(seconds / max(1, len(run.curve)) * 1e3)
        return {
            tuner: statistics.median(statistics.median(values) for values in held.values())
            for tuner, held in spent.items()
        }


def league_of(folder: Path, suites: Sequence[str], tuners: Sequence[str], experience: bool) -> League:
    """Read the finished runs."""
    reports = {}
    for suite in suites:
        log = log_of(folder, suite, experience)
        if not log.is_file():
            continue
        opened = setup_of(suite, log, experience)
        runs = [run for run in longest_runs(log, opened, BUDGETS) if run.tuner in tuners]
        if not runs:
            continue
        there = [tuner for tuner in tuners if any(run.tuner == tuner for run in runs)]
        seeds = tuple(sorted({run.seed for run in runs}))
        setup = replace(opened, tuners=tuple(there), seeds=seeds, planned=len(runs))
        reports[suite] = Comparison(setup, tuple(runs))
    return League(reports)


def setup_of(suite: str, log: Path, experience: bool) -> Setup:
    """Return the setup of a comparison on a suite, with the landscapes of its spaces.

    Computing these takes most of a minute, so they are kept beside the log until the content of the suite changes.
    """
    file = log.with_name(f"{log.stem}-spaces.json")
    if file.is_file() and (kept := Comparison.load(file).setup).suite_digest == load_suite(suite).digest:
        return kept
    # The cheapest tuner opens the spaces; its run is in the log, or is made now.
    opened = pb.compare(
        suite=suite, tuners=["random"], trials=max(BUDGETS), seeds=[0], experience=experience, log=log, progress=False
    )
    opened.save(file)
    return opened.setup


def on_equal_terms(report: Comparison, first: str, second: str) -> Iterator[tuple[str, list[Run], list[Run]]]:
    """Yield the runs of two tuners on each space, by the seeds that both have."""
    for task in report.tasks:
        of = report.runs_of(task.name)
        mine, other = ({run.seed: run for run in of.get(tuner, ())} for tuner in (first, second))
        both = sorted(mine.keys() & other.keys())
        if len(both) >= FEWEST:
            yield task.name, [mine[seed] for seed in both], [other[seed] for seed in both]


@dataclass(frozen=True)
class Duel:
    """A comparison of two tuners on the `spaces` that both have.

    On `lost` of them, the second has the lower median of the best costs; on `significant` of these, the difference is
    more than luck by the test of Mann and Whitney.
    """

    lost: int
    significant: int
    spaces: int

    def __str__(self) -> str:
        return f"{self.lost} ({self.significant}) of {self.spaces}"


def duel(league: League, first: str, second: str, budget: int) -> Duel:
    """Compare two tuners by their best costs after `budget` trials."""
    lost = significant = spaces = 0
    for report in league.at[budget].values():
        for _, mine, other in on_equal_terms(report, first, second):
            ours, theirs = ([run.best_after(budget) for run in runs] for runs in (mine, other))
            spaces += 1
            if median(theirs) < median(ours):
                lost += 1
                significant += mann_whitney(ours, theirs) < LEVEL
    return Duel(lost, significant, spaces)


def paired(league: League, first: str, second: str, budget: int) -> tuple[float, float, int]:
    """Return the mean scores of two tuners over the spaces that both have, and the number of these spaces."""
    scores = league.scores[budget]
    both = sorted(scores.get(first, {}).keys() & scores.get(second, {}).keys())
    if not both:
        return math.nan, math.nan, 0
    return (*(statistics.fmean(scores[tuner][space] for space in both) for tuner in (first, second)), len(both))


def page(folder: Path, suites: Sequence[str], tuners: Sequence[str]) -> list[str]:
    today = datetime.date.today().isoformat()
    alone = league_of(folder, suites, tuners, experience=False)
    lines = [
        "# The league of tuners",
        "",
        "The league compares pegbox's tuners with those of other libraries on the [suites](suites.md).",
        f"`benchmarks/league.py` wrote this page on {today}.",
        "",
        f"- Machine: {describe_host()}, {cpu_name()}. Costs come from records and functions, so the machine affects",
        "  only the tuners' own times. These do not count the time that a run waited for a core, but are longer while",
        "  other programs run.",
        f"- Versions: pegbox {pb.__version__}, {', '.join(versions(alone.tuners))}.",
        "- Score: the performance between calculated random search (0) and the optimum (1), averaged over the trials",
        "  and then over the spaces. A tuner that is worse than random search is below 0.",
        "  A score covers all seeds of a tuner and all spaces with its runs; scores of fewer seeds or spaces are",
        "  not comparable with others. The bar below compares two tuners on the spaces that both have.",
        "- Seeds are numbered from 0. A tuner may have more seeds of short runs than of long ones (`--first`); then",
        "  the table has a number of seeds for each budget, the median over the spaces. A dash means that the runs",
        "  of a slow tuner end before that budget.",
        "- Every tuner has its own defaults. [Optimizers of other libraries](tuners.md#optimizers-of-other-libraries)",
        "  see only the knobs: no features of programs, no experience.",
        "",
    ]
    experienced = league_of(folder, suites, tuners, experience=True)
    if absent := [f"`{tuner}`" for tuner in tuners if tuner not in alone.tuners]:
        lines += [f"There are no runs of {', '.join(absent)} yet.", ""]
    if not experienced.reports:
        lines += ["There are no runs with experience yet.", ""]
    lines += ["## Without experience", "", *part(alone)]
    if experienced.reports:
        lines += ["## With experience", "", *part(experienced)]
    if DEFAULT in alone.tuners:
        lines += ["## The bar", "", *bar(alone)]
    return lines


def versions(tuners: Sequence[str]) -> list[str]:
    packages = {getattr(registry.resolve("tuner", tuner), "package", None) for tuner in tuners}
    return [f"{package} {metadata.version(package)}" for package in sorted(packages - {None})]


def numbers(counts: Sequence[int]) -> str:
    """Write the counts at the budgets, or one number if they are equal."""
    return str(counts[0]) if len({*counts}) == 1 else ", ".join(map(str, counts))


def part(league: League) -> list[str]:
    """Write a table of tuners: scores at each budget, and the milliseconds that each takes for a trial."""
    seeds, overheads, scores = league.seeds, league.overheads(), league.scores
    lines = [
        f"| tuner | {' | '.join(f'{budget} trials' for budget in BUDGETS)} | spaces × seeds | ms a trial |",
        f"| --- |{' --- |' * len(BUDGETS)} --- | --- |",
    ]

    def reached(tuner: str) -> list[int]:
        return [budget for budget in BUDGETS if tuner in seeds[budget]]

    def mean(tuner: str, budget: int) -> float:
        return statistics.fmean(scores[budget][tuner].values())

    def rank(tuner: str) -> tuple[int, float]:
        last = max(reached(tuner))
        return -last, -mean(tuner, last)

    for tuner in sorted(league.tuners, key=rank):
        cells = [f"{mean(tuner, budget):.3f}" if tuner in seeds[budget] else "–" for budget in BUDGETS]
        held = f"{len(scores[BUDGETS[0]][tuner])} × {numbers([seeds[budget][tuner] for budget in reached(tuner)])}"
        lines.append(f"| `{tuner}` | {' | '.join(cells)} | {held} | {overheads[tuner]:.1f} |")
    return [*lines, ""]


def bar(league: League) -> list[str]:
    """Write the bar for the default tuner against each other one: the spaces on which it is beaten."""
    lines = [
        f"`{DEFAULT}` should have the higher score at each budget, and be beaten on at most a fifth of the spaces.",
        "It is beaten on a space if the other's median of the best costs is lower, by however little. The number in",
        f"brackets counts spaces where this is more than luck, p < {LEVEL} by the test of Mann and Whitney; it needs",
        "four seeds. Medians are over the spaces and seeds that both tuners have. The bar counts the number before the",
        "brackets.",
        "",
        f"| beaten by | seeds | {' | '.join(f'at {budget}' for budget in BUDGETS)} |",
        f"| --- | --- |{' --- |' * len(BUDGETS)}",
    ]
    for tuner in league.tuners:
        if tuner == DEFAULT:
            continue
        cells, shared = [], []
        for budget in BUDGETS:
            seeds = league.seeds[budget]
            if tuner not in seeds or DEFAULT not in seeds:
                cells.append("–")
                continue
            shared.append(min(seeds[tuner], seeds[DEFAULT]))
            mine, other, _ = paired(league, DEFAULT, tuner, budget)
            found = duel(league, DEFAULT, tuner, budget)
            higher = "" if mine >= other else f", score {mine:.3f} : {other:.3f}"
            good = mine >= other and found.lost <= found.spaces / 5
            cells.append(f"{found}{higher} {'✓' if good else '✗'}")
        lines.append(f"| `{tuner}` | {numbers(shared)} | {' | '.join(cells)} |")
    return [*lines, ""]


if __name__ == "__main__":
    raise SystemExit(main())
