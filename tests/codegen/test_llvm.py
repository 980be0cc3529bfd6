"""LLVM's process may end; this one does not."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import plain_code
import pytest

import pegbox as pb
from pegbox import te
from pegbox.codegen import Program, Target, assembly, compile_program, emit, load, optimized_ir
from pegbox.codegen.runtime import isolation, llvm
from pegbox.errors import CompileError
from pegbox.workers.pool import Pool
from pegbox.workers.process import Worker, WorkerDied

# LLVM 22 asserts that two of its cost models agree, and on AVX-512 they do not about this loop of seven.
_ABORTS = """
import warnings, pegbox as pb
from pegbox import te
from pegbox.codegen import assembly, compile_program, emit

X = te.placeholder((3, 8, 4), name="X", dtype="int32")
def plane(i, j):
    a, b = i.astype("uint8"), j.astype("uint8")
    return (243 // (a - 254) // (b * a)).astype("int64") % 3
Y = te.compute((7, 3), lambda i, j: te.maximum(te.minimum(X[plane(i, j), i, j], 16), -16), name="Y")
lowered = pb.lower(te.create_schedule(Y.op), [X, Y])
program = emit(lowered, pb.Target("llvm -mcpu=znver4 -mtriple=x86_64-unknown-linux-gnu -num-cores 1"))
with warnings.catch_warnings(record=True) as seen:
    warnings.simplefilter("always")
    compiled, text = compile_program(program), assembly(program)
assert all(w.category is RuntimeWarning and "stay scalar" in str(w.message) for w in seen), seen
print(len(compiled.object_code) > 0, "main:" in text)
"""


def test_a_program_whose_loops_llvm_dies_of_is_built() -> None:
    done = subprocess.run([sys.executable, "-c", _ABORTS], capture_output=True, text=True, check=False)
    assert done.stdout == "True True\n", done.stderr


@pytest.fixture
def program() -> Program:
    """Twice each element."""
    X = te.placeholder((100,), name="X")
    Y = te.compute((100,), lambda i: X[i] * 2.0, name="Y")
    return emit(pb.lower(te.create_schedule(Y.op), [X, Y]), Target("llvm -num-cores 1"))


def doubles(program: Program) -> bool:
    out = np.empty(100, np.float32)
    load(compile_program(program))(np.arange(100, dtype=np.float32), out)
    return bool((out == 2 * np.arange(100)).all())


@pytest.mark.optimizer
def test_another_process_compiles(program: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(isolation, "translate_apart", plain_code.translate_apart)
    assert doubles(program)
    assert assembly(program) == llvm.translate(*_arguments(program), "assembly", "all").decode()
    assert "define void @main(" in optimized_ir(program)


@pytest.fixture
def other_process(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Programs are compiled in another process, which a test does not share."""
    monkeypatch.setattr(isolation, "translate_apart", plain_code.translate_apart)
    monkeypatch.setattr(isolation, "_pool", Pool(isolation._start, 1))
    yield
    isolation._pool.close()


def process() -> Worker:
    """The process that compiles."""
    with isolation._pool.worker() as worker:
        return worker


@pytest.mark.usefixtures("other_process")
def test_one_process_answers_several_calls(program: Program) -> None:
    text = assembly(program)
    first = process()
    assert assembly(program) == text
    assert process() is first


@pytest.mark.usefixtures("other_process")
def test_a_process_that_has_ended_is_started_again(program: Program) -> None:
    text = assembly(program)
    process().kill()
    assert assembly(program) == text


@pytest.mark.usefixtures("other_process")
def test_a_call_that_was_interrupted_leaves_no_reply_behind(program: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    text = assembly(program)
    with monkeypatch.context() as patched:
        patched.setattr(Worker, "_read_answer", interrupted)
        with pytest.raises(KeyboardInterrupt):
            optimized_ir(program)
    assert assembly(program) == text


@pytest.mark.usefixtures("other_process")
def test_several_threads_may_ask(program: Program) -> None:
    with ThreadPoolExecutor(4) as pool:
        assert len(set(pool.map(lambda _: assembly(program), range(8)))) == 1


def test_what_the_other_process_rejects_is_an_error_here(program: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(isolation, "translate_apart", plain_code.translate_apart)
    with pytest.raises(CompileError, match="main: LLVM rejects the program: LLVM IR parsing error"):
        assembly(replace(program, ll="nonsense"))


@pytest.mark.optimizer
def test_where_the_other_process_dies_loops_stay_scalar(program: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    def dies(text: str, machine: llvm.TargetMachine, form: llvm.Form, passes: llvm.Passes, *, timeout: float) -> bytes:
        if passes == "all":
            raise llvm.ProcessDied("Assertion failed")
        return llvm.translate(text, machine, form, passes)

    monkeypatch.setattr(isolation, "translate_apart", dies)
    with pytest.warns(RuntimeWarning, match=r"main: LLVM fails .* stay scalar \(Assertion failed\)"):
        assert doubles(program)
    with pytest.warns(RuntimeWarning):
        text = optimized_ir(program)
    assert "x float>" not in text
    if program.target.architecture != "riscv64":  # vectors are an option there
        assert "x float>" in llvm.translate(*_arguments(program), "ir", "all").decode()


@pytest.mark.optimizer
def test_a_program_that_llvm_never_survives_is_an_error(program: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    def dies(*_: object, **__: object) -> None:
        raise WorkerDied(-signal.SIGABRT, "Assertion failed")

    monkeypatch.setattr(Worker, "call", dies)
    monkeypatch.setattr(isolation, "translate_apart", plain_code.translate_apart)
    rejected = "main: LLVM rejects the program: Assertion failed"
    with pytest.warns(RuntimeWarning), pytest.raises(CompileError, match=rejected):
        compile_program(program)


def test_a_process_that_cannot_start_is_an_error_that_says_why(
    program: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(isolation, "_pool", Pool(lambda place: Worker("no_such_llvm"), 1))
    monkeypatch.setattr(isolation, "translate_apart", plain_code.translate_apart)
    with pytest.raises(CompileError, match=r"main: LLVM runs in a separate process, and .* could not start:"):
        assembly(program)


def test_what_llvm_says_of_a_program_that_it_takes_is_shown(
    program: Program, capsys: pytest.CaptureFixture[str]
) -> None:
    text, target = _arguments(program)
    plain_code.translate_apart(text, target._replace(features="+nonsense"), "assembly", "all", timeout=60)
    assert "nonsense" in capsys.readouterr().err


def _arguments(program: Program) -> tuple[str, llvm.TargetMachine]:
    target = program.target
    return program.ll, llvm.TargetMachine(target.triple, target.cpu, target.features)


@pytest.mark.optimizer
def test_simplification_inlines_math_functions() -> None:
    X = te.placeholder((64,), name="X")
    Y = te.compute((64,), lambda i: te.exp(X[i]), name="Y")
    s = te.create_schedule(Y.op)
    s[Y].vectorize(Y.op.axis[0])
    program = emit(pb.lower(s, [X, Y]), Target("llvm -num-cores 1"))
    assert "call" in program.ll
    assert not program.scalar_loops
    assert "@pegbox.exp" not in optimized_ir(program)
