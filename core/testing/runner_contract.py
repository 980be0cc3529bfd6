"""`RunnerContract`: a test suite for runners.

::

    from pegbox.testing import RunnerContract

    class TestMyRunner(RunnerContract):
        def make(self, bench, *, timing, cores, max_memory):
            return MyRunner(bench, timing=timing, cores=cores, max_memory=max_memory)

pytest then runs every check of the suite on the runner: good candidates, wrong ones and deadly ones.
"""

from __future__ import annotations

import math
import os
import pickle
import select
import struct
import threading
import time
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

from pegbox.codegen import CompiledProgram, Program, Target
from pegbox.measure import Bench, CorePlan, Failed, FailureKind, Ok, Runner, TimingPolicy
from pegbox.testing import llvm_kernels as kernels

SHORT = 3.0
AGREEMENT, AGREEMENT_TRIES = 1.5, 20
"""The ratio below which the least costs of `run` and `rerun` agree, and the tries of each on a busy machine."""

RUN_FAILURES = frozenset({FailureKind.CRASH, FailureKind.RUN_ERROR})


class _Call:
    """An object that runs a shell command when its pickle is loaded."""

    def __init__(self, command: str) -> None:
        self.command = command

    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, (self.command,)


def _every_descriptor(statement: str) -> str:
    """Write C code that runs a statement for each open `fd` except the three standard ones.

    It asks the system for them, because trying all numbers takes seconds if system calls are slow.
    """
    return (
        'int known[1024], count = 0; DIR *open_files = opendir("/proc/self/fd");'
        "for (struct dirent *entry; (entry = readdir(open_files)) && count < 1024;) "
        "if (atoi(entry->d_name) > 2) known[count++] = atoi(entry->d_name);"
        "closedir(open_files);"
        f"for (int place = 0; place < count; ++place) {{ int fd = known[place]; {statement} }}"
    )


def _writing(content: bytes) -> Program:
    """Make a correct program that writes these bytes to every descriptor."""
    listed = ",".join(map(str, content))
    write = f"static const unsigned char said[] = {{{listed}}}; if (write(fd, said, sizeof said) < 0) continue;"
    return kernels.running(_every_descriptor(write))


def _hung_up(reader: int) -> bool:
    """Decide if the last writer of a pipe disappears within a while."""
    poller = select.poll()
    poller.register(reader, select.POLLHUP)
    return bool(poller.poll(5000))


