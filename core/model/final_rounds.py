"""`FinalRounds`: the finals at the end of a search of models, which choose kernels and variants."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import TYPE_CHECKING

from pegbox.model.finals import LEAD, Finalist, Finals, finalists_of_tasks
from pegbox.model.latency import Latency
from pegbox.model.model_task import ModelTask
from pegbox.model.result import fastest_of
from pegbox.model.variant_choice import VariantChoice
from pegbox.records.journal import Journal
from pegbox.records.record import Record
from pegbox.search.task_scheduler import TaskScheduler

if TYPE_CHECKING:
    from pegbox.store import TuningStore


@dataclass(frozen=True)
class FinalRounds:
    """The finals of a search of models, whose winners go into its records, the file and the store.

    Attributes:
        tasks: the tasks of all models.
        latency: the calls of the tasks, and the searches for their kernels.
        scheduler: the search.
        choices: the choice of each model's variant.
        journal, store: the file of records, and the store; None for none.
    """

    tasks: Sequence[ModelTask]
    latency: Latency
    scheduler: TaskScheduler
    choices: Sequence[VariantChoice]
    journal: Journal | None
    store: TuningStore | None

    def run(self) -> None:
        """Record the fastest finalists in the best two variants of each model, and the faster variant as a whole."""
        finals = Finals(self.tasks)
        settled: dict[int, Finalist] = {}
        held = self.latency.by_task(self.scheduler.records)
        seconds = [math.inf if (each := fastest_of(records)) is None else each.cost for records in held]
        candidates = self.latency.candidates(seconds)
        for numbers in zip_longest(*candidates):  # the chosen variants come before their challengers
            settled |= self._fastest_kernels(finals, numbers, held, seconds, settled)
        for number, (choice, pair) in enumerate(zip(self.choices, candidates, strict=True)):
            if len(pair) > 1 and all(task in settled for each in pair for task in self.latency.variants[number][each]):
                self._run_variants(finals, choice, pair, settled)

    def _fastest_kernels(
        self,
        finals: Finals,
        numbers: Sequence[int | None],
        held: Sequence[Sequence[Sequence[Record]]],
        seconds: Sequence[float],
        settled: Mapping[int, Finalist],
    ) -> dict[int, Finalist]:
        """Find and record the fastest kernels in one variant of each model; some kernels are already decided.

        Args:
            numbers: the variants; None for a model without a further one.
            held, seconds: the records of each task's implementations, and its least seconds; infinite ones exclude the
                variants that call the task.
        """
        ready = [
            None if number is None or any(seconds[task] == math.inf for task in calls[number]) else number
            for number, calls in zip(numbers, self.latency.variants, strict=True)
        ]
        graphs = [each.graph(number) for each, number in zip(self.choices, ready, strict=True) if number is not None]
        finalists = finalists_of_tasks(held, self.latency.calls_of(ready, len(self.tasks)), seconds)
        finalists |= {number: [settled[number]] for number in finalists if number in settled}
        winners = finals.fastest_kernels(graphs, finalists)
        self._record({number: each for number, each in winners.items() if len(finalists[number]) > 1})
        return winners

    def _record(self, winners: Mapping[int, Finalist]) -> None:
        places = {pair: number for number, each in enumerate(self.latency.searches) for pair in each}
        now = time.time()  # one time for all, because tasks may share a search
        for number, finalist in winners.items():
            record = finalist.chosen(now)
            self.scheduler.add(places[number, finalist.number], record)
            if self.store is not None:
                self.store.keep(record)

    def _run_variants(
        self, finals: Finals, choice: VariantChoice, pair: Sequence[int], kernels: Mapping[int, Finalist]
    ) -> None:
        """Record the faster of two variants of a model as a whole: the first, unless the other one is ahead."""
        first, other = spent = finals.seconds_of_graphs(list(map(choice.graph, pair)), kernels)
        made = choice.add(dict(zip(pair, spent, strict=True)), pair[other < (1 - LEAD) * first])
        if self.journal is not None:
            for record in made:
                self.journal.append(record)
        if self.store is not None:
            self.store.keep(made[-1])
