from __future__ import annotations

import threading
from typing import Any

import pytest

from pegbox.errors import RecordError
from pegbox.measure import Failed
from pegbox.records import (
    History,
    Journal,
    apply_history_best,
    best,
    best_of_each,
    current_history,
    load_history,
)
from pegbox.space import ConfigSpace


def other_space() -> ConfigSpace:
    space = ConfigSpace()
    space.define_knob("unroll", [0, 1])
    return space


class TestBest:
    def test_the_fastest_wins_and_failures_never(self, task: Any, crash: Failed) -> None:
        records = [task.record(1, 3e-3), task.record(2, crash), task.record(3, 1e-3), task.record(4, 2e-3)]
        assert best(records) == records[2]
        assert best([records[1]]) is None
        assert best([]) is None

    def test_a_config_counts_with_its_latest_measurement(self, task: Any) -> None:
        lucky, honest, steady = task.record(1, 1e-3), task.record(1, 2e-3), task.record(2, 1.5e-3)
        assert best([lucky, steady, honest]) == steady

    def test_what_was_not_among_the_finalists_has_lost(self, task: Any) -> None:
        first = [task.record(1, 1.00e-3), task.record(2, 1.04e-3)]
        final = [task.record(1, 1.05e-3, remeasured=True)]
        assert best([*first, *final]) == final[0]
        later = task.record(3, 1.01e-3)
        assert best([*first, *final, later]) == later

    def test_when_no_finalist_ran_again_the_first_costs_count(self, task: Any, crash: Failed) -> None:
        first = task.record(1, 1e-3)
        second = task.record(2, 2e-3)
        assert best([first, second, task.record(1, crash, remeasured=True)]) == second

    def test_of_a_task_only_its_own_records_count(self, task: Any, other_task: Any) -> None:
        own, faster = task.record(1, 2e-3), other_task.record(1, 1e-3)
        assert best([own, faster], task) == own
        assert best([faster], task) is None

    def test_each_workload_has_its_best(self, task: Any, other_task: Any, crash: Failed) -> None:
        records = [task.record(1, 2e-3), other_task.record(1, 1e-3), task.record(2, 1e-3), other_task.record(2, crash)]
        assert best_of_each(records) == [records[2], records[1]]


class TestHistory:
    def test_every_config_comes_once_with_its_latest_result(self, journal: Journal, task: Any, crash: Failed) -> None:
        for record in [task.record(1, 1e-3), task.record(2, crash), task.record(1, 2e-3)]:
            journal.append(record)
        configs, results = load_history(journal, task)
        assert configs == [task.space.get(1), task.space.get(2)]
        assert [result.cost for result in results] == [2e-3, float("inf")]

    def test_other_workloads_in_the_file_are_skipped(self, journal: Journal, task: Any, other_task: Any) -> None:
        for record in [other_task.record(1), task.record(2)]:
            journal.append(record)
        assert load_history(journal, task)[0] == [task.space.get(2)]

    def test_a_file_that_does_not_exist_yet_is_an_empty_history(self, journal: Journal, task: Any) -> None:
        assert load_history(journal, task) == ([], [])

    def test_another_space_is_refused_with_both_shown(self, journal: Journal, task: Any) -> None:
        journal.append(task.record(1))
        before, task.space = task.space.fingerprint, other_space()
        with pytest.raises(RecordError) as caught:
            load_history(journal, task)
        assert before[:12] in str(caught.value)
        assert task.space.fingerprint[:12] in str(caught.value)
        assert str(journal.path) in str(caught.value)

    def test_another_target_is_refused_with_both_shown(self, journal: Journal, task: Any) -> None:
        journal.append(task.record(1))
        task.target = "llvm -mcpu=skylake"
        with pytest.raises(RecordError, match=r"znver4.*skylake"):
            load_history(journal, task)

    def test_a_file_may_hold_several_targets(self, journal: Journal, task: Any) -> None:
        journal.append(task.record(1))
        task.target = "llvm -mcpu=skylake"
        journal.append(task.record(2))
        assert load_history(journal, task)[0] == [task.space.get(2)]

    def test_a_config_that_does_not_fit_its_space_is_refused(self, journal: Journal, task: Any) -> None:
        line = task.record(1).to_line().replace('"unroll"', '"unravel"')
        journal.path.write_text(line + "\n")
        with pytest.raises(RecordError, match="does not fit"):
            load_history(journal, task)


class TestApply:
    def test_within_the_block_the_best_config_is_known(self, journal: Journal, task: Any) -> None:
        for index, cost in [(1, 3e-3), (2, 1e-3), (3, 2e-3)]:
            journal.append(task.record(index, cost))
        assert current_history() is None
        with apply_history_best(journal.path) as history:
            assert current_history() is history
            assert history.best_config(task) == task.space.get(2)
        assert current_history() is None

    def test_blocks_nest_and_survive_errors(self, task: Any) -> None:
        with apply_history_best([task.record(1)]) as outer:
            with pytest.raises(ValueError, match="inside"), apply_history_best([task.record(2)]):
                raise ValueError("inside")
            assert current_history() is outer

    def test_a_block_belongs_to_its_thread(self, task: Any) -> None:
        seen: list[History | None] = []
        with apply_history_best([task.record(1)]):
            thread = threading.Thread(target=lambda: seen.append(current_history()))
            thread.start()
            thread.join()
        assert seen == [None]

    def test_an_unknown_workload_has_no_config(self, task: Any, other_task: Any) -> None:
        with apply_history_best([task.record(1)]) as history:
            assert history.best_config(other_task) is None
            assert "matmul" in str(history)

    def test_records_of_another_space_are_never_applied(self, task: Any) -> None:
        with apply_history_best([task.record(1)]) as history:
            task.space = other_space()
            with pytest.raises(RecordError, match="space"):
                history.best_config(task)

    def test_a_missing_file_is_an_error_at_once(self, journal: Journal) -> None:
        with pytest.raises(RecordError, match="No such file"), apply_history_best(journal.path):
            pass


def test_a_refusal_spells_the_workload_as_a_call(task: Any, journal: Journal) -> None:
    journal.append(task.record(1))
    task.target = "llvm -mcpu=znver5 -num-cores 1"
    with pytest.raises(RecordError, match=r"the records of matmul\(N=64, shape=.*, dtype='float32'\) are for"):
        load_history(journal, task)
