"""The candidates that a worker of a cluster has measured are counted for each process that searched."""

from __future__ import annotations

from pegbox.plugins.runners.counters import EARLIER, Counters


def test_the_candidates_of_each_process_are_counted() -> None:
    counters = Counters()
    for process in ("one", "two", "one"):
        counters.add(process)
    assert counters.counts == {"one": 2, "two": 1}


def test_only_the_latest_processes_are_named() -> None:
    counters = Counters()
    for process in ("first", "one", "two", "one", "three", "four"):
        counters.add(process)
    assert list(counters.counts.items()) == [(EARLIER, 2), ("one", 2), ("three", 1), ("four", 1)]
    for number in range(100):
        counters.add(f"search {number}")
    assert counters.counts == {EARLIER: 103, "search 97": 1, "search 98": 1, "search 99": 1}
