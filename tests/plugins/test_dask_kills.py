"""Faults of clusters, on real processes that are killed, frozen and cut off; slow, and left out unless asked for.

`PEGBOX_KILLS=30 python3 -m pytest tests/plugins/test_dask_kills.py` runs them, with so many kills in each of the tests
that kill; those with networks of their own need Linux, root and iproute2.
"""

from __future__ import annotations

import contextlib
import os
import random
import re
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import pegbox as pb
from pegbox.measure.result import FailureKind
from pegbox.tuners.random import RandomTuner
from tests.helpers.rack import Rack, Wires, children, lines, rack, waited

distributed = pytest.importorskip("distributed")
psutil = pytest.importorskip("psutil")  # distributed needs it

KILLS = int(os.environ.get("PEGBOX_KILLS", "0"))
"""The number of kills of workers and nannies in each of the tests that kill them."""

SHAPE = (64, 64, 64)
RANGE = "0-9000"
"""A seed with which the random tuner proposes the same, however many it is asked for at a time."""

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
        open("address", "w").write(local.scheduler_address)
        with Client(local) as client:
            options = {{"runner_options": {{"scheduler": client}}, "min_repeat_ms": 60.0, "repeats": 5}}
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
        address = waited(lambda: (place := tmp_path / "address").exists() and place.read_text())
        with distributed.Client(address, set_as_default=False) as client:

            def process(dask_worker: Any) -> tuple[int, bool]:
                return os.getpid(), time.time() - psutil.Process().create_time() > 6

            def kill(rng: random.Random) -> None:
                # A nanny does not start a worker again that dies while it starts, or shortly afterwards.
                done = waited(lambda: {pid for pid, old in client.run(process, on_error="ignore").values() if old})
                os.kill(rng.choice(sorted(done)), signal.SIGKILL)

            with killing(records, kill):
                assert search.wait(900) == 0, cluster.said(search)
        check_records(records, trials)
        assert cluster.left() == []


def recorded(records: Path, count: int) -> None:
    waited(lambda: len(lines(records)) >= count, seconds=120)


@contextlib.contextmanager
def asked(cluster: Rack) -> Iterator[Any]:
    """A client of its own for questions."""
    with distributed.Client(cluster.address, set_as_default=False) as client:
        yield client


def benches(client: Any) -> list[str]:
    """The plugins of searches that workers have."""
    found = client.run(lambda dask_worker: [name for name in dask_worker.plugins if name.startswith("pegbox")])
    return [name for names in found.values() for name in names]


def apart(folder: Path, name: str) -> dict[str, str]:
    """The environment of a worker that is to be another machine: workers of one machine wait for each other."""
    (folder / name).mkdir()
    return {"TMPDIR": str(folder / name)}


def test_the_bench_of_a_killed_search_leaves_the_workers(tmp_path: Path) -> None:
    records = tmp_path / "records.jsonl"
    with rack(tmp_path, 2) as cluster, asked(cluster) as client:
        client.wait_for_workers(2)
        idle = len(cluster.processes())
        search = cluster.search(*tuned(records, 1000), *on(cluster))
        recorded(records, 5)
        assert len(benches(client)) >= 2
        search.kill()
        search.wait()
        waited(lambda: not benches(client), seconds=90)
        waited(lambda: len(cluster.processes()) <= idle, seconds=120)  # a process that forks others waits a minute
        assert list((tmp_path / "scratch").rglob("pegbox-bench-*")) == []
        again = tmp_path / "again.jsonl"
        search = cluster.search(*tuned(again, 10), *on(cluster))
        assert search.wait(120) == 0, cluster.said(search)


def test_a_search_whose_scheduler_is_killed_ends_and_goes_on_later(tmp_path: Path) -> None:
    records = tmp_path / "records.jsonl"
    with rack(tmp_path, 2) as cluster:
        search = cluster.search(*tuned(records, 60), *on(cluster))
        recorded(records, 10)
        cluster.scheduler.kill()
        assert search.wait(120) == 2
        assert re.search("is gone.*--resume", cluster.said(search))
        for worker in cluster.workers:
            worker.wait(120)  # they end with it
        kept = len(lines(records))
        assert kept >= 10
        cluster.scheduler = cluster.schedule(int(cluster.address.rpartition(":")[2]))
        cluster.work()
        search = cluster.search(*tuned(records, 60), *on(cluster), "--resume")
        assert search.wait(240) == 0, cluster.said(search)
        check_records(records, 60)


def test_a_worker_that_joins_in_the_middle_is_used(tmp_path: Path) -> None:
    records = tmp_path / "records.jsonl"
    with rack(tmp_path, 1) as cluster, asked(cluster) as client:
        search = cluster.search(*tuned(records, 120), *on(cluster))
        recorded(records, 10)
        cluster.work()
        client.wait_for_workers(2)
        done = lambda dask_worker: dask_worker.state.executed_count  # noqa: E731
        assert min(waited(lambda: (c := client.run(done)) and len(c) == 2 and min(c.values()) >= 3 and c).values()) >= 3
        assert search.wait(240) == 0, cluster.said(search)
        check_records(records, 120)


