"""Programs and object code as values that travel: pickled, loaded elsewhere, exported, damaged."""

from __future__ import annotations

import ctypes
import pickle
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from lowered_programs import ONE_CORE, PARALLEL, TWO_CORES, VECTORIZED, alloc, function, get, loop, put
from processors import for_target, on_this_machine

from pegbox.codegen import (
    Program,
    Target,
    assembly,
    c_header,
    compile_program,
    emit,
    load,
    write_object,
    write_shared_library,
)
from pegbox.codegen.targets import host
from pegbox.errors import CompileError, TargetError
from pegbox.expr.build import cast
from pegbox.expr.intrinsics import call
from pegbox.expr.nodes import Buffer
from pegbox.loops.nodes import ForKind

needs_cc = pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")


def scale(*, target: Target = ONE_CORE, kind: ForKind = VECTORIZED, size: int = 40) -> Program:
    a, c = Buffer("a", (size,)), Buffer("c", (size,))
    return emit(
        function([a, c], [c], loop("i", size, lambda i: put(c, i, get(a, i) * 2.0), kind), name="scale"), target
    )


def test_programs_and_object_code_can_be_pickled() -> None:
    program = scale()
    assert pickle.loads(pickle.dumps(program)) == program
    compiled = compile_program(program)
    again = pickle.loads(pickle.dumps(compiled))
    assert again == compiled
    out = np.zeros(40, np.float32)
    load(again)(np.ones(40, np.float32), out)
    assert (out == 2).all()


@on_this_machine
def test_object_code_runs_in_another_process(tmp_path: Path) -> None:
    path = tmp_path / "kernel.pickle"
    path.write_bytes(pickle.dumps(compile_program(scale(target=TWO_CORES, kind=PARALLEL))))
    code = f"""
import pickle, numpy as np
from pegbox.codegen import load
out = np.zeros(40, np.float32)
load(pickle.load(open({str(path)!r}, "rb")))(np.arange(40, dtype=np.float32), out)
print(out.sum())
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert float(done.stdout) == 2 * sum(range(40))


def test_the_same_function_gives_the_same_text() -> None:
    assert scale() == scale()


def test_nothing_loads_llvm_before_it_is_needed() -> None:
    code = "import sys, pegbox.codegen; assert not [m for m in sys.modules if m.startswith('llvmlite')], 'loaded'"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_emitting_for_a_named_processor_loads_no_llvm_either() -> None:
    code = """
import sys
from pegbox.codegen import Target, emit
from pegbox.expr.build import const
from pegbox.expr.nodes import Buffer
from pegbox.loops.nodes import Function, Store
c = Buffer("c", ())
target = Target("llvm -mtriple=x86_64-linux-gnu -mcpu=haswell")
emit(Function("f", (c,), (c,), Store(c, (), const(1.0, "float32"))), target)
assert not [m for m in sys.modules if m.startswith("llvmlite")]
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_text_that_llvm_rejects_is_a_compile_error() -> None:
    with pytest.raises(CompileError, match="scale: LLVM rejects the program"):
        compile_program(replace(scale(), ll="define void @scale( {"))
    broken = "define i64 @scale(i64 %x) {\n  %b = add i64 %a, 1\n  %a = add i64 %x, 1\n  ret i64 %b\n}"
    with pytest.raises(CompileError, match="dominate"):
        compile_program(replace(scale(), ll=broken))


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="reads the memory in use from /proc")
def test_compiling_and_loading_give_their_memory_back() -> None:
    def pages() -> int:
        return int(Path("/proc/self/statm").read_text().split()[1])

    program = scale()
    for _ in range(5):
        load(compile_program(program))
    before = pages()
    for _ in range(60):
        load(compile_program(program))
    # A pass manager that is not freed is 36 pages.
    assert pages() - before < 60 * 8


@on_this_machine
def test_damaged_object_code_is_an_error_not_a_crash() -> None:
    compiled = compile_program(scale())
    for damage in (b"", b"not an object", compiled.object_code[:200]):
        with pytest.raises(CompileError, match="scale: the object code cannot be loaded"):
            load(compiled._replace(object_code=damage))


