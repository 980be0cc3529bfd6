"""`Comparison`: the report of a comparison, with queries and output as text, HTML and JSON."""

from __future__ import annotations

import json
import math
import os
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from pegbox.checks import check_path
from pegbox.comparison.aggregate.aggregate import Aggregate, aggregate
from pegbox.comparison.aggregate.paper import write_paper
from pegbox.comparison.html import page
from pegbox.comparison.jsonform import REPORT, read_report, report_to_json
from pegbox.comparison.plot import save_plot
from pegbox.comparison.runs import BrokenRun, Run, Setup, TaskInfo
from pegbox.comparison.sentences import remarks, sentences, space_sentence
from pegbox.comparison.statistics import median
from pegbox.comparison.summary import Summary, summarize
from pegbox.comparison.table import report_text
from pegbox.comparison.verdicts import Question, Verdict, judge, questions
from pegbox.errors import ArgumentError
from pegbox.output import check_output, write_file
from pegbox.report.page import PAGE
from pegbox.shown import value_text


@dataclass(frozen=True)
class Comparison:
    """The report of `pegbox.compare`. `print` shows a table per task, and its tests in words.

    `summaries()` and `verdicts()` return the same as values, and `runs` has every curve. `broken` are the runs without
    a result, in a comparison that continued without them.
    """

    setup: Setup
    runs: tuple[Run, ...]
    broken: tuple[BrokenRun, ...] = ()

    @property
    def trials(self) -> int:
        return self.setup.trials

    @property
    def tasks(self) -> tuple[TaskInfo, ...]:
        """The tasks with at least one finished run, in their given order."""
        done = {run.task for run in self.runs}
        return tuple(task for task in self.setup.tasks if task.name in done)

    @property
    def libraries(self) -> dict[str, str]:
        """The library, with its version, of each tuner that is an adapter over one."""
        return {run.tuner: run.library for run in self.runs if run.library}

    def runs_of(self, task: str) -> dict[str, list[Run]]:
        """Group the finished runs on a task by tuner, in the tuners' given order."""
        found: dict[str, list[Run]] = {}
        name = self.setup.task(task).name
        for tuner in self.setup.tuners:
            some = [run for run in self.runs if (run.task, run.tuner) == (name, tuner)]
            if some:
                found[tuner] = some
        return found

    def best_known(self, task: str) -> float:
        """Find the best known cost: recorded or declared, or else found by any run and measured at the end."""
        info = self.setup.task(task)
        recorded = info.landscape.optimum if info.landscape is not None else info.recorded_best
        found = min((run.final_cost for run in self.runs if run.task == task), default=math.inf)
        return found if recorded is None else min(recorded, found)

    def summaries(self) -> list[Summary]:
        """Summarize each task and tuner, in their given order."""
        return [
            summarize(task, tuner, runs, best_known=self.best_known(task.name), trials=self.trials)
            for task in self.tasks
            for tuner, runs in self.runs_of(task.name).items()
        ]

    def verdicts(self) -> list[Verdict]:
        """Judge every pair of tuners on every task under every question; none if a tuner has only one run."""
        return list(self._verdicts)

    @cached_property
    def _verdicts(self) -> tuple[Verdict, ...]:
        found: list[Verdict] = []
        for task in self.tasks:
            runs = {tuner: some for tuner, some in self.runs_of(task.name).items() if len(some) > 1}
            best_known = self.best_known(task.name)
            for question in questions(self.trials, self.setup.start):
                found += judge(task.name, question, runs, trials=self.trials, best_known=best_known)
        return tuple(found)

    def median_curve(self, task: str, tuner: str) -> list[float]:
        """Compute the median over seeds of the best cost so far after each trial, in seconds."""
        runs = self.runs_of(self.setup.task(task).name).get(tuner) if isinstance(tuner, str) else None
        if runs is None:
            known = ", ".join(map(repr, self.setup.tuners))
            raise ArgumentError(
                f"median_curve: no run of tuner {value_text(tuner)} is finished; the tuners are {known}"
            )
        return [median([run.best_after(count) for run in runs]) for count in range(1, self.trials + 1)]

    def words(self, task: str) -> list[str]:
        """Summarize the tests of the tuners on a task, a sentence for each question; then their limits."""
        verdicts = [verdict for verdict in self._verdicts if verdict.task == task]
        return [*sentences(verdicts, self.setup.tuners), *remarks(self.runs_of(task), self.setup)]

    def space_verdicts(self) -> list[Verdict]:
        """Judge every pair of tasks of one computation, by the final costs of all runs, as if tasks were tuners."""
        found: list[Verdict] = []
        for name in dict.fromkeys(task.computation for task in self.tasks if task.computation):
            tasks = [task.name for task in self.tasks if task.computation == name]
            runs = {task: [run for run in self.runs if run.task == task] for task in tasks}
            best_known = min(map(self.best_known, tasks))
            found += judge(name, Question("budget", self.trials), runs, trials=self.trials, best_known=best_known)
        return found

    def space_words(self) -> list[str]:
        """Compare the spaces of one computation, one sentence for each pair, and name those that are not compared."""
        best = {task.name: min(r.final_cost for r in self.runs if r.task == task.name) for task in self.tasks}
        apart = [task.apart for task in self.tasks if task.apart]
        return [*(space_sentence(verdict, best) for verdict in self.space_verdicts()), *apart]

    def aggregate(self, trials: int | None = None) -> Aggregate:
        """Aggregate over the spaces, at a budget of `trials`: scores between random search and the optimum, ranks, ...

        Raises `ArgumentError` if no space of the comparison has known costs, as recorded ones do.
        """
        return aggregate(self, trials)

    def table(self) -> str:
        """Write the report as plain text."""
        return report_text(self)

    def plot(self, path: str | os.PathLike[str]) -> None:
        """Write the curves as a picture (.png, .svg, .pdf) with matplotlib: medians, and the middle half of the seeds.

        Raises `ArgumentError` without matplotlib, or for a suffix that it does not know.
        """
        save_plot(self, path)

    def write_paper(self, folder: str | os.PathLike[str]) -> list[Path]:
        """Write the report, tables for LaTeX and as CSV, and figures (.svg, .pdf) into a folder; return the files.

        Raises `ArgumentError` if nothing can be aggregated, see `aggregate`.
        """
        return write_paper(self, folder)

    def to_html(self, path: str | os.PathLike[str]) -> None:
        """Write one HTML file with curves, table, verdicts and setup. The file loads nothing from elsewhere.

        Without matplotlib, it has advice on installing it in place of the curves.
        """
        check_output(check_path("path", path), PAGE)
        write_file(path, page(self))

    def to_json(self) -> dict[str, Any]:
        """Write plain JSON values, infinities as null: the setup, every run, the summaries and verdicts."""
        return report_to_json(self)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a JSON file that `load` reads back; replace an older report with that name atomically."""
        out = check_path("path", path)
        check_output(out, REPORT)
        write_file(out, json.dumps(report_to_json(self), allow_nan=False) + "\n")

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Comparison:
        """Read a file written by `save`.

        Raises `RecordError` for a file that is not a report, or has a newer version.
        """
        return cls(*read_report(path))

    def __str__(self) -> str:
        return self.table()