class RunnerContract:
    """A test suite for runners. Subclass it, override `make`, and pytest runs it."""

    target: ClassVar[Target | None] = None
    """The target of the candidates; None for this machine."""

    _shared: ClassVar[Runner | None] = None

    def make(self, bench: Bench, *, timing: TimingPolicy, cores: CorePlan, max_memory: int) -> Runner:
        """Make the runner to test."""
        raise NotImplementedError("override make() to return your runner")

    def opened(self, **timing: Any) -> Runner:
        """Open a runner, and close it after the test; `timing` are fields of its `TimingPolicy`."""
        policy = TimingPolicy(**{"timeout": SHORT, "min_repeat_ms": 1.0, **timing})
        runner = self.make(kernels.bench(), timing=policy, cores=CorePlan.detect(), max_memory=4 << 30)
        self._opened.append(runner)
        return runner

    def shared(self) -> Runner:
        """Open a runner for many tests: damage by candidates must not affect those of the next test."""
        cls = type(self)
        if cls._shared is None:
            cls._shared = self.opened()
            self._opened.remove(cls._shared)
        return cls._shared

    def compiled(self, program: Program) -> CompiledProgram:
        """Compile the candidate for the runner."""
        return kernels.compiled(program if self.target is None else replace(program, target=self.target))

    def setup_method(self) -> None:
        self._opened: list[Runner] = []

    def teardown_method(self) -> None:
        for runner in self._opened:
            runner.close()

    @classmethod
    def teardown_class(cls) -> None:
        if cls._shared is not None:
            cls._shared.close()
        cls._shared = None

    def check_failed(self, program: Program, kinds: Collection[FailureKind], words: str = "") -> None:
        """Check that the candidate fails in one of these ways, and that the next one runs."""
        runner = self.shared()
        result = runner.run(self.compiled(program))
        assert isinstance(result, Failed), result
        assert result.kind in kinds, result
        assert words in result.message
        self.check_recovered(runner)

    def check_recovered(self, runner: Runner) -> None:
        result = runner.run(self.compiled(kernels.good()))
        assert isinstance(result, Ok), result

    def test_it_is_a_runner(self) -> None:
        assert isinstance(self.shared(), Runner), "a runner has run, rerun, interrupt and close"

    def test_a_good_candidate_has_a_cost_for_each_repeat(self) -> None:
        result = self.opened(repeats=4, max_repeats=4).run(self.compiled(kernels.good()))
        assert isinstance(result, Ok), result
        assert len(result.costs) == 4, f"timing.repeats is 4, and result.costs are {result.costs}: one for each repeat"
        assert all(0 < cost < 1e-3 for cost in result.costs), (
            f"result.costs are {result.costs}: seconds of one call, of a kernel that takes microseconds"
        )
        assert not result.partial, f"{result} is partial: only a candidate that is far behind `best` is dropped"

    def test_a_slower_candidate_costs_more(self) -> None:
        fast, slow = (self.shared().run(self.compiled(kernels.slow(turns))) for turns in (100_000, 2_000_000))
        assert fast.cost * 3 < slow.cost < math.inf

    def test_a_wrong_element_is_a_wrong_result(self) -> None:
        self.check_failed(kernels.wrong(), {FailureKind.WRONG_RESULT}, "[77]")

    def test_an_element_that_is_not_written_is_a_wrong_result(self) -> None:
        self.check_failed(kernels.unfinished(), {FailureKind.WRONG_RESULT}, "never written")

    def test_a_spoilt_input_is_a_wrong_result(self) -> None:
        self.check_failed(kernels.spoils_input(), {FailureKind.WRONG_RESULT}, "its input 'A'")

    def test_a_write_outside_of_an_argument_is_a_wrong_result(self) -> None:
        behind, before = kernels.SIZE, -1
        self.check_failed(kernels.writes_outside("%c", behind), {FailureKind.WRONG_RESULT}, "outside of its output 'C'")
        self.check_failed(kernels.writes_outside("%c", before), {FailureKind.WRONG_RESULT}, "4 bytes before it")
        self.check_failed(kernels.writes_outside("%a", behind), {FailureKind.WRONG_RESULT}, "outside of its input 'A'")

    def test_a_candidate_that_is_right_once_and_wrong_later_is_a_wrong_result(self) -> None:
        self.check_failed(kernels.right_at_first(), {FailureKind.WRONG_RESULT}, "not in later ones")

    def test_one_of_the_best_is_checked_on_other_inputs(self) -> None:
        runner = self.shared()
        programs = [self.compiled(make()) for make in (kernels.good, kernels.right_on_known_inputs, kernels.good)]
        assert all(runner.run(program).ok for program in programs)
        results = runner.rerun(programs)
        assert [result.ok for result in results] == [True, False, True], results
        assert isinstance(results[1], Failed)
        assert results[1].kind is FailureKind.WRONG_RESULT
        assert "not on others" in results[1].message
        assert [result.ok for result in runner.rerun(programs[1:2])] == [False]
        self.check_recovered(runner)

    def test_an_answer_of_the_previous_candidate_does_not_help_the_next(self) -> None:
        self.check_recovered(self.shared())
        self.check_failed(kernels.unfinished(), {FailureKind.WRONG_RESULT})

    def test_an_endless_loop_times_out(self) -> None:
        runner = self.opened(timeout=0.4)
        began = time.monotonic()
        result = runner.run(self.compiled(kernels.endless()))
        assert isinstance(result, Failed)
        assert result.kind is FailureKind.TIMEOUT
        assert time.monotonic() - began < 30
        self.check_recovered(runner)

    def test_a_fatal_signal_is_a_crash_that_names_it(self) -> None:
        for candidate, words in ((kernels.segfault, "SIGSEGV"), (kernels.aborts, "SIGABRT")) * 2:
            self.check_failed(candidate(), {FailureKind.CRASH}, words)

    def test_too_much_memory_is_a_failure(self) -> None:
        self.check_failed(kernels.greedy(), RUN_FAILURES)

    def test_a_candidate_may_print(self) -> None:
        assert isinstance(self.shared().run(self.compiled(kernels.prints())), Ok)

    def test_a_candidate_far_behind_the_best_is_dropped(self) -> None:
        result = self.shared().run(self.compiled(kernels.slow(3_000_000)), best=1e-6)
        assert isinstance(result, Ok), result
        assert result.partial
        assert len(result.costs) == 1

    def test_a_hopeless_candidate_is_cut_off(self) -> None:
        runner = self.opened(timeout=60.0, least_limit=0.05)
        result = runner.run(self.compiled(kernels.endless()), best=1e-6)
        assert isinstance(result, Failed)
        assert result.kind is FailureKind.TIMEOUT

    def test_several_candidates_are_timed_in_turns(self) -> None:
        programs = [self.compiled(kernels.slow(turns)) for turns in (500_000, 1000, 1000)]
        results = self.opened(rounds=4).rerun(programs)
        assert [len(result.costs) for result in results if isinstance(result, Ok)] == [4, 4, 4]
        assert results[0].cost > results[1].cost

    def test_run_and_rerun_of_one_candidate_agree(self) -> None:
        runner, program = self.opened(), self.compiled(kernels.slow(500_000))
        pairs: list[tuple[float, float]] = []
        least = [0.0, math.inf]
        while len(pairs) < AGREEMENT_TRIES and max(least) >= AGREEMENT * min(least):
            first, (again,) = runner.run(program), runner.rerun([program])
            assert isinstance(first, Ok), first
            assert isinstance(again, Ok), again
            pairs.append((min(first.costs), min(again.costs)))
            least = [min(costs) for costs in zip(*pairs, strict=True)]
        assert max(least) < AGREEMENT * min(least), (
            f"run() and rerun() of one candidate gave these seconds in turns: {pairs}; a search ranks trials by the "
            "first and finalists by the second: change both methods alike"
        )

    def test_one_bad_candidate_does_not_spoil_the_others_turns(self) -> None:
        programs = [self.compiled(make()) for make in (kernels.good, kernels.segfault, kernels.good)]
        assert [result.ok for result in self.shared().rerun(programs)] == [True, False, True]

    def test_noise_that_a_candidate_writes_to_descriptors_fails_it_alone(self) -> None:
        self.check_failed(_writing(b"\x08" * 64), RUN_FAILURES)

    def test_json_that_a_candidate_writes_to_descriptors_is_no_result(self) -> None:
        self.check_failed(_writing(b'{"costs": [1e-9], "phases": {}, "partial": false}\n'), RUN_FAILURES)

    def test_a_pickle_that_a_candidate_writes_to_descriptors_runs_nowhere(self, tmp_path: Path) -> None:
        mark = tmp_path / "ran"
        pickled = pickle.dumps((1, "done", _Call(f"echo ran > {mark}")))
        self.check_failed(_writing(struct.pack("<Q", len(pickled)) + pickled), RUN_FAILURES)
        assert not mark.exists()

    def test_descriptors_that_a_candidate_closed_fail_it_alone(self) -> None:
        self.check_failed(kernels.running(_every_descriptor("close(fd);")), RUN_FAILURES)

    def test_a_candidate_that_takes_all_descriptors_does_not_fail_later_ones(self) -> None:
        runner = self.shared()
        runner.run(self.compiled(kernels.running('while (open("/dev/null", 0) >= 0);')))
        for number in range(3):
            assert isinstance(runner.run(self.compiled(kernels.running(f"(void){number};"))), Ok)

    def test_processes_of_a_candidate_that_returns_end_with_the_runner(self, tmp_path: Path) -> None:
        self.check_children_end(tmp_path, "")

    def test_processes_of_a_candidate_that_exits_end_with_the_runner(self, tmp_path: Path) -> None:
        self.check_children_end(tmp_path, "_exit(0);")

    def test_processes_of_a_candidate_that_aborts_end_with_the_runner(self, tmp_path: Path) -> None:
        self.check_children_end(tmp_path, "abort();")

    def check_children_end(self, folder: Path, end: str) -> None:
        """Check that a candidate's orphaned processes end, in its group, in another group, and in another session."""
        for place, start in enumerate(("", "setpgid(0, 0);", "setsid();")):
            fifo = folder / f"alive{place}"
            os.mkfifo(fifo)
            reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
            try:
                sleeps = 'if (!fork()) execlp("sleep", "sleep", "600", NULL);'
                body = f'if (open("{fifo}", O_WRONLY) < 0) _exit(1); {start} {sleeps} _exit(0);'
                runner = self.opened()
                runner.run(self.compiled(kernels.running(f"if (!fork()) {{ {body} }} wait(0); {end}")))
                runner.close()
                assert _hung_up(reader), f"a process that the candidate started still runs ({start or 'same group'})"
            finally:
                os.close(reader)

    def test_a_crash_is_known_at_once_although_a_child_lives_on(self) -> None:
        runner = self.opened(timeout=120.0)
        began = time.monotonic()
        result = runner.run(self.compiled(kernels.running("if (!fork()) { sleep(600); _exit(0); } abort();")))
        assert isinstance(result, Failed)
        assert result.kind is FailureKind.CRASH
        assert time.monotonic() - began < 60

    def test_a_run_can_be_given_up_from_another_thread(self) -> None:
        runner = self.opened(timeout=120.0)
        self.check_recovered(runner)
        endless = self.compiled(kernels.endless())
        threading.Timer(0.2, runner.interrupt).start()
        began = time.monotonic()
        # Work for the whole timeout, so that only the interruption can end it early.
        result = runner.run(endless, best=100.0)
        assert isinstance(result, Failed)
        assert time.monotonic() - began < 60
        self.check_recovered(runner)

    def test_closing_twice_is_harmless(self) -> None:
        runner = self.opened()
        runner.close()
        runner.close()
