"""Searches on a simulated cluster: trials a second, and seconds to 95% of the best, with 1 to 256 machines.

    python3 benchmarks/simulated_cluster.py                              # one recorded space, some minutes
    python3 benchmarks/simulated_cluster.py matmul-512x512x512 --tuners xgb --machines 1,64 --work all

Nothing is compiled or run. The search is pegbox's own: its loop, its tuners, and the pipeline of a batch, which decides
what is on its way and gives results in the order of asking. Only the executors of that pipeline are simulated, on a
virtual clock:

- What a candidate took to compile and to run comes from the recorded space. The records don't tell lowering from the
  build. So some candidates are lowered at the start, and the median share of the recorded time is taken for all. The
  rest of the compilation is a build.
- `--work here`: lowering keeps the thread that searches busy, and `--builders` processes of its machine build.
  `--work builds`: where these are busy, each machine of the cluster builds one more, as for a task that cannot leave
  its process. `--work all`: a candidate is lowered where it is built, as for all other tasks. A simulated machine may
  build while it times; real ones do not, but have time for it unless they are "busy".
- The tuner, and all that the loop does for a trial, takes the processor time that it takes here.
- `--slower 10` stands for machines on which trials run ten times as long, or for a task with ten times the work.
- A trial occupies its machine for `--overhead` seconds more than it runs, and comes there `--latency` seconds after it
  was sent. Each task takes `--sending` seconds of the thread that searches, and `--dispatch` of the scheduler; one
  that the cluster builds is two tasks. benchmarks/cluster.py measures all four.

"busy" is the share of the time in which the machines measure. "limit" is what is busiest: the machines, the builders,
the tuner, lowering, sending, the scheduler; "batch" where none is busy four fifths of the time, because the search
waits for the last of a batch.
"""

from __future__ import annotations

import argparse
import heapq
import itertools
import os
import random
import statistics
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, Future
from dataclasses import dataclass, replace
from typing import Any

# One thread, so that the processor time of a tuner is what a search waits for.
if os.environ.get("OMP_NUM_THREADS") != "1":
    one = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, **one})

import pegbox as pb
from pegbox.measure import Measurer
from pegbox.measure.pipeline.batch import Batch, window_of
from pegbox.measure.result import Result
from pegbox.records.recorded_space import RecordedSpace, seconds_of
from pegbox.search import SearchOptions, run
from pegbox.search.models.inputs import tuner_over
from pegbox.space import Config

SPACES = ("matmul-999x999x37",)
TUNERS = ("bayes", "xgb", "ga", "random")
MACHINES = (1, 2, 4, 8, 16, 32, 64, 128, 256)
WORK = {
    "here": "lowered and built by the machine that searches",
    "builds": "lowered by the machine that searches, built by it and by the cluster",
    "all": "lowered and built by both",
}
SENDING = {"here": "lowering", "builds": "lowering", "all": "sending"}
"""The work of the searching thread for a trial."""
GOAL = 0.95
BUSY = 0.8


class VirtualTime:
    """A clock of processor time and of simulated seconds; what happens in the simulation, in order of time."""

    def __init__(self) -> None:
        self.now = 0.0
        self._since: float | None = time.process_time()
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._count = itertools.count()

    def __call__(self) -> float:
        return self.now if self._since is None else self.now + time.process_time() - self._since

    def stop(self) -> None:
        """Stop the clock of the thread: what follows is the simulation's own work. Events that are due happen."""
        until, self._since = self(), None
        self._happen(until)

    def resume(self) -> None:
        self._since = time.process_time()

    def at(self, when: float, action: Callable[[], None]) -> None:
        heapq.heappush(self._events, (when, next(self._count), action))

    def spend(self, seconds: float) -> None:
        """The caller is busy; the others go on."""
        self._happen(self.now + seconds)

    def until(self, done: Callable[[], bool]) -> None:
        """Go on from one event to the next."""
        while not done():
            self._next()

    def _happen(self, until: float) -> None:
        while self._events and self._events[0][0] <= until:
            self._next()
        self.now = until

    def _next(self) -> None:
        self.now, _, action = heapq.heappop(self._events)
        action()


class Moved(threading.Event):
    """Waiting for it lets virtual time pass."""

    def __init__(self, clock: VirtualTime) -> None:
        super().__init__()
        self._clock = clock

    def wait(self, timeout: float | None = None) -> bool:
        self._clock.until(self.is_set)
        return True


