"""The host machine: the name and the features of its processor, as LLVM and the system report them."""

from __future__ import annotations

import importlib.util
import os
import platform
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from typing import Any

from pegbox.errors import TargetError

EMULATED = "emulated "
"""The beginning of emulated processors' names, and so of their hosts' names in records."""

_MODEL = ("model name", "uarch")  # keys of /proc/cpuinfo: x86, RISC-V


_X86 = """
    3dnow 3dnowext 3dnowprefetch abm adx aes apx bmi1 bmi2 clflushopt clwb clzero cmov cmpccxadd cx16 cx8 f16c fma fma4
    fxsr gfni lahf_lm lwp mmx mmxext movbe movdir64b movdiri pclmulqdq pni popcnt prefetchi raoint rdpid rdrand rdseed
    sha512 sha_ni sm3 sm4 ssse3 tbm vaes vpclmulqdq xop xsave xsavec xsaveopt
"""
"""The x86 features that LLVM knows and the kernel does not turn off, in the words of its cpufeatures.h."""

_X86_FAMILIES = ("amx", "avx", "sse")
"""The families whose features are all instructions, including those of later processors."""

_NOT_AARCH64 = "bti cpuid evtstrm gcs mte mte3 mtefar mtestoreonly paca pacg poe ssbs"
"""The AArch64 words that are not instructions for candidates: the kernel's events and identity registers, and the
protection of memory and of returns."""

_NOT_RISCV = ("s", "h", "zaamo", "zalrsc", "zca", "zcd", "zicb", "zicc", "zicn", "zics", "zif", "zih", "zmmul", "zve")
"""The beginnings of RISC-V extensions that only the kernel uses, that are parts of a, c, i, m or v, or that concern
caches and hints; newer kernels list more of them."""

_NOT_LETTERS = "shu"
"""The letters that old kernels append for the processor's modes."""


def _riscv(words: str) -> Iterator[str]:
    """Yield the extensions of "rv64imafdcv_zba_zbb", one by one; "g" means "imafd"."""
    first, *others = words.lower().split("_")
    base = re.match(r"rv\d+", first)
    if base is not None:
        yield base[0]
        letters = first[base.end() :].replace("g", "imafd")
        yield from (letter for letter in letters if letter not in _NOT_LETTERS)
    yield from (word for word in others if not word.startswith(_NOT_RISCV))


_FLAGS: Mapping[str, Callable[[str], Iterable[str]]] = {
    "flags": lambda text: (word for word in text.split() if word in _X86.split() or word.startswith(_X86_FAMILIES)),
    "Features": lambda text: set(text.split()).difference(_NOT_AARCH64.split()),
    "isa": _riscv,
}
"""The functions that pick instructions out of a line, by the line's key: x86, AArch64, RISC-V.

The other words depend on the kernel, so equal processors with different kernels differ in them.
"""


@cache
def has_llvm() -> bool:
    """Decide if this machine can compile; if not, it can still run code that was compiled elsewhere."""
    return importlib.util.find_spec("llvmlite") is not None


def binding() -> Any:
    """Import llvmlite.binding, which is slow.

    Raises:
        TargetError: this machine has no llvmlite.
    """
    try:
        from llvmlite import binding
    except ImportError as error:
        raise TargetError(
            f"llvmlite is not installed ({error}), so nothing can be compiled here and the name of this machine's "
            "processor is unknown: pip install llvmlite, or compile on another machine for a target with -mcpu"
        ) from error
    return binding


@cache
def cpu_name() -> str:
    """Return LLVM's name for the processor. Raises `TargetError` without llvmlite."""
    return str(binding().get_host_cpu_name())


@cache
def cpu_features() -> tuple[str, ...]:
    """List the features that the processor (or the virtual machine) has and lacks: `+avx2`, `-amx-tile`, ...

    Raises `TargetError` without llvmlite.
    """
    return tuple(binding().get_host_cpu_features().flatten().split(","))


@cache
def llvm_version() -> str:
    """Return LLVM's version; empty without llvmlite."""
    return ".".join(map(str, binding().llvm_version_info)) if has_llvm() else ""


def canonical_architecture(name: str) -> str:
    """Return one word for all names of an architecture in triples and elsewhere."""
    plain = name.lower()
    if plain.startswith("riscv64"):
        return "riscv64"
    return {"x86-64": "x86_64", "amd64": "x86_64", "arm64": "aarch64"}.get(plain, plain)


def architecture() -> str:
    """Name the architecture of this process: aarch64, riscv64, x86_64, ..."""
    return canonical_architecture(platform.machine())


@cache
def emulator() -> str:
    """Name the program that emulates the processor for this process, such as "qemu-aarch64"; empty on a real processor.

    QEMU's user mode hides itself in /proc/self and /proc/PID, but not under the tasks.
    """
    try:
        program = os.path.basename(os.readlink(f"/proc/self/task/{os.getpid()}/exe"))
    except OSError:
        return ""
    return program if program.startswith("qemu-") else ""


@cache
def cpu_model() -> str:
    """Return the processor's name, for display. An emulated processor's name starts with `EMULATED`."""
    if emulator():
        return f"{EMULATED}{architecture()}"
    lines = _processor_lines()
    if named := next((lines[key] for key in _MODEL if lines.get(key)), ""):
        return named
    if "CPU part" in lines:
        return f"{architecture()} {lines.get('CPU implementer', '')}/{lines['CPU part']}"
    return platform.processor() or platform.machine()


@cache
def cpu_flags() -> tuple[str, ...]:
    """List the processor's instructions in the words of /proc/cpuinfo, sorted; none for an emulated processor."""
    lines = {} if emulator() else _processor_lines()
    return next((tuple(sorted(set(read(lines[key])))) for key, read in _FLAGS.items() if key in lines), ())


def _processor_lines() -> dict[str, str]:
    """Read the lines of /proc/cpuinfo about the first processor."""
    found: dict[str, str] = {}
    try:
        with open("/proc/cpuinfo") as file:
            for line in file:
                key, _, value = line.partition(":")
                found.setdefault(key.strip(), value.strip())
    except OSError:
        pass
    return found


@cache
def describe_host() -> str:
    """Name this machine and its processor; for an emulated machine, the processor and the emulator."""
    if emulator():
        return f"{cpu_model()} ({emulator()})"
    return f"{platform.node()} ({cpu_model()})"


def processor_of(host: str) -> str:
    """Return the processor in a machine's `name (processor)`; return a cluster's kind unchanged."""
    _, bracket, processor = host.partition(" (")
    return processor.removesuffix(")") if bracket else host
