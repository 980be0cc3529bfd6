"""Object code in memory without LLVM: what the loader writes into instructions, what it refuses, and where it runs."""

from __future__ import annotations

import ctypes
import errno
import os
import pickle
import struct
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from lowered_programs import PARALLEL, VECTORIZED, elementwise, function, get, loop, put
from processors import for_target, on_this_machine

from pegbox.codegen import CompiledProgram, Target, compile_program, emit, load
from pegbox.codegen.runtime import elf, image
from pegbox.codegen.runtime.image import Image, ImageLayout
from pegbox.codegen.runtime.relocation import AARCH64, ARCHITECTURES, RISCV64, X86_64, Architecture
from pegbox.codegen.runtime.symbols import has_function, process
from pegbox.codegen.targets import host
from pegbox.errors import CompileError, TargetError
from pegbox.expr.intrinsics import call
from pegbox.expr.nodes import Buffer, Expr
from pegbox.loops.nodes import Function, Stmt

ARM = for_target("aarch64", cores=2)
ELF_HERE = pytest.mark.skipif(sys.platform != "linux", reason="object code is not an ELF file here")


def exponentials(target: Target) -> CompiledProgram:
    """A program with constants, and a function of its own that several threads run."""
    a, b = Buffer("a", (4, 21)), Buffer("b", (4, 21))

    def row(i: Expr) -> Stmt:
        return loop("x", 21, lambda x: put(b, i, x, call("exp", get(a, i, x))), VECTORIZED)

    return compile_program(emit(function([a, b], [b], loop("i", 4, row, PARALLEL)), target))


# A rule, an instruction without an address, what is to be written, and what an assembler and a linker wrote: GNU's.
WRITTEN = [
    (AARCH64, 283, "00000094", -0x123454, "eb72fb97"),  # bl .-0x123454
    (AARCH64, 282, "00000014", 0x7FFFFFC, "ffffff15"),  # b .+0x7fffffc
    (AARCH64, 275, "03000090", 0x12345000, "231a09b0"),  # adrp x3, .+0x12345000
    (AARCH64, 274, "03000010", -0x1235, "436eff70"),  # adr x3, .-0x1235
    (AARCH64, 277, "20000091", 0x77777ABC, "20f02a91"),  # add x0, x1, #0xabc
    (AARCH64, 278, "20004039", 0x1ABD, "20f46a39"),  # ldrb w0, [x1, #0xabd]
    (AARCH64, 284, "20004079", 0x1ABC, "20785579"),  # ldrh w0, [x1, #0xabc]
    (AARCH64, 285, "200040bd", 0x1ABC, "20bc4abd"),  # ldr s0, [x1, #0xabc]
    (AARCH64, 286, "200040fd", 0x1AB8, "205c45fd"),  # ldr d0, [x1, #0xab8]
    (AARCH64, 299, "2000c03d", 0x1AB0, "20acc23d"),  # ldr q0, [x1, #0xab0]
    (AARCH64, 280, "01000054", 0xFFFFC, "e1ff7f54"),  # b.ne .+0xffffc
    (AARCH64, 279, "01001836", -0x7FFC, "21001c36"),  # tbz x1, #3, .-0x7ffc
    (AARCH64, 273, "01000058", 0x1234, "a1910058"),  # ldr x1, .+0x1234
    (RISCV64, 23, "17050000", 0x12345FFF, "17653412"),  # auipc a0, 0x12346
    (RISCV64, 23, "17050000", -0x1000, "17f5ffff"),  # auipc a0, 0xfffff
    (RISCV64, 24, "03a50500", 0x12345FFF, "03a5f5ff"),  # lw a0, -1(a1)
    (RISCV64, 25, "23b0a500", 0x5A8, "23b4a55a"),  # sd a0, 0x5a8(a1)
    (RISCV64, 16, "6310b500", -0xABC, "6312b5d4"),  # bne a0, a1, .-0xabc
    (RISCV64, 17, "ef000000", 0x9ABCC, "efa0d93c"),  # jal ra, .+0x9abcc
    (RISCV64, 19, "97000000e7800000", 0x12345FFF, "97603412e780f0ff"),  # auipc ra, 0x12346; jalr -1(ra)
    (X86_64, 4, "00000000", -0x123456, "aacbedff"),
    (X86_64, 1, "0000000000000000", -2, "feffffffffffffff"),
]


