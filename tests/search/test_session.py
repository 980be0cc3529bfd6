"""A search that goes on in rounds: one tuner, nothing measured twice, the best of all rounds."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pytest

import pegbox as pb
from pegbox import te
from pegbox.errors import ArgumentError, MeasureError, PegboxError
from pegbox.measure.result import Ok, Result
from pegbox.search import Callback, Trial
from pegbox.search.session import Session
from pegbox.search.testing import ArtificialMeasurer
from pegbox.space import Config
from pegbox.task.task import Task

Costs = Callable[[Config], float]


@pytest.fixture
def task() -> Task:
    return pb.create_task("matmul", (8, 8, 16), target="llvm -num-cores 1")


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """Costs are the numbers of the configurations; gives the options of each measurer."""
    opened: list[dict[str, Any]] = []

    def factory(options: Any, **given: Any) -> Any:
        def measurer(task: Task, **more: Any) -> ArtificialMeasurer:
            opened.append({**(options or {}), **given, **more})
            return ArtificialMeasurer(lambda config: 1.0 + config.index)

        return measurer

    monkeypatch.setattr("pegbox.search.session.local_measurer", factory)
    return opened


def test_rounds_go_on_where_the_last_one_ended(task: Task, measured: list[dict[str, Any]]) -> None:
    session = Session(task, tuner="random", seed=3)
    first, second = session.round(5), session.round(4)
    configs = [trial.config for trial in (*first.trials, *second.trials)]
    assert len(set(configs)) == 9
    assert [trial.config for trial in session.trials] == configs
    assert [trial.number for trial in session.trials] == list(range(9))
    assert session.best is not None
    assert session.best.config.index == min(config.index for config in configs)
    assert session.since_improvement == 8 - session.best.number
    assert [opened["best"] for opened in measured] == [float("inf"), 1.0 + min(c.index for c in configs[:5])]


def test_what_is_known_is_learned_from_and_not_measured_again(task: Task, measured: list[dict[str, Any]]) -> None:
    known = [(task.space.get(n), Ok((1e-6,))) for n in range(3)]
    session = Session(task, tuner="grid", history=known)
    assert session.best_cost == 1e-6
    trials = session.round(4).trials
    assert not {trial.config for trial in trials} & {config for config, _ in known}
    assert session.best is not None
    assert session.best.config == known[0][0]
    assert session.since_improvement == 4
    assert measured[0]["best"] == 1e-6


def test_a_space_that_has_no_more_is_exhausted(measured: list[dict[str, Any]]) -> None:
    def one(tensors: Any, target: Any) -> Any:
        return lambda cfg: (te.create_schedule([tensors[-1].op]), list(tensors))

    session = Session(pb.create_task("elementwise_chain", (4, 4), space=one), tuner="grid")
    assert len(session.round(3).trials) == 1
    assert session.exhausted


def test_a_space_that_ends_between_rounds_is_exhausted_without_a_warning(
    measured: list[dict[str, Any]], recwarn: pytest.WarningsRecorder
) -> None:
    n = te.placeholder((2,), name="A")
    small = pb.create_task([n, te.compute((2,), lambda i: n[i] + 1, name="B")], space="sketch", target="llvm")
    session = Session(small, tuner="random")
    valid = len(list(small.space.iterate()))
    assert len(session.round(valid).trials) == valid
    assert session.round(4).trials == ()
    assert session.exhausted
    assert [str(each.message) for each in recwarn if "proposed nothing" in str(each.message)] == []


class Listener:
    """Proposes a list of configurations in its order; keeps what it is told."""

    def __init__(self, configs: Sequence[Config]) -> None:
        self.configs, self.told = list(configs), list[Config]()

    def ask(self, n: int) -> list[Config]:
        asked, self.configs = self.configs[:n], self.configs[n:]
        return asked

    def tell(self, configs: Sequence[Config], results: Sequence[Result]) -> None:
        self.told += configs


def listening(task: Task) -> tuple[Session, Listener, list[Config]]:
    """A session, its tuner, and what that proposes, one after the other."""
    configs = [task.space.config(row) for row in task.space.sample(10, np.random.default_rng(0))]
    tuner = Listener(configs)
    return Session(task, tuner=lambda space, seed: tuner), tuner, configs


@pytest.mark.parametrize("broken", ["measurer", "closing", "callback"])
def test_what_was_measured_before_a_round_broke_counts(task: Task, broken: str, monkeypatch: Any) -> None:
    session, tuner, configs = listening(task)

    class Breaking(ArtificialMeasurer):
        def measure(self, configs: Sequence[Config]) -> Iterator[tuple[Config, Result]]:
            yield from super().measure(configs[:3])
            if broken == "measurer":
                raise RuntimeError("the cable is out")
            yield from super().measure(configs[3:])

        def __exit__(self, *error: object) -> None:
            if broken == "closing":
                raise MeasureError("the cable is out")

    class Records(Callback):
        essential = True

        def on_trial(self, trial: Trial, state: Any) -> None:
            if trial.number == 2 and broken == "callback":
                raise OSError("the disk is full")

    costs = dict(zip(configs, range(10, 0, -1), strict=True))
    monkeypatch.setattr(
        "pegbox.search.session.local_measurer", lambda *_, **__: lambda *_, **__: Breaking(costs.__getitem__)
    )
    measured = 6 if broken == "closing" else 3
    with pytest.raises(PegboxError, match=r"cable|disk"):
        session.round(6, batch_size=6, callbacks=[Records()])
    assert [trial.config for trial in session.trials] == configs[:measured]
    assert session.best_cost == 11 - measured
    broken = "mended"
    assert [trial.config for trial in session.round(2).trials] == configs[6:8]
    assert [trial.number for trial in session.trials] == list(range(measured + 2))
    assert tuner.told == [*configs[:measured], *configs[6:8]]


def test_the_tuner_learns_in_the_next_round_what_a_limit_kept_from_it(task: Task, monkeypatch: Any) -> None:
    session, tuner, configs = listening(task)
    monkeypatch.setattr(
        "pegbox.search.session.local_measurer", lambda *_, **__: lambda *_, **__: ArtificialMeasurer(lambda _: 1.0)
    )
    session.round(8, batch_size=8, early_stopping=3)
    assert (len(session.trials), tuner.told) == (4, [])
    session.round(1)
    assert tuner.told == [*configs[:4], configs[8]]
    assert [trial.config for trial in session.trials] == tuner.told


def test_callbacks_and_options_are_those_of_the_round(task: Task, measured: list[dict[str, Any]]) -> None:
    heard: list[Trial] = []
    session = Session(task, tuner="random")
    session.round(2, callbacks=[heard.append], timeout=3.0, measure_options={"repeats": 5})
    session.round(1)
    assert len(heard) == 2
    assert (measured[0]["timeout"], measured[0]["repeats"], measured[1]["timeout"]) == (3.0, 5, 10.0)


def test_each_round_on_a_machine_is_watched_for_noise(
    task: Task, measured: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[int] = []

    class Watch(Callback):
        def __init__(self, count: int) -> None:
            threads.append(count)

    monkeypatch.setattr("pegbox.search.problem.NoiseWatch", Watch)
    session = Session(task, tuner="random")
    session.round(1)
    session.round(1)
    assert threads == [1, 1]


def test_an_unknown_option_of_measuring_is_refused(task: Task) -> None:
    with pytest.raises(ArgumentError, match="repeat"):
        Session(task, tuner="random").round(1, measure_options={"repeatt": 5})
