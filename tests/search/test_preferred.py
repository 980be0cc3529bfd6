"""Searches of tasks whose templates prefer a configuration: it is tried whatever the tuner proposes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

import pegbox as pb
from pegbox import te
from pegbox.measure.result import Result
from pegbox.search import TuneResult, predicted_configs
from pegbox.search.session import Session
from pegbox.search.testing import ArtificialMeasurer
from pegbox.space import Config, ConfigSpace
from pegbox.task import Task, TaskGroup

Search = Callable[..., TuneResult]


class Backwards:
    """Proposes the last configurations of a space first."""

    def __init__(self, space: ConfigSpace, seed: int) -> None:
        self.left = list(space.iterate())

    def ask(self, n: int) -> list[Config]:
        return [self.left.pop() for _ in range(min(n, len(self.left)))]

    def tell(self, configs: Sequence[Config], results: Sequence[Result]) -> None:
        pass


def made(*, prefers: bool = True, excludes: bool = False, name: str = "preferring") -> Task:
    """Make a task of 12 configurations; the first one is the fastest to `slower_by_index`, if it is not excluded."""

    def template(cfg: pb.TemplateConfig) -> Any:
        x = te.placeholder((64,), name="X")
        y = te.compute((64,), lambda i: x[i] + 1, name="Y")
        cfg.define_knob(f"tile_{name}", [2, 4, 8, 16])
        cfg.define_knob("unroll", [1, 2, 4])
        if prefers:
            cfg.prefer_first()
        if excludes:
            cfg.add_constraint(lambda c: c["unroll"].val > 1, reads=["unroll"], message="unrolled")
        s = te.create_schedule(y.op)
        s[y].split(y.op.axis[0], factor=cfg[f"tile_{name}"].val)
        return s, [x, y]

    return pb.create_task(pb.template(name)(template), target="llvm -num-cores 1")


@pytest.fixture(params=["tune", "session"])
def search(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Search:
    """Make a search with `Backwards`, in which configurations cost more the later they come in their space."""

    def factory(options: Any, **given: Any) -> Any:
        return lambda task, **more: ArtificialMeasurer(lambda config: 1.0 + config.index)

    monkeypatch.setattr(f"pegbox.search.{request.param}.local_measurer", factory)
    monkeypatch.setattr("pegbox.search.problem.check_values", lambda group: None)
    monkeypatch.setattr("pegbox.search.problem.GroupMeasurer", lambda group, opened: opened(group.first))

    def tuned(task: Task | TaskGroup, trials: int, **options: Any) -> TuneResult:
        if request.param == "tune":
            return pb.tune(task, tuner=Backwards, trials=trials, store=None, progress=False, **options)
        if isinstance(task, TaskGroup):
            pytest.skip("a session is of one task")
        session = Session(task, tuner=Backwards)
        result = session.round(trials, store=None, **options)
        assert not {trial.config for trial in session.round(2, store=None).trials} & {t.config for t in result.trials}
        return result

    return tuned


def test_a_short_search_ends_no_slower_than_the_preferred_configuration(search: Search) -> None:
    task = made()
    result = search(task, 3)
    assert [trial.config.index for trial in result.trials] == [0, 11, 10]
    assert result.best is not None
    assert result.best.config == next(predicted_configs(task))


def test_configurations_that_are_given_come_before_the_preferred_one(search: Search) -> None:
    task = made()
    result = search(task, 4, first=[task.space.get(5), task.space.get(0)])
    assert [trial.config.index for trial in result.trials] == [5, 0, 11, 10]


@pytest.mark.parametrize("options", [{"prefers": False}, {"excludes": True}])
def test_a_first_configuration_that_is_not_preferred_or_not_valid_is_not_tried(
    search: Search, options: dict[str, bool]
) -> None:
    assert [trial.config.index for trial in search(made(**options), 2).trials] == [11, 10]


def test_each_implementation_begins_with_its_own(search: Search) -> None:
    group = TaskGroup({name: made(name=name) for name in ("one", "other")})
    firsts = [trial.config for trial in search(group, 3).trials][:2]
    assert firsts == [task.space.get(0) for task in group.tasks.values()]