@pytest.mark.parametrize(("rules", "kind", "instruction", "value", "expected"), WRITTEN)
def test_an_address_in_an_instruction_is_what_a_linker_writes(
    rules: Architecture, kind: int, instruction: str, value: int, expected: str
) -> None:
    image = bytearray.fromhex(instruction)
    rules.rules[kind].write(image, 0, value)
    assert image.hex() == expected


@pytest.mark.parametrize(
    ("rules", "kind", "value"),
    [(AARCH64, 283, 1 << 27), (AARCH64, 282, 2), (AARCH64, 275, 1 << 32), (AARCH64, 299, 8), (RISCV64, 23, 1 << 31),
     (RISCV64, 16, 4096), (RISCV64, 17, 1), (X86_64, 4, 1 << 31)],
)  # fmt: skip
def test_what_does_not_fit_into_an_instruction_is_refused(rules: Architecture, kind: int, value: int) -> None:
    image = bytearray(8)
    with pytest.raises(ValueError, match=r"too far|not a multiple"):
        rules.rules[kind].write(image, 0, value)
    assert image == bytes(8)


@pytest.mark.parametrize("processor", ["x86-64", "haswell", "aarch64", "riscv64", "riscv64-vector"])
def test_programs_of_each_architecture_are_laid_out_and_linked(processor: str) -> None:
    compiled = exponentials(for_target(processor, cores=2))
    code = elf.parse(compiled.object_code)
    layout = ImageLayout.of(code)
    imports = dict.fromkeys(elf.undefined(compiled.object_code), 0x7000_0000_1234_5678)
    base = 0x5555_0000_0000
    image = layout.linked(base, imports)
    assert len(image) == layout.size
    for number, start in layout.sections.items():
        assert start % code.sections[number].alignment == 0
    # Each function from elsewhere has a jump, and the jump has its address.
    called = {code.symbols[number].name for number in layout.stubs}
    assert called == {"GOMP_parallel", "clock_gettime", "omp_get_num_threads", "omp_get_thread_num"}
    for start in layout.stubs.values():
        assert struct.unpack_from("<Q", image, start + len(layout.architecture.stub) - 8) == (0x7000_0000_1234_5678,)
    assert layout.linked(base + 0x10000, imports)[: layout.ends[0]] == image[: layout.ends[0]]  # code stays as it is


def test_a_load_of_a_constant_on_aarch64_finds_it() -> None:
    """The pair of instructions that makes an address, taken apart as the processor does it."""
    object_code = exponentials(ARM).object_code
    code = elf.parse(object_code)
    layout = ImageLayout.of(code)
    image = layout.linked(0x10000, dict.fromkeys(elf.undefined(object_code), 0))
    pairs = 0
    pages: dict[int, int] = {}
    for each in code.relocations:
        place = layout.sections[each.section] + each.offset
        (word,) = struct.unpack_from("<I", image, place)
        wanted = layout.place(each.symbol) + each.addend if code.symbols[each.symbol].section else None
        if each.kind == 275:
            immediate = (word >> 29 & 3) | (word >> 5 & 0x7FFFF) << 2
            pages[each.symbol] = (place >> 12) + immediate
        elif each.kind in (277, 285, 286, 299) and wanted is not None:
            scale = {277: 1, 285: 4, 286: 8, 299: 16}[each.kind]
            assert (pages[each.symbol] << 12) + (word >> 10 & 0xFFF) * scale == wanted
            pairs += 1
    assert pairs


@on_this_machine
@ELF_HERE
def test_code_runs_in_a_process_without_llvmlite(tmp_path: Path) -> None:
    """A worker of a cluster needs NumPy and pegbox: the runner's modules import without llvmlite, and kernels run."""
    (tmp_path / "compiled").write_bytes(pickle.dumps(exponentials(Target.host(num_cores=1))))
    program = """
import pickle, sys
from pathlib import Path
for name in ("llvmlite", "scipy", "xgboost", "rich", "ml_dtypes", "pluggy", "typing_extensions"):
    sys.modules[name] = None
import numpy as np
import pegbox.plugins.runners.local
from pegbox.codegen import load
from pegbox.measure.jobs.run_job import warm_up
warm_up()
kernel = load(pickle.loads(Path(sys.argv[1]).read_bytes()))
a = np.linspace(-3, 3, 84, dtype=np.float32).reshape(4, 21)
b = np.zeros_like(a)
kernel(a, b)
np.testing.assert_allclose(b, np.exp(a), rtol=1e-5)
assert kernel.time_ns([a, b], 3) > 0
"""
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "compiled")], capture_output=True, text=True, check=False
    )
    assert not done.returncode, done.stderr


