"""Kernels come back from the libraries that they were written to."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from compilers import compiler
from lowered_programs import ONE_CORE, PARALLEL, TWO_CORES, alloc, function, get, loop, put
from processors import on_this_machine

import pegbox as pb
from pegbox import te
from pegbox.codegen import Program, Target, emit, load_library, write_object, write_shared_library
from pegbox.codegen.runtime.export import link_shared_library
from pegbox.codegen.runtime.library import signatures, with_signature
from pegbox.errors import ArgumentError, CompileError
from pegbox.expr.nodes import Buffer

SIZE = 6000


def twice(name: str, target: Target = ONE_CORE) -> Program:
    """Double an array through a buffer too large for the stack, in parallel where there are several cores."""
    a, c, t = Buffer('a "b" \\ é', (SIZE,)), Buffer("c", (SIZE,)), Buffer("t", (SIZE,))
    body = loop("i", SIZE, lambda i: put(t, i, get(a, i) * 2.0), PARALLEL)
    copy = loop("j", SIZE, lambda j: put(c, j, get(t, j)))
    return emit(function([a, c], [c], alloc(t, body, copy), name=name), target)


def arrays() -> tuple[Any, Any]:
    return np.arange(SIZE, dtype=np.float32), np.zeros(SIZE, np.float32)


def test_a_signature_says_what_a_kernel_takes() -> None:
    program = twice("twice", TWO_CORES)
    text = with_signature(program).ll
    assert text.startswith(program.ll)
    (constant,) = (line for line in text.splitlines() if line.startswith("@twice__signature"))
    code = constant.partition('c"')[2][:-1].replace("\\22", '"').replace("\\5C", "\\").replace("\\00", "\0").encode()
    ((said, family),) = signatures(code)
    assert (said.name, said.args, said.target, family) == ("twice", program.args, TWO_CORES, "")
    assert (said.workspace_bytes, said.num_threads) == (program.workspace_bytes, 2)


@on_this_machine
@compiler
def test_a_library_with_a_damaged_description_is_refused(tmp_path: Path) -> None:
    write_shared_library(twice("once"), tmp_path / "whole.so")
    whole = (tmp_path / "whole.so").read_bytes()
    for number, (old, new, why) in enumerate(
        (
            (b'"args"', b'"args,', "damaged"), (b'"float32"', b'"floaf32"', "floaf32"),
            (b'"shape": [6000]', b'"shape":[-6000]', r"shape \[-6000\]"),
            (b'"target": "llvm', b'"target": "llqq', "llqq"), (b'"num_threads"', b'"num_threadz"', "num_threads"),
            (b'{"name": "once"', b'{"name": "onze"', "kernel onze"),
        )
    ):  # fmt: skip
        (tmp_path / f"{number}.so").write_bytes(whole.replace(old, new))
        with pytest.raises(ArgumentError, match=rf"load_library\(.*{why}.*write it with pegbox again"):
            load_library(tmp_path / f"{number}.so")


@on_this_machine
@compiler
@pytest.mark.parametrize("by_object", [False, True])
def test_several_kernels_share_a_library(tmp_path: Path, by_object: bool) -> None:
    programs, path = [twice("one"), twice("two", TWO_CORES)], tmp_path / "both.so"
    if by_object:
        write_object(programs, tmp_path / "both.o")
        link_shared_library(path, [str(tmp_path / "both.o"), "-lgomp"])
    else:
        write_shared_library(programs, path)
    library = load_library(path)
    assert set(library) == {"one", "two"}
    for name in library:
        a, c = arrays()
        library[name](a, c)
        np.testing.assert_array_equal(c, 2 * a)
        assert library[name].time_ns((a, c), 2) > 0
        with pytest.raises(ArgumentError, match="has shape"):
            library[name](a, c[1:])
        with pytest.raises(ArgumentError, match="was loaded from object code alone"):
            library[name].programs  # noqa: B018


@on_this_machine
@compiler
@pytest.mark.parametrize("suffix", [".so", ".o"])
def test_a_library_holds_the_sizes_that_were_compiled(tmp_path: Path, suffix: str) -> None:
    n = te.var("n")
    A = te.placeholder((n,), name="A")
    B = te.compute((n,), lambda i: A[i] * 2.0, name="B")
    kernel = pb.build(te.create_schedule(B.op), [A, B], name="scaled")
    with pytest.raises(ArgumentError, match="scaled: its sizes are variables, and it was not called yet"):
        kernel.programs  # noqa: B018
    for size in (3, 5):
        kernel(np.zeros(size, np.float32), np.zeros(size, np.float32))
    write = write_object if suffix == ".o" else write_shared_library
    write(kernel.programs, tmp_path / f"kernel{suffix}")
    if suffix == ".o":
        link_shared_library(tmp_path / "kernel.so", [str(tmp_path / "kernel.o")])
    loaded = load_library(tmp_path / "kernel.so")["scaled"]
    a, b = np.arange(5, dtype=np.float32), np.zeros(5, np.float32)
    loaded(a, b)
    np.testing.assert_array_equal(b, a * 2)
    assert loaded.time_evaluator("scaled", number=2)(a, b).mean > 0
    with pytest.raises(
        ArgumentError, match=r"no kernel for arrays of the shapes \(2,\), \(2,\); it has them for \(3,\)"
    ):
        loaded(a[:2].copy(), b[:2].copy())
    for ask in (lambda: loaded.programs, loaded.source):
        with pytest.raises(ArgumentError, match="loaded from object code alone"):
            ask()


def test_what_is_no_library_of_kernels_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match=r"load_library\(.*none\.so'\): there is no such file"):
        load_library(tmp_path / "none.so")
    (tmp_path / "text.so").write_text("nothing")
    with pytest.raises(ArgumentError, match=r"the file has no pegbox kernel"):
        load_library(tmp_path / "text.so")
    write_object(twice("twice"), tmp_path / "object.so")
    with pytest.raises(ArgumentError, match=r"the library cannot be loaded: .*object\.so"):
        load_library(tmp_path / "object.so")


@compiler
def test_what_the_linker_says_is_shown(tmp_path: Path) -> None:
    with pytest.raises(CompileError, match=r"-shared .*none\.o failed: "):
        link_shared_library(tmp_path / "kernel.so", [str(tmp_path / "none.o")])
