"""The host machine: its processor's name and features as LLVM sees them, and the number of usable cores."""

from __future__ import annotations

import importlib.util
import os
import platform
from functools import cache
from typing import Any

from pegbox.codegen.targets.instruction_flags import FLAGS
from pegbox.errors import TargetError

EMULATED = "emulated "
"""How the names of emulated processors start, and so those of their hosts in records."""

_MODEL = ("model name", "uarch")  # keys of /proc/cpuinfo: x86, RISC-V


@cache
def has_llvm() -> bool:
    """Decide whether this machine can compile; if not, it runs code that was compiled elsewhere."""
    return importlib.util.find_spec("llvmlite") is not None


def binding() -> Any:
    """llvmlite.binding, which is slow to import.

    Raises:
        TargetError: this machine has no llvmlite.
    """
    try:
        from llvmlite import binding
    except ImportError as error:
        raise TargetError(
            f"llvmlite is not installed ({error}), so nothing can be compiled here and this machine's processor has no "
            "name: pip install llvmlite, or compile on another machine for a target with -mcpu"
        ) from error
    return binding


@cache
def cpu_name() -> str:
    """LLVM's name of the processor. Raises `TargetError` without llvmlite."""
    return str(binding().get_host_cpu_name())


@cache
def cpu_features() -> tuple[str, ...]:
    """`+avx2`, `-amx-tile`, ...: what the processor (or the virtual machine) really offers.

    Raises `TargetError` without llvmlite.
    """
    return tuple(binding().get_host_cpu_features().flatten().split(","))


@cache
def llvm_version() -> str:
    """Empty without llvmlite."""
    return ".".join(map(str, binding().llvm_version_info)) if has_llvm() else ""


def canonical_architecture(name: str) -> str:
    """One word for the names that an architecture has in triples and elsewhere."""
    plain = name.lower()
    if plain.startswith("riscv64"):
        return "riscv64"
    return {"x86-64": "x86_64", "amd64": "x86_64", "arm64": "aarch64"}.get(plain, plain)


def architecture() -> str:
    """Name the architecture of this process: aarch64, riscv64, x86_64, ..."""
    return canonical_architecture(platform.machine())


@cache
def emulator() -> str:
    """The program that emulates the processor for this process, such as "qemu-aarch64"; empty on a real one.

    QEMU's user mode hides itself in /proc/self and /proc/PID, but not among the tasks.
    """
    try:
        program = os.path.basename(os.readlink(f"/proc/self/task/{os.getpid()}/exe"))
    except OSError:
        return ""
    return program if program.startswith("qemu-") else ""


@cache
def cpu_model() -> str:
    """The processor's name, for people. That of an emulated one starts with `EMULATED`."""
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
    """The processor's instructions in the words of /proc/cpuinfo, sorted; none where it is emulated or tells none."""
    lines = {} if emulator() else _processor_lines()
    return next((tuple(sorted(set(read(lines[key])))) for key, read in FLAGS.items() if key in lines), ())


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
    """This machine: its name and its processor. An emulated one has no other name than that."""
    if emulator():
        return f"{cpu_model()} ({emulator()})"
    return f"{platform.node()} ({cpu_model()})"