class Servers(Executor):
    """A number of servers that work at the same time, with one queue before them; a step is called at its end."""

    def __init__(
        self, clock: VirtualTime, count: int, seconds: Callable[[Any], float], *, latency: float = 0.0
    ) -> None:
        self._clock, self._free, self._seconds, self._latency = clock, count, seconds, latency
        self._queue: deque[tuple[Callable[..., None], tuple[Any, ...]]] = deque()
        self.busy = 0.0
        """Seconds of work, of all together."""

    @property
    def free(self) -> int:
        """Count the idle servers."""
        return self._free

    def submit(self, step: Callable[..., None], /, *args: Any, **_: Any) -> Future[Any]:  # type: ignore[override]
        self._clock.at(self._clock.now + self._latency, lambda: self._arrive(step, args))
        return Future()

    def _arrive(self, step: Callable[..., None], args: tuple[Any, ...]) -> None:
        self._queue.append((step, args))
        self._begin()

    def _begin(self) -> None:
        while self._free and self._queue:
            step, args = self._queue.popleft()
            seconds = self._seconds(args[0])
            self._free -= 1
            self.busy += seconds
            self._clock.at(self._clock.now + seconds, lambda step=step, args=args: self._end(step, args))

    def _end(self, step: Callable[..., None], args: tuple[Any, ...]) -> None:
        self._free += 1
        self._begin()
        step(*args)


class Either(Executor):
    """The first where it has somebody free, else the second."""

    def __init__(self, first: Servers, second: Executor) -> None:
        self._first, self._second = first, second

    def submit(self, step: Callable[..., None], /, *args: Any, **_: Any) -> Future[Any]:  # type: ignore[override]
        return (self._first if self._first.free else self._second).submit(step, *args)


class Chain(Executor):
    """A step that another executor has to pass on first."""

    def __init__(self, first: Executor, second: Executor) -> None:
        self._first, self._second = first, second

    def submit(self, step: Callable[..., None], /, *args: Any, **_: Any) -> Future[Any]:  # type: ignore[override]
        return self._first.submit(lambda *args: self._second.submit(step, *args), *args)


@dataclass(frozen=True)
class Site:
    """A cluster, and the machine that searches; seconds as in the text above."""

    machines: int
    builders: int
    work: str
    lowering: float
    """The share of lowering in the recorded compilation."""
    overhead: float
    latency: float
    sending: float
    dispatch: float
    slower: float

    @property
    def on_cluster(self) -> bool:
        """Tell whether the cluster builds."""
        return self.work != "here"

    @property
    def slots(self) -> int:
        """Count the builds that go on at the same time."""
        return self.builders + (self.machines if self.on_cluster else 0)


@dataclass(frozen=True)
class Trial:
    """A trial as the pipeline sees it: its steps take no time of their own."""

    result: Result
    building: float
    running: float

    def build(self) -> Any:
        return self

    def run(self, compiled: Any) -> Result:
        return self.result

    def finish(self, failed: Any) -> Result:
        return failed


class SimulatedCluster(Measurer):
    """A measurer whose machines, builders and scheduler are simulated; `search.run` takes its clock."""

    compiles = True

    def __init__(self, recorded: RecordedSpace, site: Site) -> None:
        self.recorded, self.site, self.machines = recorded, site, site.machines
        self.clock = VirtualTime()
        clock = self.clock
        self.lowering = 0.0
        self.scheduler = Servers(clock, 1, lambda trial: site.dispatch)
        self.builders = Servers(clock, site.builders, lambda trial: trial.building)
        self.away = Servers(clock, site.machines, lambda trial: trial.building, latency=site.latency)
        self.runners = Servers(clock, self.machines, lambda trial: trial.running, latency=site.latency)

    def measure(self, configs: Sequence[Config]) -> Iterator[tuple[Config, Result]]:
        builders: Executor = self.builders
        if self.site.on_cluster:
            builders = Either(self.builders, Chain(self.scheduler, self.away))
        runners = Chain(self.scheduler, self.runners)
        self.clock.stop()
        batch = Batch(builders=builders, runners=runners, silent=lambda program: False)
        batch.moved = Moved(self.clock)
        window = window_of(self.site.slots, self.machines)
        for config, result in batch.in_order(configs, lambda config: self._start(config, batch), window=lambda: window):
            self.clock.resume()
            yield config, result
            self.clock.stop()
        self.clock.resume()

    def remeasure(self, configs: Sequence[Config]) -> list[Result]:
        return [self.recorded.results[config] for config in configs]

    def _start(self, config: Config, batch: Batch) -> Future[Result]:
        result = self.recorded.results[config]
        compiling, running = seconds_of(result)
        site = self.site
        lowering = 0.0 if site.work == "all" else compiling * site.lowering
        busy = lowering + site.sending * (2 if site.on_cluster and not self.builders.free else 1)
        self.lowering += busy
        self.clock.spend(busy)
        trial: Any = Trial(result, compiling - lowering, running * site.slower + site.overhead)
        return batch.submit(trial)