@on_this_machine
def test_code_for_another_architecture_is_not_loaded() -> None:
    elsewhere = Target("llvm -mtriple=aarch64-unknown-linux-gnu -mcpu=neoverse-n1 -num-cores 1")
    program = scale(target=elsewhere)
    assert "4s" in assembly(program)
    with pytest.raises(TargetError, match="aarch64-unknown-linux-gnu and cannot run on this machine"):
        load(compile_program(program))


def test_a_target_without_avx512_uses_none_of_it() -> None:
    a, b, c = Buffer("a", (8, 8)), Buffer("b", (8, 64)), Buffer("c", (8, 64))
    body = loop(
        "i",
        8,
        lambda i: loop(
            "k",
            8,
            lambda k: loop("j", 64, lambda j: put(c, i, j, get(c, i, j) + get(a, i, k) * get(b, k, j)), VECTORIZED),
        ),
    )
    func = function([a, b, c], [c], body)
    narrow = assembly(emit(func, Target("llvm -mcpu=haswell -num-cores 1")))
    assert "zmm" not in narrow
    assert "ymm" in narrow
    assert "vfmadd" in narrow
    wide = assembly(emit(func, Target("llvm -mcpu=znver4 -num-cores 1")))
    assert "zmm" in wide
    assert "ymm" not in assembly(emit(func, Target("llvm -mcpu=x86-64 -num-cores 1")))


def test_avx2_code_is_right() -> None:
    program = scale(target=Target("llvm -mcpu=haswell -num-cores 1"), size=45)
    if "+avx2" not in ONE_CORE.features.split(","):
        pytest.skip("this machine has no AVX2")
    out = np.zeros(45, np.float32)
    load(compile_program(program))(np.arange(45, dtype=np.float32), out)
    np.testing.assert_array_equal(out, 2 * np.arange(45))


def test_half_precision_and_vector_math_compile_for_older_processors() -> None:
    a, c = Buffer("a", (40,), "float16"), Buffer("c", (40,), "float16")
    body = loop("i", 40, lambda i: put(c, i, call("exp", get(a, i))), VECTORIZED)
    text = assembly(emit(function([a, c], [c], body), Target("llvm -mcpu=haswell -num-cores 1")))
    assert "expf" not in text
    d = Buffer("d", (40,))
    assert (
        "call"
        not in assembly(
            emit(
                function([d], [d], loop("i", 40, lambda i: put(d, i, call("exp", cast("float32", i))), VECTORIZED)),
                ONE_CORE,
            )
        ).split("__timed:")[0]
    )


@on_this_machine
@needs_cc
def test_a_shared_library_is_callable_without_pegbox(tmp_path: Path) -> None:
    for target, kind in ((ONE_CORE, VECTORIZED), (TWO_CORES, PARALLEL)):
        path = tmp_path / f"scale{target.num_cores}.so"
        write_shared_library(scale(target=target, kind=kind), path)
        library = ctypes.CDLL(str(path))
        a, c = np.arange(40, dtype=np.float32), np.zeros(40, np.float32)
        library.scale(ctypes.c_void_p(a.ctypes.data), ctypes.c_void_p(c.ctypes.data), None)
        np.testing.assert_array_equal(c, 2 * a)


