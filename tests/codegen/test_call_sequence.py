"""Functions that call kernels one after the other: their text, their linking, and their libraries' parts."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from compilers import compiler
from lowered_programs import ONE_CORE, elementwise
from processors import for_target, on_this_machine

from pegbox.codegen import ArgSpec, Target, compile_program, emit
from pegbox.codegen.call_sequence import AreaOffset, Call, CallSequence, Copy, argument
from pegbox.codegen.emitter.call_text import emit_sequence
from pegbox.codegen.runtime import elf
from pegbox.codegen.runtime.checked_call import address_of_data, aligned_bytes
from pegbox.codegen.runtime.elf_objects import constants_ranges, with_prefix, write_bytes_object
from pegbox.codegen.runtime.image import ImageLayout
from pegbox.codegen.runtime.linked_kernels import LinkedKernels

WEIGHTS = np.arange(16, dtype=np.float32)


def sequence(target: Target = ONE_CORE) -> CallSequence:
    """(x + w) + w through the workspace, and a copy of w."""
    kernel = compile_program(emit(elementwise("float32", lambda x, y: x + y, size=16), target))
    specs = [ArgSpec(name, (16,), "float32", is_output=name != "x") for name in ("x", "y", "w")]
    steps = (
        Call(0, (argument(0), AreaOffset("constants"), AreaOffset("workspace", 64))),
        Call(0, (AreaOffset("workspace", 64), AreaOffset("constants"), argument(1))),
        Copy(argument(2), AreaOffset("constants"), WEIGHTS.nbytes),
    )
    return CallSequence("both", tuple(specs), (kernel,), steps, WEIGHTS.view(np.uint8), 128, target)


WIDE = Target("llvm -mtriple=x86_64-unknown-linux-gnu -mcpu=znver4 -num-cores 1")


def test_kernels_are_called_with_places(golden: Callable[[object], None]) -> None:
    golden(emit_sequence(sequence(WIDE)).ll.partition("define i64")[0])


def test_the_clock_is_read_between_steps(golden: Callable[[object], None]) -> None:
    program = emit_sequence(sequence(WIDE), clocked=True)
    assert program.args[-1] == ArgSpec("clock", (4, 2), "int64", is_output=True)
    golden(program.ll.partition("define i64")[0])


@on_this_machine
@pytest.mark.parametrize("offset", [0, 16])
def test_kernels_and_constants_are_linked(offset: int) -> None:
    """Also constants that are not aligned as kernels may expect it."""
    made, held = sequence(), aligned_bytes(64 + offset)[offset:]
    held[:] = made.constants
    assert address_of_data(held) % 64 == offset
    made = CallSequence(made.name, made.args, made.kernels, made.steps, held, made.workspace_bytes, made.target)
    linked = LinkedKernels(made)
    kernel = linked.kernel(compile_program(emit_sequence(made)))
    del linked  # the kernel keeps what it needs
    x, y, w = np.ones(16, np.float32), np.zeros(16, np.float32), np.zeros(16, np.float32)
    kernel(x, y, w)
    np.testing.assert_array_equal(y, 1 + 2 * WEIGHTS)
    np.testing.assert_array_equal(w, WEIGHTS)


@pytest.mark.parametrize("processor", ["x86-64", "haswell", "aarch64", "riscv64"])
def test_each_architecture_reaches_constants_that_lie_far_away(processor: str) -> None:
    compiled = compile_program(emit_sequence(sequence(for_target(processor))))
    names = elf.undefined(compiled.object_code)
    assert {"both__constants", "both__0__kernel"} <= set(names)
    layout = ImageLayout.of(elf.parse(compiled.object_code))
    assert layout.linked(0x5555_0000_0000, dict.fromkeys(names, 0x7000_0000_1234_5678))


@pytest.mark.parametrize("processor", ["x86-64", "aarch64", "riscv64"])
def test_a_prefix_changes_the_names_that_an_object_defines(processor: str) -> None:
    code = compile_program(emit(elementwise("float32", lambda x, y: x + y), for_target(processor))).object_code
    before, after = elf.parse(code), elf.parse(with_prefix(code, "net__3__"))
    renamed = {old.name: new.name for old, new in zip(before.symbols, after.symbols, strict=True)}
    defined = {"kernel", "kernel__timed"}
    assert {new for old, new in renamed.items() if old != new} == {f"net__3__{name}" for name in defined}
    assert elf.undefined(code) == elf.undefined(with_prefix(code, "net__3__"))
    assert [section for section in after.sections if section.flags] == [each for each in before.sections if each.flags]


def test_bytes_become_an_object(tmp_path: Path) -> None:
    code = compile_program(emit(elementwise("float32", lambda x, y: x + y), for_target("riscv64"))).object_code
    write_bytes_object(tmp_path / "w.o", WEIGHTS.view(np.uint8), "w", like=code)
    written = (tmp_path / "w.o").read_bytes()
    found = elf.parse(written)
    assert found.machine == elf.RISCV64
    assert [symbol for symbol in found.symbols if symbol.name] == [("w", 1, 0)]
    assert found.sections[1] == elf.Section(elf.ALLOCATED, 64, 64, WEIGHTS.tobytes())
    ((start, end),) = constants_ranges(written)
    assert written[start:end] == WEIGHTS.tobytes()
    assert constants_ranges(written[:100]) == constants_ranges(b"") == []
    assert constants_ranges(code) == []


@compiler
@on_this_machine
def test_the_linker_takes_them_without_a_word(tmp_path: Path) -> None:
    from pegbox.codegen.targets.c_compiler import c_compiler

    made = sequence()
    code = with_prefix(made.kernels[0].object_code, "a_")
    (tmp_path / "k.o").write_bytes(code)
    write_bytes_object(tmp_path / "w.o", made.constants, "w", like=code)
    command = [*c_compiler(), "-shared", "-Wl,--fatal-warnings", "k.o", "w.o", "-o", "all.so"]
    done = subprocess.run(command, cwd=tmp_path, check=False, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
