"""What every runner must do, whoever wrote it.

A plugin's test suite subclasses `RunnerContract` and gives it a factory::

    class TestMyRunner(RunnerContract):
        factory = staticmethod(MyRunner)
"""

from __future__ import annotations

import math
import os
import pickle
import select
import struct
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import llvm_kernels as kernels
import pytest

from pegbox.measure import CorePlan, Failed, FailureKind, Ok, Runner, TimingPolicy

SHORT = 3.0


class _Call:
    """Runs a shell command where its pickle is loaded."""

    def __init__(self, command: str) -> None:
        self.command = command

    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, (self.command,)


def _every_descriptor(statement: str) -> str:
    """C code that does something with each `fd` that is open, but the three that everybody knows.

    It asks the system for them: to try out all numbers takes seconds where system calls are slow.
    """
    return (
        'int known[1024], count = 0; DIR *open_files = opendir("/proc/self/fd");'
        "for (struct dirent *entry; (entry = readdir(open_files)) && count < 1024;) "
        "if (atoi(entry->d_name) > 2) known[count++] = atoi(entry->d_name);"
        "closedir(open_files);"
        f"for (int place = 0; place < count; ++place) {{ int fd = known[place]; {statement} }}"
    )


def _writes(content: bytes) -> str:
    listed = ",".join(map(str, content))
    return f"static const unsigned char said[] = {{{listed}}}; if (write(fd, said, sizeof said) < 0) continue;"


def _hung_up(reader: int) -> bool:
    """Whether the last writer of a pipe goes away, waiting a while for it."""
    poller = select.poll()
    poller.register(reader, select.POLLHUP)
    return bool(poller.poll(5000))