@dataclass(frozen=True)
class Outcome:
    """The figures of one search: rates in trials a second, times in seconds."""

    rate: float
    to_goal: float
    shares: dict[str, float]

    @property
    def limit(self) -> str:
        name = max(self.shares, key=lambda name: self.shares[name])
        return name if self.shares[name] >= BUSY else "batch"


def search(recorded: RecordedSpace, site: Site, tuner: str, seed: int, trials: int) -> Outcome:
    """One search; the space's features are there already, as in the second search of a process."""
    made = tuner_over(tuner, recorded, seed=seed)
    measurer = SimulatedCluster(recorded, site)
    result = run(
        made, measurer, SearchOptions(trials=trials, finalists=0), space=recorded.full_space, searched=recorded.space
    )
    goal = recorded.best_cost / GOAL
    took = result.trials[-1].elapsed
    thinking = result.phases.get("propose", 0.0) + result.phases.get("learn", 0.0)
    return Outcome(
        rate=len(result.trials) / took,
        to_goal=next((trial.elapsed for trial in result.trials if trial.cost <= goal), float("inf")),
        shares={
            "machines": measurer.runners.busy / took / site.machines,
            "builders": (measurer.builders.busy + measurer.away.busy) / took / site.slots,
            SENDING[site.work]: measurer.lowering / took,
            "tuner": thinking / took,
            "scheduler": measurer.scheduler.busy / took,
        },
    )


def lowering_share(recorded: RecordedSpace, count: int = 24) -> float:
    """The median share of lowering in the recorded compilation."""
    task = recorded.task
    assert task is not None
    configs = random.Random(0).sample(list(recorded.results), count + 1)
    shares = []
    for config in configs:
        began = time.process_time()
        task.lower(task.space.config(config.digits))
        shares.append((time.process_time() - began) / seconds_of(recorded.results[config])[0])
    return statistics.median(shares[1:])


def typical(outcomes: Sequence[Outcome]) -> Outcome:
    """The median of each figure."""
    return Outcome(
        statistics.median(each.rate for each in outcomes),
        statistics.median(each.to_goal for each in outcomes),
        {name: statistics.median(each.shares[name] for each in outcomes) for name in outcomes[0].shares},
    )


def rows(recorded: RecordedSpace, site: Site, options: argparse.Namespace) -> Iterator[str]:
    """The lines of a table in Markdown, one for each number of machines."""
    tuners = options.tuners.split(",")
    yield f"| machines | {' | '.join(f'{tuner}: trials/s | s to 95% | busy | limit' for tuner in tuners)} |"
    yield f"| --- |{' --- |' * 4 * len(tuners)}"
    for machines in map(int, options.machines.split(",")):
        cells = [str(machines)]
        for tuner in tuners:
            here = replace(site, machines=machines)
            found = typical([search(recorded, here, tuner, seed, options.trials) for seed in range(options.seeds)])
            goal = f"{found.to_goal:.2g}" if found.to_goal < float("inf") else "-"
            cells += [f"{found.rate:.3g}", goal, f"{found.shares['machines']:.0%}", found.limit]
        yield f"| {' | '.join(cells)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("spaces", nargs="*", default=SPACES, help="names or files of recorded spaces")
    parser.add_argument("--tuners", default=",".join(TUNERS))
    parser.add_argument("--machines", default=",".join(map(str, MACHINES)))
    parser.add_argument("--work", default=",".join(WORK))
    parser.add_argument("--builders", type=int, default=8, help="processes that build on the machine that searches")
    parser.add_argument("--trials", type=int, default=512)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--overhead", type=float, default=0.003, help="seconds a trial, on the machine")
    parser.add_argument("--latency", type=float, default=0.012, help="seconds until a task is on a machine")
    parser.add_argument("--sending", type=float, default=0.001, help="seconds of the thread that searches a task")
    parser.add_argument("--dispatch", type=float, default=0.001, help="seconds of the scheduler a task")
    parser.add_argument("--slower", type=float, default=1.0, help="how many times as long trials run as recorded")
    options = parser.parse_args()
    for name in options.spaces:
        recorded = pb.recorded_space(name)
        share = lowering_share(recorded)
        print(f"{recorded}; lowering is {share:.0%} of the compilation; medians of {options.seeds} seeds\n")
        for work in options.work.split(","):
            print(f"{WORK[work]}:\n", flush=True)
            site = Site(
                machines=1,
                builders=options.builders,
                work=work,
                lowering=share,
                overhead=options.overhead,
                latency=options.latency,
                sending=options.sending,
                dispatch=options.dispatch,
                slower=options.slower,
            )
            for row in rows(recorded, site, options):
                print(row, flush=True)
            print()


if __name__ == "__main__":
    main()
