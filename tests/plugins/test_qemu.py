"""The runner "qemu": values of other architectures, times that are nobody's. Most tests need the emulator."""

from __future__ import annotations

import math
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from processors import for_target

import pegbox as pb
from pegbox.codegen import Program, Target
from pegbox.codegen.targets import host
from pegbox.errors import MeasureError, TuningError
from pegbox.loops.foreign import CSource
from pegbox.measure import CorePlan, Failed, FailureKind, Ok, Result, TimingPolicy
from pegbox.measure.runner import ClusterRunner, is_cluster
from pegbox.plugins.cli import history
from pegbox.plugins.runners import emulation
from pegbox.plugins.runners.emulation import Emulation, emulated_cpu
from pegbox.plugins.runners.qemu import QemuRunner
from pegbox.search.loop.callbacks import Callback
from pegbox.search.loop.outcome import BestTrial, Trial
from pegbox.search.loop.remarks import remarks
from pegbox.search.loop.state import SearchState
from pegbox.search.models.inputs import load_transfer
from pegbox.testing import llvm_kernels as kernels

ARM, RISCV = for_target("aarch64"), for_target("riscv64-vector")
FOREIGN = ARM if host.architecture() != "aarch64" else RISCV


def emulated(target: Target) -> pytest.MarkDecorator:
    name = target.architecture
    missing = [tool for tool in (f"qemu-{name}", f"{name}-linux-gnu-gcc") if shutil.which(tool) is None]
    return pytest.mark.skipif(
        bool(missing) or host.architecture() == name,
        reason=f"needs {' and '.join(missing)} (apt install qemu-user gcc-{name}-linux-gnu), on another architecture",
    )


@pytest.fixture
def runner() -> Iterator[QemuRunner]:
    timing = TimingPolicy(timeout=2.0, repeats=1, min_repeat_ms=0.0)
    made = QemuRunner(kernels.bench(), timing=timing, cores=CorePlan.detect(), max_memory=1 << 30)
    yield made
    made.close()


def ran(runner: QemuRunner, program: Program, target: Target = FOREIGN) -> Result:
    return runner.run(kernels.compiled(replace(program, target=target)))


@pytest.mark.parametrize("target", [pytest.param(each, marks=emulated(each)) for each in (ARM, RISCV)], ids=str)
def test_a_candidate_of_another_architecture_is_checked(runner: QemuRunner, target: Target) -> None:
    result = ran(runner, kernels.good(), target)
    assert isinstance(result, Ok), result
    assert result.cost > 0


@emulated(FOREIGN)
@pytest.mark.parametrize(
    ("make", "kind", "words"),
    [
        (kernels.wrong, FailureKind.WRONG_RESULT, "[77]"),
        (kernels.segfault, FailureKind.CRASH, "SIGSEGV"),
        (kernels.greedy, FailureKind.CRASH, "status 6"),
    ],
)
def test_what_a_candidate_does_wrong_is_its_failure(
    runner: QemuRunner, make: Callable[[], Program], kind: FailureKind, words: str
) -> None:
    result = ran(runner, make())
    assert isinstance(result, Failed)
    assert result.kind is kind
    assert words in result.message


@emulated(FOREIGN)
def test_a_run_is_given_up_also_while_it_is_linked(runner: QemuRunner) -> None:
    program = replace(kernels.endless(), target=FOREIGN)
    compiled = kernels.compiled(program)
    threading.Timer(0.01, runner.interrupt).start()
    began = time.monotonic()
    result = runner.run(compiled, best=100.0)
    assert isinstance(result, Failed)
    assert "given up" in result.message
    assert time.monotonic() - began < 30


@emulated(RISCV)
def test_a_search_with_vectors_of_riscv_says_that_it_was_emulated(tmp_path: Path) -> None:
    task = pb.create_task("matmul", args=(9, 8, 20), target=RISCV)
    records = tmp_path / "records.jsonl"
    quick = {"rounds": 1, "repeats": 1, "min_repeat_ms": 0.0}
    result = pb.tune(task, tuner="random", trials=2, runner="qemu", records=records, measure_options=quick)
    assert [trial.result.ok for trial in result.trials] == [True, True], result.trials
    assert result.best.result.host.startswith("emulated by QEMU")
    assert "they say nothing of a processor" in str(result)
    (summary,) = history.summaries([records])
    assert (summary.trials, summary.emulated, summary.best) == (2, 2, None)
    assert "2 in an emulator" in history.as_text([summary])
    with pytest.raises(pb.errors.ArgumentError, match="from an emulator"):
        load_transfer(records, pb.create_task("matmul", args=(9, 8, 40), target=RISCV))


