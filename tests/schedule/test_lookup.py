"""Finding blocks and loops."""

from __future__ import annotations

from typing import Any

import pytest

from pegbox.errors import LoweringError, ScheduleError
from pegbox.loops.module import IRModule
from pegbox.loops.nodes import Block, For
from pegbox.schedule import BlockRef, Schedule, Trace
from pegbox.schedule.errors import shown


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
    assert capsys.readouterr().out == sch.mod.script()


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
    golden(shown(sch.tree, ()) + "\n")


def _two_functions(programs: Any) -> IRModule:
    first, second = (Schedule(args).func for args in (programs.matmul()[0], programs.matmul_relu()[0]))
    return IRModule({"mm": first, "mm_relu": second})


def test_a_module_with_several_functions_is_scheduled_one_by_one(programs: Any) -> None:
    sch = Schedule(_two_functions(programs))
    with pytest.raises(ScheduleError, match="the module has several functions, mm, mm_relu; choose one with work_on"):
        sch.get_block("C")
    with pytest.raises(ScheduleError, match="the module has no function 'no'; it has mm, mm_relu"):
        sch.work_on("no")
    block = sch.get_block("C", func_name="mm")
    sch.parallel(sch.get_loop(block, 0))
    sch.work_on("mm_relu")
    assert _names(sch.get_blocks()) == ["C", "D", "E"]
    sch.compute_inline("D")
    assert [len(Schedule(f).get_blocks()) for f in sch.mod.functions.values()] == [1, 2]
    assert "parallel" in str(sch.mod["mm"])
    assert "parallel" not in str(sch.mod["mm_relu"])
    again = Trace.from_json(sch.trace.to_json()).apply_to_schedule(Schedule(_two_functions(programs)))
    assert str(again) == str(sch)
    other = sch.copy()
    other.work_on("mm")
    other.unroll(other.get_loop("C", 2))
    assert "unrolled" not in str(sch)


def test_the_only_function_or_main_is_worked_on_at_once(programs: Any) -> None:
    func = Schedule(programs.matmul()[0]).func
    assert _names(Schedule(IRModule({"mm": func})).get_blocks()) == ["C"]
    assert Schedule(IRModule({"other": func, "main": func})).func.name == "main"
    assert Schedule(func).mod["main"] is func
    for wrong in (None, [], [1], "main"):
        with pytest.raises(ScheduleError, match="give an IRModule, a function, or a list of tensors"):
            Schedule(wrong)  # type: ignore[arg-type]


def test_nodes_behind_handles(programs: Any) -> None:
    sch = Schedule(programs.matmul()[0], debug_mask="all", error_render_level="detail")
    loop = sch.get(sch.get_loop("C", 2))
    block = sch.get(sch.get_block("C"))
    assert isinstance(loop, For)
    assert loop.extent == 6
    assert isinstance(block, Block)
    assert [it.var.name for it in block.iters] == ["vi", "vj", "vk"]
    assert sch.get(sch.sample_categorical([4], [1])) == 4


def test_the_whole_function_is_the_root_block(programs: Any) -> None:
    sch = Schedule(programs.rows()[0])
    root = sch.get_block("root")
    assert _names(sch.get_child_blocks(root)) == ["total", "centred", "out"]
    assert _names(sch.get_output_blocks(root)) == _names(sch.get_output_blocks()) == ["centred", "out"]
    assert _names(sch.get_child_blocks("total")) == []


def test_blocks_inside_of_blocks(programs: Any) -> None:
    sch = Schedule(programs.matmul()[0])
    outer = sch.blockize(sch.get_loop("C", 1))
    assert _names(sch.get_child_blocks(outer)) == ["C"]
    assert _names(sch.get_output_blocks(outer)) == ["C"]


def test_the_only_function_answers_to_main_too(programs: Any) -> None:
    func = Schedule(programs.matmul()[0]).mod["main"]
    module = IRModule({"mm": func})
    assert module["main"] is module["mm"]
    sch = Schedule(module)
    assert sch.get_block("C", func_name="main") == sch.get_block("C", "mm")
    sch.work_on("main")
    assert sch.func_working_on == "mm"
    both = IRModule({"mm": func, "other": func})
    with pytest.raises(LoweringError, match="the module has no function 'main'; it has mm, other"):
        both["main"]