@on_this_machine
@needs_cc
def test_the_header_and_the_object_build_a_c_program(tmp_path: Path) -> None:
    size = 6000
    a, c, t = Buffer("in put", (size,)), Buffer("c", (size,)), Buffer("t", (size,))
    body = alloc(
        t,
        loop("i", size, lambda i: put(t, i, get(a, i) + 1.0)),
        loop("i", size, lambda i: put(c, i, get(t, size - 1 - i))),
    )
    program = emit(function([a, c], [c], body, name="flip"), ONE_CORE)
    write_object(program, tmp_path / "flip.o")
    (tmp_path / "flip.h").write_text(c_header(program))
    (tmp_path / "main.c").write_text(
        """
#include <stdio.h>
#include <stdlib.h>
#include "flip.h"
static float in[6000], out[6000];
int main(void) {
    void *workspace = aligned_alloc(64, FLIP_WORKSPACE_BYTES);
    for (int i = 0; i < 6000; ++i) in[i] = i;
    flip(in, out, workspace);
    int64_t ns = flip__timed(in, out, workspace, 3);
    printf("%g %g %d\\n", out[0], out[5999], ns > 0);
    return 0;
}
"""
    )
    command = ["cc", "-Wall", "-Wextra", "-Werror", "main.c", "flip.o", "-o", "main"]
    subprocess.run(command, cwd=tmp_path, check=True)
    done = subprocess.run([str(tmp_path / "main")], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["6000", "1", "1"]


def test_the_header_says_what_a_caller_must_know() -> None:
    text = c_header(scale(target=TWO_CORES, kind=PARALLEL))
    assert "void scale(const float *a, float *c, void *workspace);" in text
    assert "-lgomp" in text
    assert "c: output, float32 40" in text
    assert "-lgomp" not in c_header(scale())


@needs_cc
@pytest.mark.parametrize("names", [("n", "calls"), ("int", "class"), ("workspace", "x")])
def test_names_that_c_or_the_header_needs_are_changed(tmp_path: Path, names: tuple[str, str]) -> None:
    a, c = (Buffer(name, (4,)) for name in names)
    body = loop("i", 4, lambda i: put(c, i, get(a, i)))
    (tmp_path / "k.h").write_text(c_header(emit(function([a, c], [c], body, name="k"), ONE_CORE)))
    for language in ("c", "c++"):
        command = ["cc", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", "-x", language, "k.h"]
        subprocess.run(command, cwd=tmp_path, check=True)


def test_without_a_linker_the_error_has_the_remedy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CC", raising=False)
    with pytest.raises(CompileError, match=r"no linker .*apt install gcc.*object file"):
        write_shared_library(scale(), tmp_path / "k.so")


def test_a_linker_that_fails_is_quoted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake = tmp_path / "cc"
    fake.write_text("#!/bin/sh\necho no space left >&2\nexit 3\n")
    fake.chmod(0o755)
    monkeypatch.setenv("CC", str(fake))
    with pytest.raises(CompileError, match="failed: no space left"):
        write_shared_library(scale(), tmp_path / "k.so")
    fake.write_text("#!/bin/sh\necho cannot link soft-float modules with double-float modules >&2\nexit 1\n")
    with pytest.raises(CompileError, match=r"double-float modules; .*-mattr=\+m,\+a,\+f,\+d,\+c"):
        write_shared_library(scale(), tmp_path / "k.so")


def fake_compiler(folder: Path, name: str, machine: str = "") -> str:
    """A compiler for `machine` that writes its own name where it should link."""
    out = 'while [ "$1" != -o ]; do shift; done; echo ' + name + ' > "$2"'
    path = folder / name
    path.write_text(f'#!/bin/sh\nif [ "$1" = -dumpmachine ]; then echo {machine}; exit; fi\n{out}\n')
    path.chmod(0o755)
    return str(path)


def test_code_for_another_architecture_is_linked_by_a_compiler_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    foreign = for_target("riscv64" if host.architecture() != "riscv64" else "aarch64")
    name, out = foreign.architecture, tmp_path / "k.so"

    def linked() -> str:
        out.unlink(missing_ok=True)
        write_shared_library(scale(target=foreign), out)
        return out.read_text().strip()

    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CC", raising=False)
    fake_compiler(tmp_path, "cc")
    with pytest.raises(CompileError, match=rf"{name}.*apt install gcc-{name}-linux-gnu\).*CC=.*\.o\)"):
        linked()
    fake_compiler(tmp_path, f"{name}-linux-gnu-gcc")
    assert linked() == f"{name}-linux-gnu-gcc"
    fake_compiler(tmp_path, f"{name}-unknown-linux-gnu-gcc")
    assert linked() == f"{name}-unknown-linux-gnu-gcc"
    monkeypatch.setenv("CC", fake_compiler(tmp_path, "mine", f"{name}-linux-musl"))
    assert linked() == "mine"
    monkeypatch.setenv("CC", fake_compiler(tmp_path, "silent"))
    assert linked() == "silent"
    monkeypatch.setenv("CC", fake_compiler(tmp_path, "native", f"{host.architecture()}-linux-gnu"))
    assert linked() == f"{name}-unknown-linux-gnu-gcc"