def test_a_missing_program_is_named_with_its_package(runner: QemuRunner, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)
    packages = f"apt install qemu-user gcc-{FOREIGN.architecture}-linux-gnu"
    with pytest.raises(MeasureError, match=f"needs qemu-{FOREIGN.architecture} for the target .*{packages}"):
        ran(runner, kernels.good())


def test_a_target_of_this_machine_is_not_emulated(runner: QemuRunner) -> None:
    with pytest.raises(MeasureError, match=r"another architecture than this machine's.*--target 'llvm -mtriple="):
        runner.run(kernels.compiled(kernels.good()))


@pytest.mark.parametrize(
    ("text", "language", "tool"),
    [("int f(void) { return 1; }", "c", "gcc"), ('extern "C" int f() { return 1; }', "c++", "g++")],
)
def test_c_and_cpp_that_candidates_call_are_compiled_as_such(
    text: str, language: str, tool: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commands: list[list[str]] = []

    def run(command: list[str], **options: object) -> SimpleNamespace:
        commands.append(command)
        return SimpleNamespace(returncode=0, stdout="objcopy\n")

    monkeypatch.setattr(shutil, "which", lambda name: name)
    monkeypatch.setattr(emulation, "_driver", lambda compiler, count: b"")
    monkeypatch.setattr(emulation.subprocess, "run", run)
    Emulation(replace(kernels.compiled(replace(kernels.good(), target=FOREIGN)), foreign=(CSource(text),)), tmp_path)
    command = commands[-1]
    assert command[0].endswith(f"-linux-gnu-{tool}")
    (source,) = tmp_path.glob("foreign*")
    assert source.read_text() == text
    at = command.index(source.name)
    assert command[at - 2 : at] == ["-x", language]


@emulated(FOREIGN)
@pytest.mark.parametrize("name", ["main", "entry", "timed", "malloc"])
def test_a_candidate_may_have_any_name(runner: QemuRunner, name: str) -> None:
    program = kernels.good()
    result = ran(runner, replace(program, name=name, ll=program.ll.replace(f"@{program.name}", f"@{name}")))
    assert isinstance(result, Ok), result


@emulated(FOREIGN)
def test_a_processor_that_the_emulator_does_not_have_is_refused_before_the_first_trial() -> None:
    task = pb.create_task("matmul", args=(9, 8, 20), target=FOREIGN)
    listed = f"qemu-{FOREIGN.architecture} -cpu help"
    with pytest.raises(TuningError, match=f"cpu='nosuch': .*unable to find CPU model 'nosuch'.*'{listed}'") as caught:
        pb.tune(task, tuner="random", trials=2, runner="qemu:cpu=nosuch")
    assert caught.value.result is not None
    assert caught.value.result.trials == ()


@emulated(FOREIGN)
def test_progress_of_an_emulated_search_speaks_of_emulators_and_of_no_comparison() -> None:
    said: list[str] = []

    class Listening(Callback):
        def on_activity(self, state: SearchState) -> None:
            said.append(state.activity)

    task = pb.create_task("matmul", args=(9, 8, 20), target=FOREIGN)
    quick = {"rounds": 1, "repeats": 1, "min_repeat_ms": 0.0}
    pb.tune(task, tuner="random", trials=1, runner="qemu", measure_options=quick, callbacks=[Listening()])
    count = len(CorePlan.for_building().building)
    assert f"measuring in {count} emulator{'s' if count > 1 else ''}" in said
    assert not [each for each in said if "machine" in each or "NumPy" in each]


def test_it_runs_as_many_at_once_as_there_are_cores(runner: QemuRunner) -> None:
    assert isinstance(runner, ClusterRunner)
    assert is_cluster(QemuRunner)
    assert runner.machines == len(CorePlan.detect().building)


def test_the_emulated_processor_has_the_vectors_of_the_target() -> None:
    assert emulated_cpu(ARM) == ""
    assert emulated_cpu(RISCV) == "rv64,v=true,vlen=128"
    assert emulated_cpu(for_target("riscv64")) == ""


def test_times_of_an_emulator_are_no_noise_and_no_speed() -> None:
    space = pb.ConfigSpace()
    space.define_knob("x", [0, 1])
    result = Ok((1e-3, 9e-3), host="emulated by QEMU 9.2", waited=0.9)
    trials = [Trial(number, space.get(0), result, 0.0, 0.0) for number in range(9)]
    told = remarks(trials, trials, BestTrial.of(trials[0]), threads=2)
    assert told == [
        "values were checked, but times are an emulator's (emulated by QEMU 9.2): they say nothing of a processor"
    ]
    assert remarks(trials, trials, None, threads=2) == []
    assert math.isfinite(np.median(result.costs))
