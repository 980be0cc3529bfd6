"""Faults of clusters, on real processes that are killed, frozen and cut off; slow, and left out unless asked for.

`PEGBOX_KILLS=30 python3 -m pytest tests/plugins/test_dask_kills.py` runs them, with so many kills in each of the tests
that kill; those with networks of their own need Linux, root and iproute2.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import pegbox as pb
from pegbox.measure.result import FailureKind
from pegbox.tuners.random import RandomTuner
from tests.helpers.rack import Rack, Wires, children, lines, rack, waited

pytest.importorskip("distributed")

KILLS = int(os.environ.get("PEGBOX_KILLS", "0"))
"""Of workers and nannies in each of the tests that kill them."""

SHAPE = (64, 64, 64)
RANGE = "0-9000"
"""With it the random tuner proposes the same, however many it is asked for at a time."""

EVERY = 4
"""Trials for each kill."""

pytestmark = pytest.mark.skipif(not KILLS, reason="set PEGBOX_KILLS=30 to run them")

needs_wires = pytest.mark.skipif(not KILLS or not Wires.possible(), reason="needs Linux, root and iproute2")


def tuned(records: Path, trials: int) -> list[str]:
    """The words of a search."""
    shape = [str(extent) for extent in SHAPE]
    tuner = f"random:range_idx={RANGE}"
    return ["tune", "matmul", *shape, "--tuner", tuner, "--trials", str(trials), "--records", str(records)]


def on(cluster: Rack, **options: Any) -> list[str]:
    given = "".join(f",{name}={value}" for name, value in options.items())
    return ["--runner", f"dask:scheduler={cluster.address}{given}"]


def check_records(records: Path, trials: int) -> None:
    """Every trial once, in the order of asking and measured; the finalists follow."""
    found = lines(records)
    tuner = RandomTuner(pb.create_task("matmul", args=SHAPE).space, seed=0, range_idx=RANGE)
    proposed = [config.index for config in tuner.ask(trials)]
    assert [line["config"]["index"] for line in found[:trials]] == proposed
    assert {line["config"]["index"] for line in found[trials:]} <= set(proposed)
    # On a machine that starts and kills so much a first call may take too long; nothing else fails.
    assert {line["result"][1] for line in found} <= {0, int(FailureKind.TIMEOUT)}


class Killer(threading.Thread):
    """Kills at random moments, one after every few trials that are recorded."""

    def __init__(self, records: Path, kill: Callable[[random.Random], None]) -> None:
        super().__init__(daemon=True)
        self.killed = 0
        self._records, self._kill, self._rng = records, kill, random.Random(KILLS)
        self.over = threading.Event()

    def run(self) -> None:
        while self.killed < KILLS and not self.over.wait(self._rng.uniform(0.0, 0.7)):
            if len(lines(self._records)) > EVERY * self.killed:
                self._kill(self._rng)
                self.killed += 1


@contextlib.contextmanager
def killing(records: Path, kill: Callable[[random.Random], None]) -> Iterator[None]:
    killer = Killer(records, kill)
    killer.start()
    try:
        yield
    finally:
        killer.over.set()
        killer.join()
    assert killer.killed == KILLS


@pytest.mark.parametrize("wires", [pytest.param(False, id="ports"), pytest.param(True, id="wires", marks=needs_wires)])
@pytest.mark.parametrize("count", [2, 4])
def test_every_trial_is_there_once_although_workers_and_nannies_are_killed(
    count: int, wires: bool, tmp_path: Path
) -> None:
    records, trials = tmp_path / "records.jsonl", EVERY * KILLS + 20
    with rack(tmp_path, count, wires=wires) as cluster:

        def kill(rng: random.Random) -> None:
            number = rng.randrange(count)
            nanny, workers = cluster.workers[number], children(cluster.workers[number].pid)
            if workers and rng.random() < 0.5:
                os.kill(workers[0], signal.SIGKILL)  # its nanny starts another
                return
            nanny.kill()
            nanny.wait()
            cluster.work(at=cluster.places[number])
            cluster.workers[number] = cluster.workers.pop()
            cluster.places.pop()

        search = cluster.search(*tuned(records, trials), *on(cluster))
        with killing(records, kill):
            assert search.wait(900) == 0, cluster.said(search)
        check_records(records, trials)
        assert cluster.left() == []


LOCAL = """
import pegbox as pb
from distributed import Client, LocalCluster
if __name__ == "__main__":
    options = {{"threads_per_worker": 1, "resources": {{"pegbox": 1}}, "dashboard_address": None}}
    with LocalCluster(n_workers={count}, **options) as local:
        with Client(local) as client:
            options = {{"runner_options": {{"scheduler": client}}}}
            pb.tune(pb.create_task("matmul", args={shape}), tuner="random:range_idx={range}", trials={trials},
                    records={records!r}, runner="dask", progress=False, measure_options=options)
"""


@pytest.mark.parametrize("count", [2, 4])
def test_every_trial_is_there_once_although_workers_of_a_local_cluster_are_killed(count: int, tmp_path: Path) -> None:
    records, trials = tmp_path / "records.jsonl", EVERY * KILLS + 20
    script = LOCAL.format(count=count, range=RANGE, shape=SHAPE, trials=trials, records=str(records))
    (tmp_path / "search.py").write_text(script)
    with rack(tmp_path, 0) as cluster:
        search = cluster.start("search")

        def kill(rng: random.Random) -> None:
            os.kill(rng.choice(waited(lambda: children(search.pid))), signal.SIGKILL)

        with killing(records, kill):
            assert search.wait(900) == 0, cluster.said(search)
        check_records(records, trials)
        assert cluster.left() == []