class RunnerContract:
    """Subclasses set `factory`; a test may change `timing` through the fixture `make`."""

    factory: Any
    _shared: ClassVar[Runner | None] = None

    def opened(self, **timing: Any) -> Runner:
        policy = TimingPolicy(**{"timeout": SHORT, "min_repeat_ms": 1.0, **timing})
        runner: Runner = self.factory(kernels.bench(), timing=policy, cores=CorePlan.detect(), max_memory=4 << 30)
        return runner

    @pytest.fixture
    def make(self) -> Iterator[Any]:
        runners: list[Runner] = []

        def make(**timing: Any) -> Runner:
            runners.append(self.opened(**timing))
            return runners[-1]

        yield make
        for runner in runners:
            runner.close()

    @pytest.fixture
    def runner(self) -> Runner:
        """One for many tests: whatever candidates do to it must not hurt those of the next test."""
        cls = type(self)
        if cls._shared is None:
            cls._shared = self.opened()
        return cls._shared

    @classmethod
    def teardown_class(cls) -> None:
        if cls._shared is not None:
            cls._shared.close()
        cls._shared = None

    def check_recovered(self, runner: Runner) -> None:
        assert isinstance(runner.run(kernels.compiled(kernels.good())), Ok)

    def test_it_is_a_runner(self, runner: Runner) -> None:
        assert isinstance(runner, Runner)

    def test_a_good_candidate_has_a_cost_for_each_repeat(self, make: Any) -> None:
        result = make(repeats=4, max_repeats=4).run(kernels.compiled(kernels.good()))
        assert isinstance(result, Ok), result
        assert len(result.costs) == 4
        assert all(0 < cost < 1e-3 for cost in result.costs)
        assert not result.partial

    def test_a_slower_candidate_costs_more(self, runner: Runner) -> None:
        fast, slow = (runner.run(kernels.compiled(kernels.slow(turns))) for turns in (100_000, 2_000_000))
        assert fast.cost * 3 < slow.cost < math.inf

    @pytest.mark.parametrize(
        ("candidate", "words"),
        [(kernels.wrong, "[77]"), (kernels.unfinished, "never written"), (kernels.spoils_input, "its input 'A'")],
    )
    def test_a_wrong_answer_is_never_a_fast_trial(self, runner: Runner, candidate: Any, words: str) -> None:
        result = runner.run(kernels.compiled(candidate()))
        assert isinstance(result, Failed)
        assert result.kind is FailureKind.WRONG_RESULT
        assert words in result.message
        self.check_recovered(runner)

    def test_an_answer_of_the_previous_candidate_does_not_help_the_next(self, runner: Runner) -> None:
        self.check_recovered(runner)
        result = runner.run(kernels.compiled(kernels.unfinished()))
        assert isinstance(result, Failed)
        assert result.kind is FailureKind.WRONG_RESULT

    def test_an_endless_loop_times_out(self, make: Any) -> None:
        runner = make(timeout=1.0)
        began = time.monotonic()
        result = runner.run(kernels.compiled(kernels.endless()))
        assert isinstance(result, Failed)
        assert result.kind is FailureKind.TIMEOUT
        assert time.monotonic() - began < 30
        self.check_recovered(runner)

    @pytest.mark.parametrize(("candidate", "words"), [(kernels.segfault, "SIGSEGV"), (kernels.aborts, "SIGABRT")])
    def test_a_fatal_signal_is_a_crash_that_names_it(self, runner: Runner, candidate: Any, words: str) -> None:
        for _ in range(2):
            result = runner.run(kernels.compiled(candidate()))
            assert isinstance(result, Failed)
            assert result.kind is FailureKind.CRASH
            assert words in result.message
            self.check_recovered(runner)

    def test_too_much_memory_is_a_failure(self, runner: Runner) -> None:
        result = runner.run(kernels.compiled(kernels.greedy()))
        assert isinstance(result, Failed)
        assert result.kind in (FailureKind.RUN_ERROR, FailureKind.CRASH)
        self.check_recovered(runner)

    def test_a_candidate_may_print(self, runner: Runner) -> None:
        assert isinstance(runner.run(kernels.compiled(kernels.prints())), Ok)

    def test_a_candidate_far_behind_the_best_is_dropped(self, runner: Runner) -> None:
        result = runner.run(kernels.compiled(kernels.slow(3_000_000)), best=1e-6)
        assert isinstance(result, Ok), result
        assert result.partial
        assert len(result.costs) == 1

    def test_a_hopeless_candidate_is_cut_off(self, make: Any) -> None:
        result = make(timeout=60.0, least_limit=0.05).run(kernels.compiled(kernels.endless()), best=1e-6)
        assert isinstance(result, Failed)
        assert result.kind is FailureKind.TIMEOUT

    def test_several_candidates_are_timed_in_turns(self, make: Any) -> None:
        programs = [kernels.compiled(kernels.slow(turns)) for turns in (500_000, 1000, 1000)]
        results = make(rounds=4).rerun(programs)
        assert [len(result.costs) for result in results] == [4, 4, 4]
        assert results[0].cost > results[1].cost

    def test_one_bad_candidate_does_not_spoil_the_others_turns(self, runner: Runner) -> None:
        programs = [kernels.compiled(make()) for make in (kernels.good, kernels.segfault, kernels.good)]
        results = runner.rerun(programs)
        assert [result.ok for result in results] == [True, False, True]

    @pytest.mark.parametrize("form", ["noise", "JSON", "a pickle"])
    def test_what_a_candidate_writes_to_descriptors_fails_it_alone_and_runs_nowhere(
        self, runner: Runner, form: str, tmp_path: Path
    ) -> None:
        mark = tmp_path / "ran"
        pickled = pickle.dumps((1, "done", _Call(f"echo ran > {mark}")))
        said = {
            "noise": b"\x08" * 64,
            "JSON": b'{"costs": [1e-9], "phases": {}, "partial": false}\n',
            "a pickle": struct.pack("<Q", len(pickled)) + pickled,
        }[form]
        self.check_recovered(runner)
        result = runner.run(kernels.compiled(kernels.running(_every_descriptor(_writes(said)))))
        assert isinstance(result, Failed)
        assert result.kind in (FailureKind.CRASH, FailureKind.RUN_ERROR)
        assert not mark.exists()
        self.check_recovered(runner)

    def test_descriptors_that_a_candidate_closed_fail_it_alone(self, runner: Runner) -> None:
        result = runner.run(kernels.compiled(kernels.running(_every_descriptor("close(fd);"))))
        assert isinstance(result, Failed)
        assert result.kind in (FailureKind.CRASH, FailureKind.RUN_ERROR)
        self.check_recovered(runner)

    def test_a_candidate_that_takes_all_descriptors_does_not_fail_later_ones(self, runner: Runner) -> None:
        runner.run(kernels.compiled(kernels.running('while (open("/dev/null", 0) >= 0);')))
        for number in range(3):
            assert isinstance(runner.run(kernels.compiled(kernels.running(f"(void){number};"))), Ok)

    @pytest.mark.parametrize("start", ["", "setpgid(0, 0);", "setsid();"])
    @pytest.mark.parametrize("end", ["abort();", "_exit(0);", ""])
    def test_processes_that_a_candidate_started_end_with_the_runner(
        self, make: Any, tmp_path: Path, start: str, end: str
    ) -> None:
        fifo = tmp_path / "alive"
        os.mkfifo(fifo)
        reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
        try:
            sleeps = 'if (!fork()) execlp("sleep", "sleep", "600", NULL);'
            body = f'if (open("{fifo}", O_WRONLY) < 0) _exit(1); {start} {sleeps} _exit(0);'
            runner = make()
            runner.run(kernels.compiled(kernels.running(f"if (!fork()) {{ {body} }} wait(0); {end}")))
            runner.close()
            assert _hung_up(reader), "a process that the candidate started still runs"
        finally:
            os.close(reader)

    def test_a_crash_is_known_at_once_although_a_child_lives_on(self, make: Any) -> None:
        runner = make(timeout=120.0)
        began = time.monotonic()
        result = runner.run(kernels.compiled(kernels.running("if (!fork()) { sleep(600); _exit(0); } abort();")))
        assert isinstance(result, Failed)
        assert result.kind is FailureKind.CRASH
        assert time.monotonic() - began < 60

    def test_a_run_can_be_given_up_from_another_thread(self, make: Any) -> None:
        runner = make(timeout=120.0)
        self.check_recovered(runner)
        threading.Timer(0.5, runner.interrupt).start()
        began = time.monotonic()
        # Work for as long as the timeout allows: only the interruption ends it early.
        result = runner.run(kernels.compiled(kernels.endless()), best=100.0)
        assert isinstance(result, Failed)
        assert time.monotonic() - began < 60
        self.check_recovered(runner)

    def test_closing_twice_is_harmless(self, make: Any) -> None:
        runner = make()
        runner.close()
        runner.close()
