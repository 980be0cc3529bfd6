"""The tuning loop: limits, order of events, what it keeps when something breaks."""

import contextlib
import math
import signal
import subprocess
import sys
import warnings
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

import pytest

from pegbox.errors import ArgumentError, TuningError
from pegbox.measure.result import Failed, FailureKind, Ok, Result
from pegbox.search import Callback, PriorTrials, SearchOptions, SearchState, StopSearch, Subject, Trial, TuneResult, run
from pegbox.search.loop import interrupt
from pegbox.search.testing import ArtificialMeasurer, matmul_space, result_of, small_space
from pegbox.space import Config, ConfigSpace
from pegbox.task.speed_text import format_phases


class ListTuner:
    """Walks the space in index order and writes down what it hears."""

    def __init__(self, space: ConfigSpace, *, seed: int = 0) -> None:
        self.walk = iter(space.iterate())
        self.asked: list[int] = []
        self.told: list[tuple[list[Config], list[Result]]] = []

    def ask(self, n: int) -> list[Config]:
        self.asked.append(n)
        return list(islice(self.walk, n))

    def tell(self, configs: Sequence[Config], results: Sequence[Result]) -> None:
        self.told.append((list(configs), list(results)))


def by_index(config: Config) -> float:
    """The lower the index, the slower, and never equal."""
    return 1.0 / (1 + config.index)


def from_table(table: dict[int, float]) -> Any:
    return lambda config: table.get(config.index, 1.0)


