"""The watch on noise warns where timings of one configuration differ by many times, once, and only there."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Iterator, Sequence
from html import escape
from pathlib import Path

import pytest

from pegbox.measure import Measurer
from pegbox.measure.result import Ok, Result
from pegbox.search import SearchOptions, run
from pegbox.search.loop import noise
from pegbox.search.loop.noise import NoiseWatch
from pegbox.search.loop.outcome import TuneResult
from pegbox.search.loop.remarks import remarks
from pegbox.search.testing import small_space
from pegbox.space import Config
from pegbox.tuners.grid import GridTuner

QUIET, NOISY = (1e-3, 1.1e-3, 1.05e-3), (1e-4, 8e-3, 8e-3)
NEIGHBOUR = (0.499e-3, 1.382e-3, 0.529e-3, 1.36e-3, 0.569e-3, 1.39e-3, 0.543e-3)
STEADY, UNSTEADY = (1.04e-3, 1.05e-3, 1.06e-3) * 3, (0.5e-3, 1.4e-3) * 5


@pytest.fixture(autouse=True)
def busiest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(noise, "busiest_process", lambda: "python (process 4711, 98% of a core)")


class Costs(Measurer):
    """Gives these costs, one configuration after the other; threads waited for this share of the time."""

    def __init__(
        self, costs: Sequence[tuple[float, ...]], again: Sequence[tuple[float, ...]] = (), run_queue_wait: float = 0.0
    ) -> None:
        self.costs = iter(costs)
        self.again = iter(again)
        self.run_queue_wait = run_queue_wait

    def measure(self, configs: Sequence[Config]) -> Iterator[tuple[Config, Result]]:
        for config in configs:
            yield config, Ok(next(self.costs), run_queue_wait=self.run_queue_wait)

    def remeasure(self, configs: Sequence[Config]) -> list[Result]:
        return [Ok(next(self.again), run_queue_wait=self.run_queue_wait) for _ in configs]


def warned(costs: Sequence[tuple[float, ...]], threads: int = 2, again: Sequence[tuple[float, ...]] = ()) -> list[str]:
    return searched(costs, threads, again)[0]


def searched(
    costs: Sequence[tuple[float, ...]],
    threads: int = 2,
    again: Sequence[tuple[float, ...]] = (),
    run_queue_wait: float = 0.0,
) -> tuple[list[str], TuneResult]:
    """The warnings of a search, and its result."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        tuner = GridTuner(small_space())
        watch = [NoiseWatch(threads)]
        measurer = Costs(costs, again, run_queue_wait)
        result = run(tuner, measurer, SearchOptions(trials=len(costs), callbacks=watch, finalists=len(again)))
    assert {warning.filename for warning in caught} <= {__file__}  # the user's line, not one of pegbox
    return [str(warning.message) for warning in caught], result


def test_timings_that_differ_by_many_times_are_reported_once_with_a_remedy() -> None:
    (message,), result = searched([QUIET, NOISY, NOISY, NOISY, NOISY])
    assert "(the busiest is python (process 4711, 98% of a core)); end them" in message
    assert "-num-cores 1" in message
    (note,) = remarks(result.trials, result.finalists, result.best, 2)
    assert "timings of 4 of 5 configurations differ by more than a factor of 2" in note
    assert "from 100 us to 8 ms" in note


def test_a_kernel_of_one_thread_is_not_told_to_use_one() -> None:
    (message,) = warned([NOISY] * 3, threads=1)
    assert "num-cores" not in message


@pytest.mark.parametrize(
    "costs", [[QUIET] * 8, [NOISY, NOISY, QUIET, QUIET], [*[QUIET] * 17, *[NOISY] * 3], [(1e-3,), (8e-3,)] * 4]
)
def test_interruptions_of_a_few_are_not_reported(costs: list[tuple[float, ...]]) -> None:
    assert warned(costs) == []


def test_a_neighbour_on_the_core_is_reported() -> None:
    (message,), result = searched([QUIET, NEIGHBOUR, NEIGHBOUR, QUIET, NEIGHBOUR])
    assert "disturb" in message
    assert "from 499 us to 1.39 ms" in result.notes[0]


