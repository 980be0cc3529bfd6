from __future__ import annotations

import dataclasses
import json
import threading
from pathlib import Path
from typing import Any

import pytest

from pegbox.errors import ArgumentError, RecordError
from pegbox.measure import Failed, Ok
from pegbox.records import (
    History,
    Journal,
    apply_history_best,
    best,
    best_of_each,
    current_history,
    load_history,
)
from pegbox.records.journal import RecordWarning
from pegbox.search.loop.recorder import open_recording
from pegbox.space import ConfigSpace


def other_space() -> ConfigSpace:
    space = ConfigSpace()
    space.define_knob("unroll", [0, 1])
    return space


EMULATED = Ok((1e-4,), host="emulated by QEMU 9.2")


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

    def test_what_an_emulator_timed_counts_only_where_nothing_else_is(self, task: Any) -> None:
        real, emulated = task.record(1, 2e-3), task.record(2, EMULATED)
        again = task.record(2, EMULATED, remeasured=True)
        assert best([real, emulated, again]) == real
        assert best([emulated]) == emulated
        assert best_of_each([emulated]) == []

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


class TestEditedTemplate:
    """Costs that were measured with other code of the template."""

    NOW, OLD = "cpython-312:bb", "cpython-312:aa"

    @pytest.fixture
    def edited(self, journal: Journal, task: Any) -> Any:
        """The task after an edit; the journal has two records from before."""
        for index, cost in ((1, 1e-3), (2, 2e-3)):
            journal.append(dataclasses.replace(task.record(index, cost), code=self.OLD))
        return dataclasses.replace(task, code=self.NOW)

    def test_a_resumed_run_refuses_them_and_says_how_to_go_on(self, journal: Journal, edited: Any) -> None:
        with pytest.raises(
            RecordError, match=r"2 of 2 records of matmul.* other code than it has now.*another file.*--resume-edited"
        ):
            open_recording(journal, edited, resume=True, tuner="random", seed=0)
        assert len(open_recording(journal, edited, resume="edited", tuner="random", seed=0).history) == 2
        assert not open_recording(journal, edited, resume=False, tuner="random", seed=0).history

    def test_where_there_are_records_of_the_new_code_the_old_ones_are_left_out(
        self, journal: Journal, edited: Any
    ) -> None:
        journal.append(edited.record(3, 3e-3))
        with pytest.warns(RecordWarning, match="2 of 3 records .* ignored"):
            configs, _ = load_history(journal, edited)
        assert [config.index for config in configs] == [3]
        with pytest.warns(RecordWarning, match="2 of 3 records .* ignored"):
            assert best(journal.read(), edited) == edited.record(3, 3e-3)
        assert History(journal.read()).best_config(edited) == edited.space.get(3)

    def test_the_best_of_the_old_code_is_built_with_a_warning(self, journal: Journal, edited: Any) -> None:
        with apply_history_best(journal) as history, pytest.warns(RecordWarning, match="other code .*tune again"):
            assert history.best_config(edited) == edited.space.get(1)

    def test_records_that_do_not_say_count(self, journal: Journal, task: Any) -> None:
        journal.append(task.record(1))
        assert "code" not in json.loads(journal.path.read_text())
        assert len(load_history(journal, dataclasses.replace(task, code=self.NOW))[0]) == 1

    def test_another_word_than_edited_is_refused(self, journal: Journal, edited: Any) -> None:
        with pytest.raises(ArgumentError, match="resume='all' is not valid; choose from False, True and 'edited'"):
            open_recording(journal, edited, resume="all", tuner="random", seed=0)  # type: ignore[arg-type]


def test_several_files_count_as_one(tmp_path: Path, task: Any, other_task: Any) -> None:
    files = [Journal(tmp_path / "a.jsonl"), Journal(tmp_path / "b.jsonl")]
    files[0].append(task.record(1, 2e-3))
    files[1].append(task.record(2, 1e-3))
    for given in (files, [str(files[0].path), files[1].path], [files[0], *files[1].read()]):
        with apply_history_best(given) as history:
            assert history.best_config(task) == task.space.get(2)
    with (
        pytest.raises(RecordError, match="5 is at place 1 of the list; give a file of records, a journal, or a"),
        apply_history_best([files[0], 5]),  # type: ignore[list-item]
    ):
        pass


@pytest.mark.parametrize(
    ("trials", "said"),
    [
        (1, "2 (more than 1) trials are in the records; raise --trials"),
        (2, "2 of 2 trials are in the records; raise --trials"),
        (3, ""),
        (None, ""),
    ],
)
def test_a_finished_run_says_so(journal: Journal, task: Any, trials: int | None, said: str) -> None:
    for index in (1, 2):
        journal.append(task.record(index))
    found = open_recording(journal, task, resume=True, tuner="random", seed=0).finished(trials)
    assert found.startswith(said)
    assert bool(found) == bool(said)


def test_a_history_without_records_says_so(task: Any) -> None:
    said = History([], source="empty.jsonl").absence(task)
    assert said.endswith("in empty.jsonl, which has no records; tune it first")


def test_what_an_emulator_timed_is_neither_applied_nor_resumed(journal: Journal, task: Any) -> None:
    journal.append(task.record(2, EMULATED))
    assert [record.emulated for record in journal.read()] == [True]
    with apply_history_best(journal) as history, pytest.warns(RecordWarning, match="1 records .* from an emulator"):
        assert history.best_config(task) is None
    said = history.absence(task)
    assert "there are some from an emulator (emulated by QEMU 9.2)" in said
    assert "name a configuration: --config N (config=N)" in said
    assert "tune it first" not in said
    journal.append(task.record(1, 2e-3))
    with pytest.warns(RecordWarning, match="do not measure a processor; they are ignored"):
        configs, _ = load_history(journal, task)
    assert configs == [task.space.get(1)]
    with pytest.warns(RecordWarning, match="from an emulator"):
        assert History(journal.read()).best_config(task) == task.space.get(1)
