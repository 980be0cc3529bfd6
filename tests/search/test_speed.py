"""A call without arithmetic is shown in bytes a second, wherever speeds are shown."""

import io

import numpy as np
import pytest

import pegbox as pb
from pegbox import te
from pegbox.measure.result import Ok
from pegbox.search import SearchOptions, Subject, run
from pegbox.search.loop.display import LineProgress
from pegbox.search.testing import ArtificialMeasurer
from pegbox.space import Config

BYTES = 2 * 16 * 16 * 4
SECONDS = 1e-6
SPEED = "2.0 GB/s"


def copy(cfg, n):
    x = te.placeholder((n, n), name="X")
    y = te.compute((n, n), lambda i, j: x[j, i], name="Y")
    cfg.define_knob("a", [0, 1, 2])
    return te.create_schedule(y.op), [x, y]


@pytest.fixture(scope="module")
def task():
    return pb.create_task(copy, args=(16,))


@pytest.fixture
def recorded(task):
    results = {config: Ok((SECONDS * (1 + config.index),)) for config in task.space.iterate()}
    return pb.RecordedSpace("copy", task.space, results, task=task)


def cost(config: Config) -> float:
    return SECONDS * (1 + config.index)


def test_in_the_result_of_a_search_and_on_the_way(task):
    stream = io.StringIO()
    tuner = pb.create_tuner("grid", task.space).tuner
    result = run(
        tuner,
        ArtificialMeasurer(cost),
        SearchOptions(trials=3, callbacks=[LineProgress(stream)]),
        subject=Subject(flop=task.flop, bytes_moved=task.bytes_moved),
        space=task.space,
    )
    assert SPEED in str(result)
    assert SPEED in stream.getvalue()
    assert result.subject.bytes_moved == BYTES


def test_in_a_recorded_space_and_in_what_is_tuned_on_it(recorded):
    assert SPEED in str(recorded)
    assert SPEED in str(pb.tune(recorded, tuner="random", trials=3, progress=False))


def test_for_who_asks_and_tells(task):
    tuner = pb.create_tuner("random", task)
    tuner.tell(task.space.get(0), SECONDS)
    assert SPEED in repr(tuner)


def test_in_comparisons(recorded, tmp_path, capsys):
    report = pb.compare(recorded, ["random", "grid"], trials=3, seeds=2)
    assert f"best known 1 us, {SPEED}" in str(report)
    assert "GB/s" in str(report).splitlines()[2]
    assert SPEED in capsys.readouterr().err
    assert all(summary.gigabytes == pytest.approx(BYTES / summary.cost / 1e9) for summary in report.summaries())
    report.save(tmp_path / "r.json")
    assert str(pb.Comparison.load(tmp_path / "r.json")) == str(report)


def test_what_has_arithmetic_is_shown_by_that():
    task = pb.create_task("matmul", args=(16, 16, 16))
    space = task.space
    config = space.config(space.sample(1, np.random.default_rng(0))[0])
    recorded = pb.RecordedSpace("m", space, {config: Ok((1e-6,))}, flop=task.flop, task=task)
    assert "8.2 GFLOP/s" in str(recorded)
