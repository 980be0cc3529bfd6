"""The costs of a trial and of a build on a cluster of one worker on this machine, beside the runner "local".

Run: python benchmarks/cluster.py [--trials 200] [--rounds 3]

Both runners are given the same compiled candidate again and again, in turns; the table gives the milliseconds of a
trial (median of the rounds) and their ratio. In a search two candidates are on their way to each machine, of which one
waits there; "alone" is one at a time.

The second table has the milliseconds that a configuration takes to be lowered in this process, and to be compiled in
one of its builders and on the worker, one at a time: the mean of some random configurations.

The last line is what a task costs that does nothing: processor time of the client and of the scheduler, each in a
process of its own.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

import pegbox as pb
from pegbox.codegen import CompiledProgram, Program, compile_program
from pegbox.measure import Bench, CorePlan, TimingPolicy, Tolerance
from pegbox.measure.pipeline.builder import Builder
from pegbox.measure.trial.bench import make_inputs
from pegbox.plugins.runners.dask import DaskRunner
from pegbox.plugins.runners.local import LocalRunner

RUNNERS: dict[str, Callable[..., Any]] = {"local": LocalRunner, "dask": DaskRunner}
CASES = {"local": ("local", 1), "dask": ("dask", 2), "dask, alone": ("dask", 1)}


def problem(size: int) -> tuple[Bench, CompiledProgram]:
    """The bench of a matmul, and a candidate for it."""
    task = pb.create_task("matmul", args=(size, size, size))
    inputs = make_inputs(task.arguments(), seed=0)
    expected = tuple(task.reference(inputs))
    tolerance = Tolerance.of(expected, flop=task.flop)
    bench = Bench(tuple(task.arguments()), tuple(inputs), expected, tolerance, task.flop)
    return bench, compile_program(task.lower(task.space.get(0)))


def milliseconds(runner: Any, program: CompiledProgram, trials: int, *, flying: int) -> float:
    """Measure the time from one result to the next, with a given number of candidates on their way."""
    ends: list[float] = []

    def run(_: int) -> None:
        assert runner.run(program).ok
        ends.append(time.perf_counter())

    with ThreadPoolExecutor(flying) as threads:
        list(threads.map(run, range(trials)))
    return (ends[-1] - ends[0]) / (trials - 1) * 1e3


def configurations(size: int, count: int) -> tuple[list[Program], float]:
    """Programs of random configurations of a matmul, and the milliseconds that lowering one takes."""
    task = pb.create_task("matmul", args=(size, size, size))
    configs = [task.space.config(tuple(row)) for row in task.space.sample(count, np.random.default_rng(0)).tolist()]
    began = time.perf_counter()
    programs = [task.lower(config) for config in configs]
    spent = (time.perf_counter() - began) / count * 1e3
    return [program for program in programs if program.longest_block <= 2000], spent


def print_builds(runner: DaskRunner, size: int, rounds: int) -> None:
    """Compile the same programs here and there, in turns."""
    programs, lowering = configurations(size, 24)
    builder = Builder(workers=1, timeout=60.0)
    builds: dict[str, Callable[[Program], Any]] = {
        "here": builder.build,
        "on the worker": lambda program: runner.build(program, timeout=60.0),
    }
    found: dict[str, list[float]] = {where: [] for where in builds}
    try:
        for build in builds.values():
            build(programs[0])
        for _ in range(rounds):
            for where, build in builds.items():
                began = time.perf_counter()
                for program in programs:
                    assert isinstance(build(program), CompiledProgram)
                found[where].append((time.perf_counter() - began) / len(programs) * 1e3)
    finally:
        builder.close()
    here = statistics.median(found["here"])
    print(
        f"\nlowering {lowering:6.2f} ms, {sum(len(p.ll) for p in programs) / len(programs) / 1e3:.0f} kB of LLVM text"
    )
    for where, taken in found.items():
        cost = statistics.median(taken)
        print(f"compiled {where:<14} {cost:6.2f} ms, {cost / here:.2f}x, {cost - here:5.2f} ms more")


@contextlib.contextmanager
def cluster(workers: int) -> Iterator[tuple[str, int]]:
    """Start a scheduler and workers that measure, each as if on a machine of its own; yields the address, and the
    scheduler's process.

    Workers take turns by a lock in their temporary folder: with folders of their own they don't.
    """
    from distributed import Client

    start = [sys.executable, "-m", "dask"]
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())

        def started(*words: str, **options: Any) -> subprocess.Popen[str]:
            process = stack.enter_context(subprocess.Popen([*start, *words, "--no-dashboard"], text=True, **options))
            stack.callback(process.terminate)
            return process

        scheduler = started("scheduler", "--host", "127.0.0.1", "--port", "0", stderr=subprocess.PIPE)
        assert scheduler.stderr is not None
        line = next(line for line in scheduler.stderr if "Scheduler at:" in line)
        address = line.split("Scheduler at:")[1].strip()
        for number in range(workers):
            os.mkdir(own := os.path.join(folder, str(number)))
            environment = {**os.environ, "TMPDIR": own}
            options = ["--nthreads", "1", "--resources", "pegbox=1", "--no-nanny", "--local-directory", own]
            started("worker", address, *options, stderr=subprocess.DEVNULL, env=environment)
        with Client(address) as client:
            client.wait_for_workers(workers, timeout=60)
        yield address, scheduler.pid


def tasks(count: int, *, flying: int = 4) -> tuple[float, float]:
    """Milliseconds of processor time of the client and of the scheduler for a task with the resource of a worker."""
    import psutil  # which Dask needs, too
    from distributed import Client

    with cluster(1) as (address, pid), Client(address) as client:
        return _costs(client, psutil.Process(pid), count, flying)


def _costs(client: Any, scheduler: Any, count: int, flying: int) -> tuple[float, float]:
    def run(number: int) -> None:
        client.submit(abs, number, pure=False, resources={"pegbox": 1}).result()

    with ThreadPoolExecutor(flying) as threads:
        list(threads.map(run, range(50)))
        before = time.process_time(), sum(scheduler.cpu_times()[:2])
        list(threads.map(run, range(count)))
        after = time.process_time(), sum(scheduler.cpu_times()[:2])
    client_ms, scheduler_ms = ((late - early) / count * 1e3 for early, late in zip(before, after, strict=True))
    return client_ms, scheduler_ms


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--size", type=int, default=256)
    given = parser.parse_args()
    bench, program = problem(given.size)
    timing = TimingPolicy(repeats=3, min_repeat_ms=1.0)
    opened: dict[str, Any] = {
        n: make(bench, timing=timing, cores=CorePlan.detect(), max_memory=None) for n, make in RUNNERS.items()
    }
    try:
        found: dict[str, list[float]] = {case: [] for case in CASES}
        for runner in opened.values():
            milliseconds(runner, program, 10, flying=1)
        for _ in range(given.rounds):
            for case, (name, flying) in CASES.items():
                trials = max(2, given.trials // given.rounds)
                found[case].append(milliseconds(opened[name], program, trials, flying=flying))
        print_trials(found, program, given.trials)
        print_builds(opened["dask"], given.size, given.rounds)
    finally:
        for runner in opened.values():
            runner.close()
    client, scheduler = tasks(given.trials)
    print(f"\nan empty task: {client:.2f} ms of the client, {scheduler:.2f} ms of the scheduler")


def print_trials(found: dict[str, list[float]], program: CompiledProgram, trials: int) -> None:
    """The milliseconds of a trial."""
    print(f"object code of {len(program.object_code):,} bytes, {trials} trials each")
    local = statistics.median(found["local"])
    for case, taken in found.items():
        cost = statistics.median(taken)
        print(f"{case:<12} {cost:6.2f} ms a trial, {cost / local:.2f}x, {cost - local:5.2f} ms more")


if __name__ == "__main__":
    main()