def test_ctrl_c_keeps_the_records_and_frees_the_workers(tmp_path: Path) -> None:
    records = tmp_path / "records.jsonl"
    with rack(tmp_path, 2) as cluster, asked(cluster) as client:
        search = cluster.search(*tuned(records, 1000), *on(cluster))
        recorded(records, 10)
        search.send_signal(signal.SIGINT)
        assert search.wait(30) in (0, 130), cluster.said(search)
        assert benches(client) == []
        assert len(client.scheduler_info()["workers"]) == 2
        found = [line["config"]["index"] for line in lines(records)]
        assert len(found) >= 10
        resumed = cluster.search(*tuned(records, 40), *on(cluster), "--resume")
        assert resumed.wait(120) == 0, cluster.said(resumed)
        check_records(records, 40)


def test_ctrl_c_does_not_wait_for_a_frozen_worker(tmp_path: Path) -> None:
    records = tmp_path / "records.jsonl"
    with rack(tmp_path, 0) as cluster:
        for name in ("one", "two"):
            cluster.work(environment=apart(tmp_path, name))
        search = cluster.search(*tuned(records, 1000), *on(cluster))
        recorded(records, 10)
        frozen = children(cluster.workers[0].pid)[0]
        os.kill(frozen, signal.SIGSTOP)
        try:
            time.sleep(1)
            search.send_signal(signal.SIGINT)
            assert search.wait(60) in (0, 130), cluster.said(search)
        finally:
            os.kill(frozen, signal.SIGCONT)


@pytest.mark.parametrize("sign", [signal.SIGTERM, signal.SIGINT])
def test_the_trials_of_a_worker_that_is_told_to_end_are_measured_by_another(sign: int, tmp_path: Path) -> None:
    records = tmp_path / "records.jsonl"
    with rack(tmp_path, 2) as cluster:
        search = cluster.search(*tuned(records, 60), *on(cluster))
        recorded(records, 10)
        cluster.workers[0].send_signal(sign)
        cluster.workers[0].wait(60)
        assert search.wait(240) == 0, cluster.said(search)
        check_records(records, 60)
        assert cluster.left() == []


@needs_wires
@pytest.mark.parametrize("seconds", [5, 60, 0], ids=["shortly", "long", "for good"])
def test_the_trials_of_a_worker_without_network_are_measured_by_another(seconds: int, tmp_path: Path) -> None:
    records = tmp_path / "records.jsonl"
    with rack(tmp_path, 0, wires=True) as cluster:
        for name in ("one", "two"):
            cluster.work(environment=apart(tmp_path, name))
        assert cluster.wires is not None
        search = cluster.search(*tuned(records, 200), *on(cluster))
        recorded(records, 10)
        cluster.wires.cut(cluster.places[0])
        if seconds:
            time.sleep(seconds)
            cluster.wires.join(cluster.places[0])
        assert search.wait(400) == 0, cluster.said(search)
        check_records(records, 200)
        if seconds:
            cluster.wires.join(cluster.places[0])


@pytest.mark.parametrize("whole", [False, True], ids=["worker", "worker and nanny"])
def test_the_trials_of_a_frozen_worker_are_measured_by_another(whole: bool, tmp_path: Path) -> None:
    records = tmp_path / "records.jsonl"
    with rack(tmp_path, 0, ttl="15s") as cluster:
        for name in ("one", "two"):
            cluster.work(environment=apart(tmp_path, name))
        search = cluster.search(*tuned(records, 60), *on(cluster))
        recorded(records, 10)
        frozen = [children(cluster.workers[0].pid)[0], *([cluster.workers[0].pid] if whole else [])]
        for pid in frozen:
            os.kill(pid, signal.SIGSTOP)
        try:
            assert search.wait(240) == 0, cluster.said(search)
        finally:
            for pid in frozen:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGCONT)
        check_records(records, 60)


@needs_wires
def test_a_scheduler_behind_a_firewall_that_says_nothing_is_an_error(tmp_path: Path) -> None:
    with rack(tmp_path, 1, wires=True) as cluster:
        assert cluster.wires is not None
        place = cluster.place()
        cluster.wires.swallow(place, cluster.wires.address(0))
        search = cluster.search(*tuned(tmp_path / "records.jsonl", 2), *on(cluster), at=place)
        assert search.wait(60) == 2
        assert "no Dask scheduler answers there" in cluster.said(search)


@pytest.mark.skipif(os.name != "posix" or os.getuid() != 0, reason="needs root, to make small disks")
def test_a_full_disk_of_a_worker_is_an_error_with_the_remedy(tmp_path: Path) -> None:
    small = tmp_path / "small"
    small.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=300k", "none", str(small)], check=True)
    try:
        with rack(tmp_path, 0) as cluster, asked(cluster) as client:
            cluster.work("--nthreads", "1", "--resources", "pegbox=1", "--local-directory", str(small))
            client.wait_for_workers(1)
            with contextlib.suppress(OSError), open(small / "rest", "wb", buffering=0) as rest:
                while rest.write(b"x" * 4096):
                    pass
            search = cluster.search(*tuned(tmp_path / "records.jsonl", 5), *on(cluster))
            assert search.wait(60) == 2, cluster.said(search)
            assert re.search("No space left.*--local-directory.*TMPDIR", cluster.said(search))
    finally:
        subprocess.run(["umount", "-l", str(small)], check=True)