@pytest.mark.parametrize(
    ("again", "expected"),
    [
        (
            [UNSTEADY, STEADY],
            "timings of 1 of 2 finalists differ by more than a factor of 1.5, those of config 0 from 500 us to 1.4 ms",
        ),
        ([tuple(0.5 * cost for cost in STEADY), STEADY], "took 1.05 ms in the search and 525 us when measured again"),
        ([tuple(2 * cost for cost in STEADY)] * 2, "took 1.05 ms in the search and 2.1 ms when measured again"),
    ],
)
def test_finalists_that_differ_from_themselves_or_from_the_search_are_noted(
    again: list[tuple[float, ...]], expected: str
) -> None:
    messages, result = searched([QUIET, QUIET], again=again)
    assert messages == []  # the search is over
    (note,) = result.notes
    assert expected in note


def test_steady_finalists_are_not_reported_and_nothing_is_reported_twice() -> None:
    interrupted = (*STEADY[:-1], 20 * STEADY[-1])
    assert warned([QUIET] * 4, again=[STEADY, interrupted, STEADY, STEADY]) == []
    assert len(warned([NOISY] * 4, again=[UNSTEADY] * 4)) == 1


def test_a_core_that_is_busy_all_the_time_is_reported_though_no_timing_differs() -> None:
    (message,), result = searched([QUIET] * 9, again=[STEADY], run_queue_wait=0.44)
    assert "python (process 4711, 98% of a core)" in message
    assert "-num-cores 1" in message
    (note,) = remarks(result.trials, result.finalists, result.best, 2)
    assert "threads of the kernels spent 44% of the time waiting for a core" in note


def test_finalists_whose_threads_waited_are_noted() -> None:
    _, result = searched([QUIET] * 2, again=[STEADY], run_queue_wait=0.3)
    (note,) = remarks(result.trials, result.finalists, result.best, 2)
    assert "30% of the time" in note


def test_short_waits_are_not_reported() -> None:
    messages, result = searched([QUIET] * 9, again=[STEADY], run_queue_wait=0.04)
    assert messages == []
    assert result.notes == []


def test_one_thread_has_its_waits_left_out_of_the_costs_which_is_noted_and_no_warning() -> None:
    messages, result = searched([QUIET] * 9, threads=1, again=[STEADY], run_queue_wait=0.5)
    assert messages == []
    (note,) = result.notes
    assert "50% of the time" in note
    assert "The measured times exclude this waiting" in note


def test_the_result_and_its_page_describe_the_noise_once(tmp_path: Path) -> None:
    _, result = searched([NOISY] * 3, again=[STEADY])
    assert len(result.notes) == 1
    assert str(result).count(f"note: {result.notes[0]}") == 1
    result.to_html(tmp_path / "search.html")
    assert (tmp_path / "search.html").read_text(encoding="utf-8").count(escape(result.notes[0])) == 1


def test_a_contradiction_names_a_runner_of_which_one_method_was_changed() -> None:
    _, result = searched([QUIET] * 9, again=[tuple(2 * cost for cost in STEADY)] * 9, run_queue_wait=0.3, threads=1)
    assert "waiting for their core" in result.notes[0]
    (note,) = dataclasses.replace(result, uneven="runner 'mine' changes run() but not rerun()").notes
    assert note == (
        "the best took 1.05 ms in the search and 2.1 ms when measured again: runner 'mine' changes run() but not "
        "rerun(); the second time counts"
    )


@pytest.mark.parametrize(
    ("factor", "expected"), [(0.7, "slowed the search down"), (1.3, "lucky"), (1.2, ""), (0.9, "")]
)
def test_a_best_that_contradicts_the_progress_line_says_so(factor: float, expected: str) -> None:
    _, result = searched([QUIET] * 3, again=[tuple(factor * 1.05e-3 for _ in range(9))] * 3)
    assert len(result.notes) == bool(expected)
    assert all(expected in note and "took 1.05 ms in the search and" in note for note in result.notes)


SLOWED = Ok((3e-3,) * 3, run_queue_wait=0.5, threads=2)


