"""Runs of a simulated comparison on a Dask cluster."""

from __future__ import annotations

import json
import os
import re
import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from comparisons import InOrder, by_index

import pegbox as pb
from pegbox.comparison.runs import Run
from pegbox.errors import ArgumentError, ComparisonError, MeasureError
from pegbox.measure.result import Ok
from pegbox.records.recorded_space import RecordedSpace
from pegbox.search import Comparison
from pegbox.search.testing import small_space
from pegbox.space import ConfigSpace
from tests.helpers.rack import waited

distributed = pytest.importorskip("distributed")
dask_pool = pytest.importorskip("pegbox.plugins.runners.dask_pool")

OPTIONS = {"dashboard_address": None, "silence_logs": 50}


@pytest.fixture(scope="module")
def client() -> Iterator[Any]:
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, memory_limit=0, **OPTIONS) as cluster,
        distributed.Client(cluster, set_as_default=False) as client,
    ):
        yield client


def on(client: Any) -> str:
    return f"dask:scheduler={client.scheduler.address}"


def backwards(space: ConfigSpace, *, seed: int = 0) -> InOrder:
    return InOrder(space, seed=seed, backwards=True)


def compared(**options: Any) -> Comparison:
    settings: dict[str, Any] = {"trials": 5, "seeds": 3, "progress": False}
    tuners = {"random": "random", "mine": lambda space, *, seed=0: backwards(space, seed=seed)}
    return pb.compare(_few(), tuners, **{**settings, **options})


def results(report: Comparison) -> list[Run]:
    return [replace(run, seconds=0.0, tuner_seconds=0.0, run_queue_wait=0.0) for run in report.runs]


BOWLS = """
import pegbox as pb

def bowl(best):
    space = pb.ConfigSpace()
    space.define_knob("a", list(range(8)))
    space.define_knob("b", list(range(8)))
    return pb.Objective(lambda c: 1.0 + (c["a"].val - best) ** 2 + c["b"].val, space, pure=True)
"""


def test_a_suite_of_functions_gives_on_a_cluster_what_it_gives_here(client: Any, tmp_path: Path) -> None:
    (tmp_path / "bowls.py").write_text(BOWLS)
    spaces = [{"name": f"bowl{best}", "objective": "bowls.py:bowl", "options": {"best": best}} for best in (2, 5)]
    (tmp_path / "suite.json").write_text(json.dumps({"suite": "bowls", "spaces": spaces}))
    options: dict[str, Any] = {"suite": tmp_path, "tuners": ["random", "ga"], "trials": 12, "seeds": 2}
    there = pb.compare(**options, jobs=on(client), progress=False)
    assert not there.broken
    assert results(there) == results(pb.compare(**options, progress=False))
    assert there.aggregate().table().splitlines()[0].startswith("over 2 spaces")


def test_what_makes_runs_leaves_the_workers_with_its_client(client: Any) -> None:
    """Payloads leave the workers with their client, as when the program that compares is killed."""
    client.run(_shorten_lease)
    with distributed.Client(client.scheduler.address, set_as_default=False) as other:
        dask_pool.DaskPool(b"", scheduler=other)
        assert any(_left_by_pegbox(client))
    waited(lambda: not any(_left_by_pegbox(client)))


def _shorten_lease() -> None:
    from pegbox.plugins.runners import dask_worker

    dask_worker.LEASE = 0.05


def _left_by_pegbox(client: Any) -> list[str]:
    return [name for names in client.run(_plugins).values() for name in names if name.startswith("pegbox")]


def test_workers_give_the_results_of_one_run_after_the_other(client: Any) -> None:
    report = compared(jobs=on(client))
    assert results(report) == results(compared())
    assert report.setup.jobs == 2
    assert not _left_by_pegbox(client)


def test_runs_of_a_worker_that_dies_are_made_by_another(client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    pids = client.run(os.getpid)

    def kill(run: Run, *rest: object) -> None:
        if pids:
            os.kill(pids.popitem()[1], signal.SIGKILL)

    monkeypatch.setattr("pegbox.comparison.runs.print_run", kill)
    report = compared(jobs=on(client), progress=True)
    assert results(report) == results(compared())


def test_a_tuner_that_breaks_there_is_reported_as_here(client: Any) -> None:
    def broken(space: ConfigSpace, *, seed: int = 0) -> InOrder:
        if seed:
            raise ZeroDivisionError("out of ideas")
        return backwards(space, seed=seed)

    messages = []
    for jobs in (1, client):
        with pytest.raises(ComparisonError) as error:
            pb.compare(_few(), [broken], trials=3, seeds=2, jobs=jobs, progress=False)
        messages.append(str(error.value))
    assert messages[0] == messages[1]
    assert re.search(r"seed 1, broken: .*: tuner 'broken' raised ZeroDivisionError .*: out of ideas", messages[0])


def test_other_versions_than_here_are_refused_with_a_list(client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    there = dask_pool.versions()
    monkeypatch.setattr(dask_pool, "versions", lambda: {**there, "numpy": "1.0"})
    monkeypatch.setattr(dask_pool, "_found", lambda client: {"tcp://one:1": there})
    with pytest.raises(MeasureError, match=r"other versions than this process .*numpy 1\.0.*\n  tcp://one:1: Python"):
        compared(jobs=on(client))


def test_a_client_that_is_closed_ends_the_comparison_with_what_is_finished(client: Any) -> None:
    with distributed.Client(client.scheduler.address, set_as_default=False) as other:
        pool = dask_pool.DaskPool(b"", scheduler=other)
        assert pool.jobs == 2
    with pytest.raises(MeasureError, match=r"the scheduler at .* is gone"):
        _ = pool.jobs
    pool.close()


def test_the_cluster_has_to_be_named() -> None:
    with pytest.raises(ArgumentError, match="name the cluster, as in 'dask:scheduler="):
        compared(jobs="dask")


def _few() -> RecordedSpace:
    space = small_space()
    return RecordedSpace("few", space, {config: Ok((by_index(config),)) for config in space.iterate()})


def _plugins(dask_worker: Any) -> list[str]:
    return list(dask_worker.plugins)
