"""read_at, write_at, reindex_cache_read, reindex_cache_write."""

from __future__ import annotations

from typing import Any

import pytest

from pegbox.errors import ScheduleError
from pegbox.schedule import BlockRef, Schedule, Trace


def _refused(sch: Schedule, match: str, call: Any) -> None:
    before, steps = sch.func, len(sch.trace)
    with pytest.raises(ScheduleError, match=match):
        call()
    assert sch.func is before
    assert len(sch.trace) == steps


def _replayed(sch: Schedule, args: Any) -> None:
    """The trace, taken through JSON, makes the same program."""
    again = Trace.from_json(sch.trace.to_json()).apply_to_schedule(Schedule(args))
    assert again.mod == sch.mod


def test_read_at_and_write_at_copy_what_an_iteration_uses(programs: Any, golden: Any, check_values: Any) -> None:
    args, reference = programs.matmul_relu()
    sch = Schedule(args)
    i, j, k = sch.get_loops("C")
    i_0, i_1 = sch.split(i, [None, 2])
    sch.reorder(i_0, k, i_1, j)
    assert sch.read_at(k, "C", "B", "local") == BlockRef("B_local")
    assert sch.write_at(i_0, "C", 0, "local") == BlockRef("C_local")
    golden(sch)
    check_values(sch, reference)
    _replayed(sch, args)


def test_read_at_leaves_readers_outside_of_the_loop_alone(programs: Any, check_values: Any) -> None:
    args, reference = programs.chain()
    sch = Schedule(args)
    sch.read_at(sch.get_loop("B", 0), "B", "A", "local")
    assert [b.name for b in sch.get_consumers("A")] == ["A_local", "D"]
    check_values(sch, reference)


def test_read_at_and_write_at_refuse_other_loops_and_partial_results(programs: Any) -> None:
    sch = Schedule(programs.matmul_relu()[0])
    i, _, k = sch.get_loops("C")
    _refused(sch, "C is not inside i", lambda: sch.read_at(sch.get_loop("D", 0), "C", 0, "local"))
    _refused(sch, "C is not inside i", lambda: sch.write_at(sch.get_loop("D", 0), "C", 0, "local"))
    _refused(sch, "unknown scope 'near'", lambda: sch.read_at(i, "C", 0, "near"))
    _refused(sch, "the results of C are partial there", lambda: sch.write_at(k, "C", 0))


def test_read_at_refuses_what_is_not_ready_there(programs: Any) -> None:
    sch = Schedule(programs.matmul_relu()[0])
    sch.compute_at("D", sch.get_loop("E", 1))
    _refused(
        sch,
        "D computes D in loops inside i, where it is also read",
        lambda: sch.read_at(sch.get_loop("E", 0), "E", "D", "local"),
    )


def test_reindex_cache_copies_in_the_order_of_the_map(programs: Any, golden: Any, check_values: Any) -> None:
    args, reference = programs.matmul_relu()
    sch = Schedule(args)
    assert sch.reindex_cache_read("C", "A", "local", lambda i, j, k: (k, i)) == BlockRef("A_local")
    assert sch.reindex_cache_write("C", 0, "local", lambda i, j, k: (j // 4, i, j % 4)) == BlockRef("C_local")
    golden(sch)
    check_values(sch, reference)
    _replayed(sch, args)
    assert str(sch.trace).splitlines()[0] == "sch.reindex_cache_read('C', 'A', 'local', lambda i, j, k: (k, i))"


def test_reindex_cache_refuses_maps_that_lose_elements(programs: Any) -> None:
    sch = Schedule(programs.matmul()[0])
    _refused(
        sch,
        "depends on vj, on which A does not",
        lambda: sch.reindex_cache_read("C", 0, "local", lambda i, j, k: (i, j)),
    )
    _refused(
        sch,
        "takes .* to the same|not one to one|both",
        lambda: sch.reindex_cache_read("C", 0, "local", lambda i, j, k: (i,)),
    )
    _refused(sch, "unknown scope", lambda: sch.reindex_cache_write("C", 0, "near", lambda i, j, k: (i, j)))
    _refused(
        sch,
        "depends on vk, on which C does not",
        lambda: sch.reindex_cache_write("C", 0, "local", lambda i, j, k: (k, j)),
    )