class Ticking:
    """A clock that moves on by one second each time it is read."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        self.now += 1.0
        return self.now


# --- limits -----------------------------------------------------------------------------------------------------------


def test_stops_after_the_trials_and_cuts_the_last_batch() -> None:
    tuner = ListTuner(small_space())
    result = run(tuner, ArtificialMeasurer(by_index), SearchOptions(trials=10, batch_size=4))
    assert [trial.number for trial in result.trials] == list(range(10))
    assert tuner.asked == [4, 4, 2]
    assert result.stopped_because == "trials"


@pytest.mark.parametrize(("machines", "given", "asked"), [(2, None, 16), (40, None, 40), (40, 8, 8)])
def test_the_tuner_is_asked_for_as_many_as_are_measured_at_once(machines: int, given: int | None, asked: int) -> None:
    measurer, tuner = ArtificialMeasurer(by_index), ListTuner(small_space())
    measurer.machines = machines  # type: ignore[attr-defined]
    run(tuner, measurer, SearchOptions(trials=80, batch_size=given))
    assert tuner.asked[0] == asked


def test_the_tuners_own_batch_size_counts_unless_another_is_given() -> None:
    tuner = ListTuner(small_space())
    tuner.batch_size = 5  # type: ignore[attr-defined]
    run(tuner, ArtificialMeasurer(by_index), SearchOptions(trials=10))
    assert tuner.asked == [5, 5]


def test_an_exhausted_space_ends_the_run() -> None:
    result = run(ListTuner(small_space()), ArtificialMeasurer(by_index), SearchOptions(trials=1000, batch_size=16))
    assert result.stopped_because == "exhausted"
    assert len(result.trials) == 44
    assert result.best is not None
    assert result.best.cost == min(trial.cost for trial in result.trials)


def test_a_tuner_that_proposes_nothing_gives_an_empty_result() -> None:
    tuner = ListTuner(small_space())
    tuner.walk = iter(())
    result = run(tuner, ArtificialMeasurer(by_index), SearchOptions(trials=5))
    assert (result.best, len(result.trials), result.stopped_because) == (None, 0, "exhausted")


def test_early_stopping_counts_trials_without_improvement() -> None:
    cost = from_table({0: 0.5, 1: 0.9, 2: 0.4})
    result = run(
        ListTuner(small_space()), ArtificialMeasurer(cost), SearchOptions(trials=40, early_stopping=6, batch_size=4)
    )
    assert result.stopped_because == "early stopping"
    assert len(result.trials) == 9


def test_the_time_budget_ends_the_run_in_the_middle_of_a_batch() -> None:
    measurer: Any = ArtificialMeasurer(by_index)
    measurer.clock = Ticking()
    result = run(ListTuner(small_space()), measurer, SearchOptions(budget_seconds=60, batch_size=16))
    assert result.stopped_because == "budget"
    assert 1 <= len(result.trials) < 16


@pytest.mark.parametrize(
    "limits",
    [{}, {"early_stopping": 3}, {"trials": -1}, {"trials": 1.5}, {"budget_seconds": -2.0}, {"budget_seconds": math.nan},
     {"trials": 3, "early_stopping": 0}, {"trials": 3, "batch_size": 0}, {"trials": 3, "finalists": -1}],
)  # fmt: skip
def test_limits_that_make_no_sense_are_refused(limits: dict[str, Any]) -> None:
    with pytest.raises(ArgumentError):
        run(ListTuner(small_space()), ArtificialMeasurer(by_index), SearchOptions(**limits))


# --- telling ----------------------------------------------------------------------------------------------------------


class Backwards(ArtificialMeasurer):
    """Finishes the last configuration of a batch first."""

    def measure(self, configs: Sequence[Config]) -> Iterator[tuple[Config, Result]]:
        yield from reversed(list(super().measure(configs)))


def test_the_tuner_hears_results_in_the_order_of_asking() -> None:
    tuner = ListTuner(small_space())
    result = run(tuner, Backwards(by_index), SearchOptions(trials=8, batch_size=4))
    assert [[config.index for config in configs] for configs, _ in tuner.told] == [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert [r.cost for r in tuner.told[0][1]] == [by_index(config) for config in tuner.told[0][0]]
    assert [trial.config.index for trial in result.trials] == [3, 2, 1, 0, 7, 6, 5, 4]


class Ahead(ListTuner):
    """Writes down what is asked and told of it, too."""

    asks_ahead = True

    def __init__(self, space: ConfigSpace, events: list[str]) -> None:
        super().__init__(space)
        self.events = events

    def ask(self, n: int) -> list[Config]:
        self.events.append(f"ask {n}")
        return super().ask(n)

    def tell(self, configs: Sequence[Config], results: Sequence[Result]) -> None:
        self.events.append(f"tell {[config.index for config in configs]}")
        super().tell(configs, results)

    def wait(self) -> None:
        self.events.append("wait")


class Busy(ArtificialMeasurer):
    """Writes down what is measured; beside it only what `silent` allows."""

    def __init__(self, events: list[str], *, silent: bool) -> None:
        super().__init__(by_index)
        self.events, self.silent = events, silent

    def beside(self) -> contextlib.AbstractContextManager[None] | None:
        return None if self.silent else self._aside()

    @contextlib.contextmanager
    def _aside(self) -> Iterator[None]:
        self.events.append("aside")
        yield

    def measure(self, configs: Sequence[Config]) -> Iterator[tuple[Config, Result]]:
        for config, result in super().measure(configs):
            self.events.append(f"measured {config.index}")
            yield config, result


def test_a_tuner_that_asks_ahead_is_asked_while_half_of_a_batch_is_measured() -> None:
    space, events = small_space(), list[str]()
    result = run(
        Ahead(space, events),
        Busy(events, silent=False),
        SearchOptions(trials=7, batch_size=4, finalists=0),
        space=space,
    )
    assert len(result.trials) == 7
    assert events == [
        "aside", "ask 4", "measured 0", "measured 1", "tell [0, 1]", "aside", "ask 3", "measured 2", "measured 3",
        "tell [2, 3]", "measured 4", "measured 5", "tell [4, 5]", "measured 6", "tell [6]",
    ]  # fmt: skip


def test_while_candidates_are_timed_in_silence_nothing_is_asked() -> None:
    space, events = small_space(), list[str]()
    run(
        Ahead(space, events), Busy(events, silent=True), SearchOptions(trials=3, batch_size=2, finalists=0), space=space
    )
    assert events == [
        "ask 2", "wait", "measured 0", "measured 1", "tell [0, 1]", "ask 1", "wait", "measured 2", "tell [2]",
    ]  # fmt: skip


def test_history_is_told_first_may_win_and_is_not_measured_again() -> None:
    space = small_space()
    history = [(space.get(0), result_of(1e-9)), (space.get(3), result_of(math.inf))]
    tuner, measured = ListTuner(space), []

    def cost(config: Config) -> float:
        measured.append(config.index)
        return by_index(config)

    result = run(
        tuner,
        ArtificialMeasurer(cost),
        SearchOptions(trials=6, batch_size=3, finalists=0),
        prior=PriorTrials(results=history),
    )
    assert [config.index for config in tuner.told[0][0]] == [0, 3]
    assert not {0, 3} & set(measured)
    assert len(result.trials) == 6
    assert result.best is not None
    assert (result.best.config.index, result.best.number) == (0, -2)


def test_a_resumed_run_with_nothing_left_to_do_measures_nothing() -> None:
    space = small_space()
    measured: list[int] = []

    def cost(config: Config) -> float:
        measured.append(config.index)
        return 1.0

    history = [(space.get(i), result_of(1.0 + i)) for i in range(3)]
    result = run(
        ListTuner(space), ArtificialMeasurer(cost), SearchOptions(trials=0), prior=PriorTrials(results=history)
    )
    assert measured == []
    assert result.best is not None
    assert result.best.config.index == 0


def test_costs_become_gflops() -> None:
    result = run(
        ListTuner(small_space()), ArtificialMeasurer(lambda c: 0.5), SearchOptions(trials=1), subject=Subject(flop=1e9)
    )
    assert result.trials[0].gflops == pytest.approx(2.0)
    assert result.best is not None
    assert result.best.gflops == pytest.approx(2.0)


def test_phases_add_up_to_the_elapsed_time() -> None:
    result = run(ListTuner(small_space()), ArtificialMeasurer(by_index), SearchOptions(trials=9, batch_size=3))
    assert set(result.phases) == {"propose", "measure", "learn", "callbacks", "remeasure"}
    assert 0 < sum(result.phases.values()) <= result.elapsed
    assert result.best is not None
    assert "where the time went" in str(result.best)


def test_phases_of_less_than_a_hundredth_are_left_out() -> None:
    assert format_phases({"learn": 0.009, "measure": 0.6, "propose": 0.4}) == "measure 0.60 s, propose 0.40 s"
    assert format_phases({}) == ""


class Clock:
    """Time that passes only where somebody lets it."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_waiting_for_a_tuner_that_learns_in_the_background_counts_as_learning() -> None:
    clock = Clock()

    class Learning(ListTuner):
        def wait(self) -> None:
            clock.now += 5.0

        def model_report(self) -> None:
            clock.now += 2.0

    class Silent(ArtificialMeasurer):
        def beside(self) -> None:
            return None

    measurer = Silent(by_index)
    measurer.clock = clock  # type: ignore[attr-defined]
    result = run(Learning(small_space()), measurer, SearchOptions(trials=3, batch_size=3))
    assert result.phases["learn"] == 7.0
    assert sum(result.phases.values()) == result.elapsed


