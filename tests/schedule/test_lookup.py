"""Finding blocks and loops."""

from __future__ import annotations

from typing import Any

import pytest

from pegbox.errors import ScheduleError
from pegbox.schedule import BlockRef, Schedule
from pegbox.schedule.outline import outline


def _names(refs: Any) -> list[str]:
    return [r.name for r in refs]


def test_blocks_and_loops_by_name_and_place(programs: Any, capsys: pytest.CaptureFixture[str]) -> None:
    sch = Schedule(programs.matmul_relu()[0])
    assert _names(sch.get_blocks()) == ["C", "D", "E"]
    assert sch.get_block("D") == BlockRef("D")
    assert _names(sch.get_loops("C")) == ["i", "j", "k"]
    assert sch.get_loop("C", 2) == sch.get_loops(sch.get_block("C"))[2]
    assert sch.extent(sch.get_loop("C", 2)) == 6
    assert _names(sch.get_child_blocks(sch.get_loop("D", 0))) == ["D"]
    sch.show()
    assert capsys.readouterr().out == str(sch)


def test_producers_and_consumers(programs: Any) -> None:
    sch = Schedule(programs.chain()[0])
    assert _names(sch.get_consumers("A")) == ["B", "D"]
    assert _names(sch.get_producers("D")) == ["A", "C"]
    assert _names(sch.get_producers("A")) == []


def test_what_is_not_there_is_answered_with_what_is(programs: Any) -> None:
    sch = Schedule(programs.matmul()[0])
    with pytest.raises(ScheduleError, match="no block is called 'X'; the program has C"):
        sch.get_block("X")
    with pytest.raises(ScheduleError, match=r"block C has 3 loop\(s\), so no loop 3") as caught:
        sch.get_loop("C", 3)
    assert "for k in range(6):" in str(caught.value)


def test_a_nest_in_few_lines(programs: Any, golden: Any) -> None:
    sch = Schedule(programs.matmul_relu()[0])
    sch.split(sch.get_loop("E", 0), factor=2)
    golden(outline(sch.func) + "\n")