@on_this_machine
@ELF_HERE
def test_threads_of_a_kernel_are_called_through_their_jumps() -> None:
    kernel = load(exponentials(Target.host(num_cores=2)))
    a = np.linspace(-3, 3, 84, dtype=np.float32).reshape(4, 21)
    b = np.zeros_like(a)
    kernel(a, b)
    np.testing.assert_allclose(b, np.exp(a), rtol=1e-5)


@pytest.mark.skipif("PEGBOX_EMULATE" in os.environ, reason="an emulator runs it")
def test_code_of_another_architecture_is_not_loaded() -> None:
    other = "aarch64" if host.architecture() != "aarch64" else "x86-64"
    with pytest.raises(TargetError, match=r"was compiled for .*-unknown-linux-gnu and cannot run on this machine"):
        load(compile_program(emit(doubled(), for_target(other))))


def doubled() -> Function:
    return elementwise("float32", lambda x, y: x + x)


def test_a_function_that_is_nowhere_is_named() -> None:
    code = exponentials(ARM).object_code
    with pytest.raises(ValueError, match=r"it calls \w+, which was not found"):
        ImageLayout.of(elf.parse(code)).linked(0, {"clock_gettime": 1})


def test_a_relocation_that_is_not_known_is_refused() -> None:
    code = elf.parse(exponentials(ARM).object_code)
    text = next(n for n, section in enumerate(code.sections) if section.flags & elf.EXECUTABLE)
    strange = elf.Relocation(section=text, offset=0, kind=300, symbol=1, addend=0)
    with pytest.raises(ValueError, match="a relocation of kind 300, which is not supported"):
        ImageLayout.of(code._replace(relocations=(strange,)))
    with pytest.raises(ValueError, match="relocations of machine 8 are not supported"):
        ImageLayout.of(code._replace(machine=8))


def test_damaged_object_code_is_refused() -> None:
    """Whatever byte of the headers is another: it is refused, or gives an image; nothing else is raised."""
    whole = compile_program(emit(doubled(), for_target("riscv64"))).object_code
    imports = dict.fromkeys(elf.undefined(whole), 0)
    refused = 0
    for place in [*range(0, 64), *range(len(whole) - 64 * 8, len(whole), 3)]:
        broken = bytearray(whole)
        broken[place] ^= 0xFF
        try:
            layout = ImageLayout.of(elf.parse(bytes(broken)))
            if layout.size < 1 << 24:
                layout.linked(0, imports)
        except (ValueError, struct.error):
            refused += 1
    assert refused > 20
    with pytest.raises(ValueError, match="is not a 64-bit little-endian ELF file"):
        elf.parse(b"MZ")


@on_this_machine
@ELF_HERE
def test_an_image_says_what_it_lacks() -> None:
    compiled = compile_program(emit(doubled(), Target.host(num_cores=1)))
    loaded = Image(compiled.object_code, {"clock_gettime": 1})
    assert loaded.address(compiled.name) != loaded.address(f"{compiled.name}__timed")
    with pytest.raises(ValueError, match="it has no symbol nothing"):
        loaded.address("nothing")
    with pytest.raises(CompileError, match=r"another: the object code cannot be loaded: it has no symbol another"):
        load(compiled._replace(name="another"))


@on_this_machine
@ELF_HERE
@pytest.mark.parametrize("fails", ["mmap", "mprotect"])
def test_memory_that_cannot_be_had_is_reported_with_the_remedy(fails: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def none(*arguments: object, **options: object) -> int:
        raise OSError(errno.ENOMEM, os.strerror(errno.ENOMEM))

    def refused(*arguments: object) -> int:
        ctypes.set_errno(errno.ENOMEM)
        return -1

    code = compile_program(emit(doubled(), Target.host(num_cores=1))).object_code
    if fails == "mmap":
        monkeypatch.setattr(image.mmap, "mmap", none)
    else:
        monkeypatch.setattr(image.ctypes, "CDLL", lambda *_, **options: SimpleNamespace(mprotect=refused))
    with pytest.raises(OSError, match=r"Errno 12.*sysctl -w vm\.max_map_count="):
        Image(code, {"clock_gettime": 1})


def test_every_architecture_has_a_jump_that_ends_with_its_address() -> None:
    for architecture in ARCHITECTURES.values():
        assert architecture.stub.endswith(bytes(8))
        assert len(architecture.stub) % 8 == 0


def test_attributes_of_a_library_object_are_not_its_functions() -> None:
    assert has_function(process(), "malloc")
    assert not has_function(process(), "_handle")