# --- the end ----------------------------------------------------------------------------------------------------------


class Lucky(ArtificialMeasurer):
    """The first measurement of one configuration is too good; measured again it is honest."""

    def __init__(self) -> None:
        super().__init__(from_table({1: 0.100, 2: 0.101, 3: 0.102, 4: 0.103, 5: 0.104, 6: 0.3}))
        self.again: list[int] = []

    def remeasure(self, configs: Sequence[Config]) -> list[Result]:
        self.again = [config.index for config in configs]
        return [result_of({1: 0.12, 2: 0.105, 3: 0.101}.get(index, 0.2)) for index in self.again]


def test_the_winner_is_the_best_of_the_few_measured_again() -> None:
    measurer = Lucky()
    result = run(ListTuner(small_space()), measurer, SearchOptions(trials=10, finalists=4))
    assert measurer.again == [1, 2, 3, 4]
    assert result.best is not None
    assert (result.best.config.index, result.best.cost, result.best.remeasured) == (3, 0.101, True)
    assert [trial.number for trial in result.finalists] == [1, 2, 3, 4]
    with pytest.warns(DeprecationWarning, match="called finalists"):
        assert result.finals == result.finalists


def test_what_noise_cannot_explain_is_not_measured_again() -> None:
    measurer = Lucky()
    measurer.cost = from_table({1: 0.1, 2: 0.105, 3: 0.2})
    run(ListTuner(small_space()), measurer, SearchOptions(trials=10))
    assert measurer.again == [1, 2]


