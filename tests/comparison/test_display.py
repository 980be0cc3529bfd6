"""The progress of a comparison on many spaces: a live table on a terminal, lines elsewhere."""

from __future__ import annotations

import io

import pytest
from comparisons import landscape

from pegbox.comparison.display import RunTable, run_listener
from pegbox.comparison.runs import Run, TaskInfo

TASK = TaskInfo("space", landscape=landscape(1.0, 2))
GOOD, BAD = Run("space", "good", 0, (2.0, 1.0), 1.0), Run("space", "bad", 0, (9.0, 9.0), 9.0)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_the_table_has_the_best_tuner_first() -> None:
    table = RunTable(2)
    for number, run in enumerate((BAD, GOOD, GOOD), 1):
        table.add(run, TASK, number, 4)
    assert [row[:2] for row in table.rows()] == [["tuner", "runs"], ["good", "2"], ["bad", "1"]]
    assert table.rows()[2][2].startswith("-")
    assert "[3/4] space, seed 0, good" in table.text()


def test_a_task_without_known_costs_has_no_score() -> None:
    table = RunTable(2)
    table.add(GOOD, TaskInfo("space"), 1, 1)
    assert table.rows()[1] == ["good", "1", "-"]


def test_a_terminal_has_the_table_and_a_file_has_lines(capsys: pytest.CaptureFixture[str]) -> None:
    terminal = Terminal()
    with run_listener(2, terminal) as show:
        show(GOOD, TASK, 1, 2)
        show(BAD, TASK, 2, 2)
    assert "score so far" in terminal.getvalue()
    with run_listener(2, io.StringIO()) as show:
        show(GOOD, TASK, 1, 2)
    assert capsys.readouterr().err.startswith("[1/2] space, seed 0, good")
