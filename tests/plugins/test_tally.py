"""The measurements of a cluster's worker are counted for each search."""

from __future__ import annotations

import os

from pegbox.plugins.runners.tally import EARLIER, Tally, by_process, search_name, short_name


def test_the_candidates_of_each_search_are_counted() -> None:
    tally = Tally()
    for search in ("one", "two", "one"):
        tally.add(search)
    assert tally.counts == {"one": 2, "two": 1}


def test_early_searches_are_counted_together() -> None:
    tally = Tally()
    for number in range(100):
        tally.add(f"search {number}")
    assert len(tally.counts) == 9
    assert tally.counts[EARLIER] == 92
    assert tally.counts["search 99"] == 1


def test_a_search_is_told_by_its_process() -> None:
    assert search_name() != search_name()
    assert short_name(search_name()).startswith(f"process {os.getpid()} on ")
    assert short_name(EARLIER) == EARLIER


def test_searches_of_one_process_are_counted_together_and_only_the_latest_processes_are_named() -> None:
    counts = {EARLIER: 30}
    for process, trials in [(1, 5), (2, 5), (3, 1), (2, 4), (4, 2)]:
        counts[f"pegbox-vm-{process}-{len(counts):032x}"] = trials
    assert by_process(counts, most=3) == {
        "earlier ones": 35,
        "process 3 on vm": 1,
        "process 2 on vm": 9,
        "process 4 on vm": 2,
    }