def test_a_trial_whose_fastest_repeat_is_near_the_best_is_measured_again() -> None:
    class Repeats(Lucky):
        def measure(self, configs: Sequence[Config]) -> Iterator[tuple[Config, Result]]:
            for config in configs:
                yield config, Ok({1: (0.1, 0.1, 0.1), 2: (0.105, 0.2, 0.3)}.get(config.index, (0.2, 0.2, 0.2)))

    measurer = Repeats()
    run(ListTuner(small_space()), measurer, SearchOptions(trials=10))
    assert measurer.again == [1, 2]


def test_when_the_finalist_disappoints_those_it_had_beaten_get_their_chance() -> None:
    class Fluke(ArtificialMeasurer):
        def remeasure(self, configs: Sequence[Config]) -> list[Result]:
            rounds.append([config.index for config in configs])
            return [result_of({1: 0.9, 2: 0.5}.get(config.index, 0.3)) for config in configs]

    rounds: list[list[int]] = []
    measurer = Fluke(from_table({1: 0.01, 2: 0.3, 3: 0.35, 4: 0.4, 5: 0.45, 6: 0.6}))
    result = run(ListTuner(small_space()), measurer, SearchOptions(trials=10, finalists=2))
    assert rounds == [[1], [2, 3]]
    assert result.best is not None
    assert (result.best.config.index, result.best.cost) == (3, 0.3)


def test_without_finalists_the_trial_itself_wins() -> None:
    result = run(ListTuner(small_space()), Lucky(), SearchOptions(trials=10, finalists=0))
    assert result.best is not None
    assert (result.best.config.index, result.best.remeasured) == (1, False)


def test_only_failures_give_no_best_but_a_summary() -> None:
    result = run(ListTuner(small_space()), ArtificialMeasurer(lambda c: math.inf), SearchOptions(trials=5))
    assert result.best is None
    assert result.failures == {"compile error": 5}
    assert "nothing valid was found" in str(result)
    assert "too much code" in str(result)


def test_finalists_that_fail_leave_the_trial_as_winner_with_a_warning() -> None:
    class Flaky(ArtificialMeasurer):
        def remeasure(self, configs: Sequence[Config]) -> list[Result]:
            return [Failed(FailureKind.TIMEOUT, "too slow") for _ in configs]

    with pytest.warns(RuntimeWarning, match="too slow"):
        result = run(ListTuner(small_space()), Flaky(by_index), SearchOptions(trials=5))
    assert result.best is not None
    assert not result.best.remeasured


# --- callbacks --------------------------------------------------------------------------------------------------------


