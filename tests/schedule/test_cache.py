"""cache_read, cache_write."""

from __future__ import annotations

from typing import Any

import pytest

from pegbox.errors import ScheduleError
from pegbox.schedule import BlockRef, Schedule


def test_cache_read_copies_an_input_before_it_is_read(programs: Any, golden: Any, check_values: Any) -> None:
    args, reference = programs.matmul()
    sch = Schedule(args)
    assert sch.cache_read("C", 1, "local") == BlockRef("B_local")
    golden(sch)
    check_values(sch, reference)


def test_cache_read_by_name_moves_to_where_it_is_needed(programs: Any, golden: Any, check_values: Any) -> None:
    args, reference = programs.matmul()
    sch = Schedule(args)
    copy = sch.cache_read("C", "A", "local")
    sch.compute_at(copy, sch.get_loop("C", 0))
    golden(sch)
    check_values(sch, reference)


def test_cache_read_serves_all_readers_or_the_chosen_ones(programs: Any, check_values: Any) -> None:
    args, reference = programs.chain()
    sch = Schedule(args)
    sch.cache_read("B", "A")
    assert [b.name for b in sch.get_consumers("A_global")] == ["B", "D"]
    check_values(sch, reference)
    sch = Schedule(args)
    sch.cache_read("D", "A", consumers=["D"])
    assert [b.name for b in sch.get_consumers("A_global")] == ["D"]
    assert sch.cache_read("B", "A") == BlockRef("A_global_1")
    check_values(sch, reference)


def test_cache_read_refuses_a_buffer_made_in_the_same_nest(programs: Any) -> None:
    sch = Schedule(programs.matmul_relu()[0])
    sch.compute_at("D", sch.get_loop("E", 0))
    with pytest.raises(ScheduleError, match="D is made by D inside the loops around E") as caught:
        sch.cache_read("E", "D")
    assert "remedy: cache_read first, compute_at after" in str(caught.value)


def test_caches_refuse_unknown_buffers_and_scopes(programs: Any) -> None:
    sch = Schedule(programs.matmul()[0])
    with pytest.raises(ScheduleError, match="block C reads no buffer 2; it reads 0: A, 1: B"):
        sch.cache_read("C", 2)
    with pytest.raises(ScheduleError, match="block C writes no buffer 'A'; it writes 0: C"):
        sch.cache_write("C", "A")
    with pytest.raises(ScheduleError, match="unknown scope 'shared' for a copy of C; use one of global, local"):
        sch.cache_write("C", 0, "shared")


def test_cache_write_copies_back_afterwards(programs: Any, golden: Any, check_values: Any) -> None:
    args, reference = programs.matmul()
    sch = Schedule(args)
    assert sch.cache_write("C", 0, "local") == BlockRef("C_local")
    golden(sch)
    check_values(sch, reference)


def test_cache_write_redirects_a_decomposed_reduction_as_a_whole(programs: Any, check_values: Any) -> None:
    args, reference = programs.matmul()
    sch = Schedule(args)
    sch.decompose_reduction("C", sch.get_loop("C", 2))
    sch.cache_write("C")
    assert all(sch.tree.blocks[n].block.writes[0].buffer.name == "C_global" for n in ("C", "C_init"))
    check_values(sch, reference)


def test_cache_write_takes_one_of_several_outputs(programs: Any, check_values: Any) -> None:
    args, reference = programs.argmax()
    sch = Schedule(args)
    sch.cache_write("best", "best_1")
    check_values(sch, reference)


def test_cache_write_refuses_when_a_consumer_shares_loops(programs: Any) -> None:
    sch = Schedule(programs.matmul_relu()[0])
    sch.compute_at("D", sch.get_loop("E", 0))
    with pytest.raises(ScheduleError, match="E reads D inside the loops around D"):
        sch.cache_write("D")
