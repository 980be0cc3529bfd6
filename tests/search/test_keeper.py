"""Searches keep the best of a task in a store, however they end; other searches keep nothing."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

import pegbox as pb
from pegbox.errors import TuningError
from pegbox.measure import Baseline, Ok
from pegbox.records import Record
from pegbox.search import Callback, SearchOptions, Session, Subject, Trial, run
from pegbox.search.testing import ArtificialMeasurer
from pegbox.space import Config
from pegbox.store import TuningStore, best_config


@pytest.fixture(scope="module")
def task() -> pb.Task:
    return pb.create_task("matmul", (8, 8, 16), target="llvm -num-cores 1")


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> None:
    """Costs are the numbers of the configurations."""

    def factory(options: Any, **given: Any) -> Callable[..., ArtificialMeasurer]:
        return lambda task, **more: ArtificialMeasurer(_cost)

    for module in ("session", "tune"):
        monkeypatch.setattr(f"pegbox.search.{module}.local_measurer", factory)


def _cost(config: Config) -> float:
    return 1.0 + config.index


def _tune(task: pb.Task, **options: Any) -> Any:
    return pb.tune(task, tuner="random", trials=8, progress=False, **options)


@pytest.mark.usefixtures("measured")
def test_tune_keeps_the_best_with_its_baseline(store: TuningStore, task: pb.Task) -> None:
    result = _tune(task)
    (kept,) = store.records()
    assert best_config(task) == result.best.config
    assert (kept.cost, kept.tuner, kept.remeasured) == (result.best.cost, "random", True)


@pytest.mark.usefixtures("measured")
def test_sessions_keep_the_best_of_all_rounds(store: TuningStore, task: pb.Task) -> None:
    session = Session(task, tuner="random", seed=1)
    for _ in range(3):
        session.round(4)
    assert session.best is not None
    assert best_config(task) == session.best.config


@pytest.mark.usefixtures("measured")
@pytest.mark.parametrize("off", [True, False])
def test_a_search_keeps_elsewhere_or_nowhere(store: TuningStore, task: pb.Task, tmp_path: Path, off: bool) -> None:
    other = TuningStore(tmp_path / "other")
    _tune(task, store=None if off else other)
    assert not store.folder.exists()
    assert len(other.records()) == (not off)


def _interrupt(trial: Trial) -> None:
    if trial.number == 3:
        raise KeyboardInterrupt


class _Breaks(Callback):
    essential = True

    def on_trial(self, trial: Trial, state: object) -> None:
        if trial.number == 3:
            raise OSError("no room")


@pytest.mark.usefixtures("measured")
def test_ctrl_c_keeps_what_was_best_until_then(store: TuningStore, task: pb.Task) -> None:
    result = _tune(task, callbacks=[_interrupt])
    assert result.stopped_because == "interrupted"
    assert best_config(task) == result.best.config


@pytest.mark.usefixtures("measured")
def test_an_error_keeps_what_was_best_until_then(store: TuningStore, task: pb.Task) -> None:
    with pytest.raises(TuningError) as caught:
        _tune(task, callbacks=[_Breaks()])
    assert best_config(task) == caught.value.result.best.config


def test_nothing_is_written_before_the_end(store: TuningStore, task: pb.Task) -> None:
    seen: list[bool] = []
    options = SearchOptions(8, callbacks=[lambda _: seen.append(store.folder.exists())], store=store)
    run(pb.create_tuner("random", task), ArtificialMeasurer(_cost), options, subject=Subject("s", task))
    assert seen == [False] * 8
    assert store.folder.exists()


def test_a_baseline_is_kept(store: TuningStore, task: pb.Task) -> None:
    class Compared(ArtificialMeasurer):
        compares = True

        def baseline(self, cost: float) -> Baseline:
            return Baseline(cores=1, flop=1.0, read=1.0, written=1.0, numpy=2.0)

    options = SearchOptions(4, baseline=True, store=store)
    run(pb.create_tuner("random", task), Compared(_cost), options, subject=Subject("s", task))
    (kept,) = store.records()
    assert kept.baseline is not None


def test_simulations_functions_and_comparisons_keep_nothing(store: TuningStore, task: pb.Task) -> None:
    space = pb.recorded_space("conv2d-512x7x7-nchw")
    pb.tune(space, tuner="random", trials=4, progress=False)
    pb.compare(space, ["random"], trials=2, seeds=2, start=1, progress=False)
    small = pb.ConfigSpace()
    small.define_knob("a", [1, 2])
    pb.minimize(lambda config: 1.0 + config.index, small, trials=2, progress=False)
    recorded = pb.RecordedSpace("r", task.space, {next(task.space.iterate()): Ok((1.0,))}, task=task)
    pb.tune(task, runner=pb.SimulatedRunner(recorded), tuner="random", trials=2, progress=False)
    assert not store.folder.exists()


@pytest.mark.usefixtures("measured")
def test_arguments_that_records_cannot_hold_are_not_kept(store: TuningStore) -> None:
    task = pb.create_task(_scaled, (8, 2j), target="llvm -num-cores 1")
    assert _tune(task).best is not None
    assert not store.folder.exists()
    assert best_config(task) is None


def _scaled(cfg: Any, n: int, factor: complex) -> Any:
    a = pb.te.placeholder((n,), name="A")
    b = pb.te.compute((n,), lambda i: a[i] * factor.imag, name="B")
    s = pb.te.create_schedule(b.op)
    cfg.define_split("tile", n, num_outputs=2)
    return s, [a, b]


def test_build_takes_the_best_that_was_kept(store: TuningStore, task: pb.Task) -> None:
    assert pb.build(task).origin == "predicted, not tuned"
    best, other = list(islice(task.space.iterate(), 2))
    store.keep(Record.of(task, best, Ok((1.0,))))
    assert pb.build(task).source() == pb.build(task, config=best).source()
    with pb.apply_history_best([Record.of(task, other, Ok((2.0,)))]):
        assert pb.build(task).source() == pb.build(task, config=other).source()