class Log(Callback):
    def __init__(self) -> None:
        self.events: list[str] = []
        self.trials: list[Trial] = []
        self.result: TuneResult | None = None

    def on_start(self, state: SearchState) -> None:
        self.events.append("start")

    def on_trial(self, trial: Trial, state: SearchState) -> None:
        assert state.trials[-1] is trial
        self.events.append("trial")
        self.trials.append(trial)

    def on_batch(self, trials: Sequence[Trial], state: SearchState) -> None:
        self.events.append(f"batch {len(trials)}")

    def on_remeasured(self, trial: Trial, state: SearchState) -> None:
        self.events.append("remeasured")

    def on_end(self, result: TuneResult) -> None:
        self.events.append("end")
        self.result = result


class Essential(Log):
    essential = True


def test_callbacks_hear_everything_in_order() -> None:
    log = Log()
    result = run(
        ListTuner(small_space()), ArtificialMeasurer(by_index), SearchOptions(trials=3, batch_size=2, callbacks=[log])
    )
    assert log.events == ["start", "trial", "trial", "batch 2", "trial", "batch 1", "remeasured", "end"]
    assert log.result is result


def test_a_plain_function_hears_each_trial() -> None:
    heard: list[int] = []
    run(
        ListTuner(small_space()),
        ArtificialMeasurer(by_index),
        SearchOptions(trials=3, callbacks=[lambda t: heard.append(t.number)]),
    )
    assert heard == [0, 1, 2]


def test_a_callback_may_end_the_run() -> None:
    def enough(trial: Trial) -> None:
        if trial.number == 2:
            raise StopSearch

    result = run(ListTuner(small_space()), ArtificialMeasurer(by_index), SearchOptions(trials=20, callbacks=[enough]))
    assert (len(result.trials), result.stopped_because) == (3, "stopped by a callback")
    assert result.best is not None


def test_a_broken_callback_is_dropped_and_the_run_goes_on() -> None:
    def broken(trial: Trial) -> None:
        raise ValueError("oops")

    log = Essential()
    with pytest.warns(RuntimeWarning, match=r"broken raised ValueError in on_trial: oops") as caught:
        result = run(
            ListTuner(small_space()), ArtificialMeasurer(by_index), SearchOptions(trials=4, callbacks=[broken, log])
        )
    assert len(caught) == 1
    assert len(result.trials) == len(log.trials) == 4


