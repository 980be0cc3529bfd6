"""cache_read, cache_write."""

from __future__ import annotations

from typing import Any

import pytest

from pegbox.compute.ops import compute, placeholder
from pegbox.errors import ScheduleError
from pegbox.expr import build
from pegbox.loops.passes import lower_function
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
    sch.cache_read("D", "A", consumer_blocks=["D"])
    assert [b.name for b in sch.get_consumers("A_global")] == ["D"]
    assert sch.cache_read("B", "A") == BlockRef("A_global_1")
    check_values(sch, reference)


def test_cache_read_inside_of_loops_copies_what_an_iteration_needs(
    programs: Any, golden: Any, check_values: Any
) -> None:
    args, reference = programs.conv()
    sch = Schedule(args)
    j = sch.get_loop("O", 1)
    sch.compute_at("P", j)
    sch.cache_read("O", "P", "local")
    golden(sch)
    check_values(sch, reference)


def test_cache_read_inside_of_a_loop_that_does_not_divide(programs: Any, golden: Any, check_values: Any) -> None:
    args, reference = programs.matmul_relu()
    sch = Schedule(args)
    i = sch.get_loop("E", 0)
    i_0, _ = sch.split(i, [None, 2])
    sch.compute_at("D", i_0)
    sch.compute_at("C", i_0)
    sch.cache_read("D", "C", "shared")
    golden(sch)
    check_values(sch, reference)


def test_cache_read_refuses_readers_inside_and_outside_of_the_loop_where_it_is_made(check_values: Any) -> None:
    args, reference = _two_readers()
    sch = Schedule(args)
    sch.reverse_compute_at("B", sch.get_loop("A", 0))
    before = sch.func
    with pytest.raises(ScheduleError, match="B and A meet in i, but C, which uses A too") as caught:
        sch.cache_read("B", "A")
    assert "remedy: name the blocks that meet there in consumer_blocks" in str(caught.value)
    assert sch.func is before
    sch.cache_read("B", "A", consumer_blocks=["B"])
    with pytest.raises(ScheduleError, match="D does not read A"):
        sch.cache_read("C", "A", consumer_blocks=["D"])
    check_values(sch, reference)


def _two_readers() -> Any:
    x = placeholder((6,), name="X")
    a = compute((6,), lambda i: x[i] + build.const(1.0, "float32"), name="A")
    b = compute((6,), lambda i: a[i] * build.const(2.0, "float32"), name="B")
    c = compute((6,), lambda i: a[5 - i] + b[i], name="C")
    d = compute((6,), lambda i: c[i] - b[i], name="D")
    return [x, d], lambda xs: [(xs + 1)[::-1]]


def test_cache_read_refuses_lanes(programs: Any) -> None:
    sch = Schedule(programs.matmul_relu()[0])
    sch.compute_at("D", sch.get_loop("E", 1))
    sch.vectorize(sch.get_loop("E", 1))
    before = sch.func
    with pytest.raises(ScheduleError, match="j is vectorized: its iterations are lanes"):
        sch.cache_read("E", "D")
    with pytest.raises(ScheduleError, match="j is vectorized: its iterations are lanes") as caught:
        sch.cache_write("D")
    assert ">         block D_global: " in caught.value.program  # the copy that could not be moved
    assert sch.func is before


def test_cache_read_of_a_decomposed_reduction(programs: Any, check_values: Any) -> None:
    args, reference = programs.matmul_relu()
    sch = Schedule(args)
    sch.decompose_reduction("C", sch.get_loop("C", 2))
    sch.cache_read("D", "C")
    assert [b.name for b in sch.get_consumers("C")] == ["C_global"]
    check_values(sch, reference)


def test_caches_refuse_unknown_buffers_and_scopes(programs: Any) -> None:
    sch = Schedule(programs.matmul()[0])
    before = sch.func
    with pytest.raises(ScheduleError, match="block C reads no buffer 2"):
        sch.cache_read("C", 2)
    with pytest.raises(ScheduleError, match="block C writes no buffer 'A'"):
        sch.cache_write("C", "A")
    with pytest.raises(ScheduleError, match=r"unknown scope 'cache'[\s\S]*remedy: use one of global, local, "):
        sch.cache_write("C", 0, "cache")
    with pytest.raises(ScheduleError, match="read_buffer_index = True is not an integer or a string"):
        sch.cache_read("C", True)
    with pytest.raises(ScheduleError, match="no block is called 'E'"):
        sch.cache_read("C", 0, consumer_blocks=["E"])
    assert sch.func is before


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


def test_cache_write_inside_of_loops_copies_what_an_iteration_makes(
    programs: Any, golden: Any, check_values: Any
) -> None:
    args, reference = programs.matmul_relu()
    sch = Schedule(args)
    i = sch.get_loop("E", 0)
    i_0, _ = sch.split(i, [None, 2])
    sch.compute_at("D", i_0)
    sch.cache_write("D", 0, "warp")
    golden(sch)
    check_values(sch, reference)


def test_cache_write_lets_chosen_readers_read_the_new_buffer(programs: Any, golden: Any, check_values: Any) -> None:
    args, reference = programs.chain()
    sch = Schedule(args)
    sch.cache_write("A", 0, "local", consumer_blocks=["D"])
    golden(sch)
    check_values(sch, reference)
    sch = Schedule(args)
    sch.reverse_compute_at("D", sch.get_loop("C", 0))
    sch.cache_write("C", 0, "local", consumer_blocks=["D"])
    assert sch.get_loops("C_local")[0] != sch.get_loop("C", 0)
    check_values(sch, reference)


def test_cache_write_copies_where_a_reader_stands_and_serves_the_others_too(check_values: Any) -> None:
    args, reference = _two_readers()
    sch = Schedule(args)
    sch.reverse_compute_at("B", sch.get_loop("A", 0))
    sch.cache_write("A")
    assert sch.get_loop("A_global", 0) == sch.get_loop("A", 0)
    assert [b.name for b in sch.get_consumers("A_global")] == ["B", "C"]
    check_values(sch, reference)


def test_scopes_name_the_copy(programs: Any) -> None:
    sch = Schedule(programs.matmul()[0])
    assert sch.cache_read("C", 0, "shared.dyn") == BlockRef("A_shared_dyn")
    assert sch.cache_read("C", storage_scope="warp", read_buffer_index=1) == BlockRef("B_warp")
    assert {b.name: b.scope for b in sch.func.allocs} == {"A_shared_dyn": "shared.dyn", "B_warp": "warp"}


def test_cache_read_inside_of_a_block_copies_what_the_block_needs(
    programs: Any, golden: Any, check_values: Any
) -> None:
    args, reference = programs.matmul()
    sch = Schedule(args)
    i, j, k = sch.get_loops("C")
    k_0, k_1 = sch.split(k, [None, 3])
    sch.reorder(i, k_0, j, k_1)
    sch.blockize(j)
    sch.cache_read("C", "B", "local")
    golden(sch)
    check_values(sch, reference)


def test_global_memory_may_have_a_name(programs: Any, check_values: Any) -> None:
    args, reference = programs.matmul()
    sch = Schedule(args)
    sch.cache_write("C", 0, "global.accumulator")
    assert [b.scope for b in sch.func.allocs] == ["global.accumulator"]
    check_values(sch, reference)
    lower_function(sch.func)
    with pytest.raises(ScheduleError, match=r"unknown scope 'shared\.mine'"):
        sch.cache_read("C", 0, "shared.mine")
