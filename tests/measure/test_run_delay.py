"""Waiting for a core does not count as the kernel's time; where it is unknown, nothing is subtracted."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from pegbox.measure.machine import run_delay
from pegbox.measure.machine.run_delay import Reading, WaitMeter, on_core, wait_until_quiet

MS = 1_000_000


def timed(spent: float, *, passed: float, run_queue_wait: float, others: float = 0.0) -> float:
    """Milliseconds of a timing of `spent`, while so many passed, were waited, and were computed by other threads."""
    ended = 7 + passed
    numbers = (7, 3, 0, 7), (ended, 3 + run_queue_wait, others, ended)
    readings = iter([Reading(*(int(n * MS) for n in each)) for each in numbers])
    return on_core(lambda: int(spent * MS), lambda: next(readings)) / MS


def test_the_time_that_a_thread_waited_for_its_core_is_not_that_of_the_kernel() -> None:
    assert timed(25.0, passed=25.0, run_queue_wait=20.0) == 5.0
    assert timed(5.0, passed=5.0, run_queue_wait=0.0) == 5.0


def test_a_wait_outside_of_the_kernels_own_clock_is_not_subtracted() -> None:
    assert timed(5.0, passed=8.0, run_queue_wait=3.0) == 5.0
    assert timed(9.0, passed=12.0, run_queue_wait=7.0) == 5.0


def test_a_wait_between_the_counter_and_the_clock_is_not_subtracted(monkeypatch: pytest.MonkeyPatch) -> None:
    """The thread waits 20 ms for its core after the counter was read, before the kernel computes for 5 ms."""
    now, waited = [100 * MS], [0]

    def delay(path: str) -> int:
        found = waited[0]
        if not found:
            waited[0], now[0] = 20 * MS, 120 * MS
        return found

    def run() -> int:
        now[0] += 5 * MS
        return 5 * MS

    monkeypatch.setattr(run_delay, "_delay", delay)
    monkeypatch.setattr(run_delay.time, "perf_counter_ns", lambda: now[0])
    monkeypatch.setattr(run_delay.time, "process_time_ns", lambda: 0)
    monkeypatch.setattr(run_delay.time, "thread_time_ns", lambda: 0)
    assert on_core(run) == 5 * MS


def test_nothing_is_subtracted_where_other_threads_compute_or_the_clock_is_anothers() -> None:
    assert timed(25.0, passed=25.0, run_queue_wait=20.0, others=5.0) == 25.0
    assert timed(25.0, passed=0.1, run_queue_wait=0.1) == 25.0


def test_where_nothing_is_known_nothing_is_subtracted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_delay, "OWN", "/no/such/file")
    monkeypatch.setattr(run_delay, "ALL", "/no/such/folder")
    assert run_delay.reading() is None
    assert on_core(lambda: 5) == 5
    assert WaitMeter().share() == 0.0


@pytest.mark.parametrize("text", ["", "5", "a b c", "-"])
def test_a_file_of_another_form_says_nothing(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "schedstat").write_text(text)
    monkeypatch.setattr(run_delay, "OWN", str(tmp_path / "schedstat"))
    assert run_delay.reading() is None


@pytest.mark.parametrize(("waits", "share"), [([0, 0], 0.0), ([100, 150], 0.25), ([600, 600], 1.0)])
def test_the_share_counts_all_threads(
    waits: list[int], share: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def thread(name: str, run_queue_wait: int) -> None:
        (tmp_path / name).mkdir(exist_ok=True)
        (tmp_path / name / "schedstat").write_text(f"99 {run_queue_wait} 1\n")

    clock: Iterator[int] = iter([1000, 2000])
    monkeypatch.setattr(run_delay, "ALL", str(tmp_path))
    monkeypatch.setattr(run_delay, "affinity_mask", lambda: (1,))
    monkeypatch.setattr(run_delay.time, "perf_counter_ns", lambda: next(clock))
    thread("7", 40)
    meter = WaitMeter()
    thread("7", 40 + waits[0])
    thread("8", waits[1])  # a thread that began meanwhile
    assert meter.share() == pytest.approx(share)


@pytest.mark.parametrize(
    ("idle", "own", "share"),
    [
        (100, 100, 0.0),  # two of its own threads on one core, the other idle
        (0, 100, 0.6),  # another program has one core all the time
        (80, 100, 0.2),
        (120, 100, 0.0),  # idle time comes in steps
        (None, 100, 0.0),
    ],
)
def test_threads_that_wait_for_each_other_do_not_wait_for_other_programs(
    idle: int | None, own: int, share: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Threads wait 60 of 100 ms on two cores."""

    def load(idle: int) -> None:
        (tmp_path / "stat").write_text("".join(f"cpu{n} 1 1 1 {50 + idle // 20} 7 0 0 0 0 0\n" for n in range(4)))

    clock, cpu, waits = iter([0, 100 * MS]), iter([5 * MS, (5 + own) * MS]), iter([{"7": MS}, {"7": 61 * MS}])
    monkeypatch.setattr(run_delay, "affinity_mask", lambda: (1, 3))
    monkeypatch.setattr(run_delay, "STAT", str(tmp_path / "stat"))
    monkeypatch.setattr(run_delay, "_all_delays", lambda: next(waits))
    monkeypatch.setattr(run_delay.os, "sysconf", lambda name: 100)
    monkeypatch.setattr(run_delay.time, "perf_counter_ns", lambda: next(clock))
    monkeypatch.setattr(run_delay.time, "process_time_ns", lambda: next(cpu))
    load(0)
    meter = WaitMeter()
    (tmp_path / "stat").unlink() if idle is None else load(idle)
    assert meter.share() == pytest.approx(share)


@pytest.mark.parametrize(("loads", "waits"), [([0.1], 1), ([1.0, 0.4, 0.1], 3), ([1.0] * 99, 20)])
def test_a_quiet_moment_is_one_without_other_programs_and_is_not_waited_for_long(
    loads: list[float], waits: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    remaining = iter(loads)
    monkeypatch.setattr(WaitMeter, "others", lambda self: next(remaining))
    slept: list[float] = []
    wait_until_quiet(slept.append)
    assert slept == [0.25] * waits


def test_the_load_of_others_is_what_is_neither_idle_nor_ones_own(monkeypatch: pytest.MonkeyPatch) -> None:
    readings, clock = iter([(10 * MS, MS), (80 * MS, 51 * MS)]), iter([0, 100 * MS])
    monkeypatch.setattr(run_delay, "affinity_mask", lambda: (1, 3))
    monkeypatch.setattr(WaitMeter, "_read_load", lambda self: next(readings))
    monkeypatch.setattr(run_delay.time, "perf_counter_ns", lambda: next(clock))
    assert WaitMeter().others() == pytest.approx(0.8)