def test_callbacks_after_a_broken_one_are_called_where_warnings_are_errors() -> None:
    heard: list[int] = []
    options = SearchOptions(trials=2, callbacks=[lambda t: 1 // 0, lambda t: heard.append(t.number)])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(RuntimeWarning, match="the search goes on without it"):
            run(ListTuner(small_space()), ArtificialMeasurer(by_index), options)
    assert heard[:1] == [0]


def test_an_essential_callback_that_breaks_ends_the_run_with_everything_kept() -> None:
    class FullDisk(Callback):
        essential = True

        def on_trial(self, trial: Trial, state: SearchState) -> None:
            if trial.number == 3:
                raise OSError("no space left")

    log = Log()
    with pytest.raises(TuningError, match=r"FullDisk raised OSError in on_trial: no space left.*4 trials") as caught:
        run(
            ListTuner(small_space()), ArtificialMeasurer(by_index), SearchOptions(trials=9, callbacks=[log, FullDisk()])
        )
    assert isinstance(caught.value.__cause__, OSError)
    assert len(caught.value.result.trials) == len(log.trials) == 4
    assert caught.value.result.best.config.index == 3
    assert caught.value.result.stopped_because == "error"
    assert log.events[-1] == "end"


def test_essential_callbacks_come_first() -> None:
    order: list[str] = []

    class Records(Callback):
        essential = True

        def on_trial(self, trial: Trial, state: SearchState) -> None:
            order.append("records")

    run(
        ListTuner(small_space()),
        ArtificialMeasurer(by_index),
        SearchOptions(trials=1, callbacks=[lambda t: order.append("other"), Records()]),
    )
    assert order == ["records", "other"]


# --- what breaks ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["ask", "tell"])
def test_a_tuner_that_raises_is_named_and_nothing_is_lost(method: str) -> None:
    class Broken(ListTuner):
        def ask(self, n: int) -> list[Config]:
            if method == "ask" and len(self.asked) == 2:
                raise ZeroDivisionError("bad luck")
            return super().ask(n)

        def tell(self, configs: Sequence[Config], results: Sequence[Result]) -> None:
            super().tell(configs, results)
            if method == "tell" and len(self.told) == 2:
                raise ZeroDivisionError("bad luck")

    log = Log()
    with pytest.raises(TuningError, match=rf"tuner 'mine' raised ZeroDivisionError in {method}.*bad luck") as caught:
        run(
            Broken(small_space()),
            ArtificialMeasurer(by_index),
            SearchOptions(trials=20, batch_size=4, callbacks=[log], name="mine"),
        )
    assert len(caught.value.result.trials) == len(log.trials) == 8
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


class Proposing:
    """Proposes one thing again and again."""

    def __init__(self, thing: Any) -> None:
        self.thing = thing

    def ask(self, n: int) -> list[Any]:
        return [self.thing]

    def tell(self, configs: Any, results: Any) -> None:
        pass


def test_a_proposal_that_is_no_config_is_an_error() -> None:
    with pytest.raises(TuningError, match=r"tuner 'Proposing' proposed 17, which is not a Config"):
        run(Proposing(17), ArtificialMeasurer(by_index), SearchOptions(trials=4))


def test_a_proposal_from_another_space_is_an_error() -> None:
    with pytest.raises(TuningError, match="another space"):
        run(
            Proposing(matmul_space().get(0)), ArtificialMeasurer(by_index), SearchOptions(trials=4), space=small_space()
        )


def test_a_proposal_that_the_space_excludes_is_an_error() -> None:
    space = ConfigSpace()
    space.define_knob("a", [1, 2, 3])
    space.add_constraint(lambda config: config["a"].val != 2, reads=("a",), message="a must not be 2")
    bad = ConfigSpace()
    bad.define_knob("a", [1, 2, 3])
    config = bad.get(1)
    with pytest.raises(TuningError, match=r"the space excludes|another space"):
        run(Proposing(config), ArtificialMeasurer(by_index), SearchOptions(trials=4), space=space)


def test_a_tuner_that_repeats_itself_is_an_error_and_measures_once() -> None:
    measured: list[Config] = []

    def cost(config: Config) -> float:
        measured.append(config)
        return 1.0

    with pytest.raises(TuningError, match="already measured"):
        run(Proposing(small_space().get(5)), ArtificialMeasurer(cost), SearchOptions(trials=4))
    assert len(measured) == 1


class Cut(ArtificialMeasurer):
    """Does something in the middle of a batch."""

    def __init__(self, at: int, error: BaseException | None) -> None:
        super().__init__(by_index)
        self.at, self.error, self.closed = at, error, False

    def measure(self, configs: Sequence[Config]) -> Iterator[tuple[Config, Result]]:
        try:
            for item in super().measure(configs):
                if item[0].index == self.at:
                    if self.error is None:
                        return
                    raise self.error
                yield item
        finally:
            self.closed = True


def test_a_measurer_that_raises_ends_the_run_with_everything_kept() -> None:
    with pytest.raises(TuningError, match="the measurer raised OSError: gone") as caught:
        run(ListTuner(small_space()), Cut(6, OSError("gone")), SearchOptions(trials=20, batch_size=4))
    assert len(caught.value.result.trials) == 6


@pytest.mark.parametrize("method", ["wait", "activity"])
def test_a_tuner_whose_other_methods_raise_is_named_and_nothing_is_lost(method: str) -> None:
    class Broken(ListTuner):
        @property
        def activity(self) -> str:
            return self.fail("activity") or "choosing"

        def wait(self) -> None:
            self.fail("wait")

        def fail(self, place: str) -> None:
            if place == method and len(self.told) == 2:
                raise ZeroDivisionError("bad luck")

    with pytest.raises(TuningError, match=rf"tuner 'mine' raised ZeroDivisionError in {method}.*bad luck") as caught:
        run(Broken(small_space()), Busy([], silent=True), SearchOptions(trials=20, batch_size=4, name="mine"))
    assert len(caught.value.result.trials) == 8
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


class Faulty(ArtificialMeasurer):
    """Fails in one place, once six are measured; `close` is where its stream ends."""

    def __init__(self, place: str) -> None:
        super().__init__(by_index)
        self.place, self.measured = place, 0

    @property
    def machines(self) -> int:
        return self.fail("machines") or 1

    @property
    def where(self) -> str:
        return self.fail("where") or "on 2 machines"

    def beside(self) -> contextlib.AbstractContextManager[None]:
        self.fail("beside")
        return self._aside()

    @contextlib.contextmanager
    def _aside(self) -> Iterator[None]:
        self.fail("enter")
        yield
        self.fail("leave")

    def measure(self, configs: Sequence[Config]) -> Iterator[tuple[Config, Result]]:
        try:
            for item in super().measure(configs):
                self.measured += 1
                yield item
        finally:
            self.fail("close")

    def fail(self, place: str) -> None:
        if place == self.place and self.measured >= 6:
            raise OSError("gone")


@pytest.mark.parametrize(
    ("place", "kept"), [("machines", 6), ("where", 6), ("beside", 6), ("enter", 6), ("leave", 6), ("close", 8)]
)
def test_wherever_the_measurer_raises_nothing_is_lost(place: str, kept: int) -> None:
    tuner, log = Ahead(small_space(), []), Log()
    tuner.batch_size = 4  # type: ignore[attr-defined]
    with pytest.raises(TuningError, match=r"the measurer raised OSError.*: gone") as caught:
        run(tuner, Faulty(place), SearchOptions(trials=20, callbacks=[log]))
    assert len(caught.value.result.trials) == kept
    assert log.events[-1] == "end"


def test_a_stream_that_cannot_be_left_ends_the_run_with_everything_kept() -> None:
    def stop(trial: Trial) -> None:
        if trial.number == 6:
            raise StopSearch

    with pytest.raises(TuningError, match=r"the measurer raised OSError at the end of measure\(\): gone") as caught:
        run(ListTuner(small_space()), Faulty("close"), SearchOptions(trials=20, callbacks=[stop]))
    assert len(caught.value.result.trials) == 7


def test_of_two_errors_the_first_is_reported() -> None:
    class Records(Essential):
        def on_trial(self, trial: Trial, state: SearchState) -> None:
            super().on_trial(trial, state)
            if trial.number == 6:
                raise OSError("disk full")

    with pytest.raises(TuningError, match="disk full") as caught:
        run(ListTuner(small_space()), Faulty("close"), SearchOptions(trials=20, callbacks=[Records()]))
    assert len(caught.value.result.trials) == 7


def test_ctrl_c_is_no_error_where_the_stream_cannot_be_left_either() -> None:
    class Interrupting(Log):
        def on_trial(self, trial: Trial, state: SearchState) -> None:
            if trial.number == 6:
                signal.raise_signal(signal.SIGINT)

    result = run(ListTuner(small_space()), Faulty("close"), SearchOptions(trials=20, callbacks=[Interrupting()]))
    assert (result.stopped_because, len(result.trials)) == ("interrupted", 7)


def test_a_measurer_that_gives_too_few_results_is_an_error() -> None:
    with pytest.raises(TuningError, match="gave 2 results for 4 configurations") as caught:
        run(ListTuner(small_space()), Cut(6, None), SearchOptions(trials=20, batch_size=4))
    assert len(caught.value.result.trials) == 6


def test_ctrl_c_keeps_everything_and_gives_the_best_so_far() -> None:
    log, measurer = Log(), Cut(6, KeyboardInterrupt())
    result = run(ListTuner(small_space()), measurer, SearchOptions(trials=20, batch_size=4, callbacks=[log]))
    assert result.stopped_because == "interrupted"
    assert len(result.trials) == len(log.trials) == 6
    assert result.best is not None
    assert result.best.config.index == 5
    assert measurer.closed
    assert log.events[-1] == "end"


def interrupted_at_trial(number: int) -> Log:
    class Interrupting(Log):
        def on_trial(self, trial: Trial, state: SearchState) -> None:
            super().on_trial(trial, state)
            if trial.number == number:
                signal.raise_signal(signal.SIGINT)

    return Interrupting()


def search_interrupted_at(number: int, log: Log | None = None) -> TuneResult:
    callbacks = [log or Log(), interrupted_at_trial(number)]
    return run(ListTuner(small_space()), ArtificialMeasurer(by_index), SearchOptions(trials=20, callbacks=callbacks))


def test_a_second_ctrl_c_breaks_a_loop_of_searches() -> None:
    log = Log()
    assert search_interrupted_at(6, log).stopped_because == "interrupted"
    with pytest.raises(KeyboardInterrupt, match="second"):
        search_interrupted_at(3, log)
    assert log.events[-1] == "end"
    assert len(log.trials) == 7 + 4


def test_a_ctrl_c_long_after_the_first_ends_one_search(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interrupt, "TWICE_SECONDS", 0.0)
    assert [search_interrupted_at(2).stopped_because for _ in range(2)] == ["interrupted"] * 2


def test_ctrl_c_while_a_module_is_imported_ends_the_search_and_not_the_process() -> None:
    program = """
import pegbox as pb
from pegbox.search import SearchOptions, run
from pegbox.search.testing import ArtificialMeasurer
from pegbox.task.speed_text import format_phases

class Importing:
    def ask(self, n):
        exec("raise KeyboardInterrupt")  # as dataclasses do when xgboost is imported: CPython keeps that in mind
    def tell(self, configs, results):
        pass

space = pb.ConfigSpace()
space.define_knob("a", [1])
print(run(Importing(), ArtificialMeasurer(lambda config: 1.0), SearchOptions(trials=1)).stopped_because)
"""
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=60)
    assert ran.stdout == "interrupted\n"
    assert ran.returncode == 0


def test_ctrl_c_waits_until_a_result_is_with_every_callback() -> None:
    class Records(Log):
        essential = True

        def on_trial(self, trial: Trial, state: SearchState) -> None:
            if trial.number == 2:
                signal.raise_signal(signal.SIGINT)
            super().on_trial(trial, state)

    records, log = Records(), Log()
    result = run(
        ListTuner(small_space()), ArtificialMeasurer(by_index), SearchOptions(trials=20, callbacks=[records, log])
    )
    assert result.stopped_because == "interrupted"
    assert [trial.number for trial in records.trials] == [trial.number for trial in log.trials] == [0, 1, 2]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_leaving_a_batch_early_closes_the_measurers_stream() -> None:
    def stop(trial: Trial) -> None:
        raise StopSearch

    measurer = Cut(100, None)
    result = run(ListTuner(small_space()), measurer, SearchOptions(trials=20, callbacks=[stop]))
    assert len(result.trials) == 1
    assert measurer.closed


def test_a_dropped_trial_is_no_finalist() -> None:
    class Dropping(ArtificialMeasurer):
        def measure(self, configs: Sequence[Config]) -> Iterator[tuple[Config, Result]]:
            for config in configs:
                yield config, Ok((1.0 + config.index / 1000,), partial=config.index != 7)

    result = run(ListTuner(small_space()), Dropping(by_index), SearchOptions(trials=10))
    assert [trial.config.index for trial in result.finalists] == [7]