class SharedCores(Measurer):
    """Every third configuration has two threads and takes 0.6 ms, the others have one and take 1 ms. While another
    program has a core, its two threads wait for half of the time, and take 3 ms.

    Args:
        slowed: the result of a kernel of two threads in the search.
        quiet: whether the other program ends when it is waited for.
    """

    def __init__(self, slowed: Ok = SLOWED, *, quiet: bool = True) -> None:
        self.slowed, self.ends = slowed, quiet
        self.is_quiet = False
        self.waits = 0

    def wait_until_quiet(self) -> bool:
        self.waits += 1
        self.is_quiet = self.ends
        return True

    def measure(self, configs: Sequence[Config]) -> Iterator[tuple[Config, Result]]:
        for config in configs:
            yield config, self._result(config)

    def remeasure(self, configs: Sequence[Config]) -> list[Result]:
        return [self._result(config) for config in configs]

    def _result(self, config: Config) -> Result:
        if config.index % 3:
            return Ok(((1 + config.index / 1e3) * 1e-3,) * 3, threads=1)
        return Ok(((0.6 + config.index / 1e3) * 1e-3,) * 3, threads=2) if self.is_quiet else self.slowed


class WithoutWait(SharedCores):
    """Skip the waiting, as a simulation does."""

    def wait_until_quiet(self) -> bool:
        return False


def shared(measurer: SharedCores) -> TuneResult:
    return run(GridTuner(small_space()), measurer, SearchOptions(trials=12, finalists=3))


LOST = (
    "the best has 1 thread. Other programs slowed down the candidates with more; the fastest of those, with 2 threads"
)


def threads_of(result: TuneResult) -> list[int]:
    """Return the costs of the finalists."""
    return [trial.result.threads for trial in result.finalists if isinstance(trial.result, Ok)]


def test_threads_that_lost_to_noise_are_measured_again_at_a_quiet_moment_and_may_win() -> None:
    measurer = SharedCores()
    result = shared(measurer)
    assert (result.best.result.threads, result.best.cost, result.best.remeasured) == (2, 0.6e-3, True)
    assert (threads_of(result), measurer.waits) == ([1, 1, 1, 2], 1)
    assert not [note for note in result.notes if "the best has" in note]


@pytest.mark.parametrize(
    "slowed",
    [
        SLOWED,
        Ok((3e-3,), run_queue_wait=0.5, threads=2, partial=True),
        Ok((1.2e-3, 4e-3, 3e-3), threads=2),  # where nothing counts the waits
    ],
)
def test_a_result_says_that_threads_lost_to_noise_that_does_not_end(slowed: Ok) -> None:
    measurer = SharedCores(slowed, quiet=False)
    result = shared(measurer)
    assert (result.best.result.threads, result.best.config.index, measurer.waits) == (1, 1, 1)
    assert f"  note: {LOST}, took 3 ms in the search and 3 ms when measured again" in str(result)


def test_threads_that_lost_without_noise_are_not_measured_again() -> None:
    measurer = SharedCores(Ok((3e-3,) * 3, run_queue_wait=0.04, threads=2))
    result = shared(measurer)
    assert (threads_of(result), measurer.waits) == ([1, 1, 1], 0)
    assert result.notes == []


def test_threads_that_lead_in_the_noise_are_measured_again_at_a_quiet_moment() -> None:
    measurer = SharedCores(Ok((0.9e-3,) * 3, run_queue_wait=0.5, threads=2))
    result = shared(measurer)
    assert (result.best.cost, measurer.waits, threads_of(result)) == (0.6e-3, 1, [2, 2, 2])


def test_unknown_threads_are_not_waited_for() -> None:
    measurer = SharedCores(Ok((3e-3,) * 3, run_queue_wait=0.5))
    assert not [note for note in shared(measurer).notes if "the best has" in note]
    assert measurer.waits == 0


def test_a_measurer_that_cannot_wait_measures_nothing_more() -> None:
    result, quiet = shared(WithoutWait()), shared(SharedCores(Ok((3e-3,) * 3, threads=2)))
    assert threads_of(result) == [1, 1, 1]
    assert [t.number for t in result.finalists] == [t.number for t in quiet.finalists]
    assert [t.cost for t in result.trials] == [t.cost for t in quiet.trials]
    assert result.best.config == quiet.best.config
    assert [note for note in result.notes if note == f"{LOST}, took 3 ms in the search"]
