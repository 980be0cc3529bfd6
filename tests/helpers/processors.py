"""Targets that tests make code for, whatever this machine is: which of them it can run, and what others assemble to."""

from __future__ import annotations

import os
import platform

import pytest

from pegbox.codegen import Program, Target, compile_program
from pegbox.codegen.runtime.elf import undefined
from pegbox.codegen.targets import features, host

on_this_machine = pytest.mark.skipif(
    "-mtriple" in os.environ.get("PEGBOX_TARGET", ""), reason="is about code in this process"
)
# What every C library has, and an OpenMP runtime.
PROVIDED = {
    "clock_gettime", "memset", "memcpy", "memmove", "GOMP_parallel", "omp_get_thread_num", "omp_get_num_threads",
    *(name + suffix for name in ("floor", "ceil", "roundeven", "fma") for suffix in ("", "f")),
    "_GLOBAL_OFFSET_TABLE_",
}  # fmt: skip
# x86 processors from the plainest on, with the newest feature of Intel's that code for them uses.
X86 = {
    "x86-64": "", "x86-64-v2": "sse4.2", "nehalem": "sse4.2", "sandybridge": "avx", "ivybridge": "f16c",
    "haswell": "avx2", "x86-64-v3": "avx2", "znver3": "avx2", "x86-64-v4": "avx512vl", "znver4": "avx512bf16",
    "sapphirerapids": "avx512fp16",
}  # fmt: skip
OTHERS = {
    "aarch64": "llvm -mtriple=aarch64-unknown-linux-gnu",
    "riscv64": "llvm -mtriple=riscv64-unknown-linux-gnu -mattr=+m,+a,+f,+d,+c",
    "riscv64-vector": "llvm -mtriple=riscv64-unknown-linux-gnu -mattr=+m,+a,+f,+d,+c,+v",
}


def for_target(name: str, *, cores: int = 1) -> Target:
    text = OTHERS.get(name) or f"llvm -mtriple=x86_64-unknown-linux-gnu -mcpu={name}"
    return Target(f"{text} -num-cores {cores}")


def runnable() -> dict[str, Target]:
    """Return the processor that tests run on anyway, and the older processors of this machine's kind."""
    found = {"default": Target("llvm -num-cores 1")}
    if platform.machine() in ("x86_64", "AMD64"):
        all_named = {name: Target(f"llvm -mcpu={name} -num-cores 1") for name in X86}
        offered = host.cpu_features()
        found |= {name: target for name, target in all_named.items() if not features.missing_features(target, offered)}
    return found


def missing_functions(program: Program) -> set[str]:
    """Return the functions that the object code of a program calls and that no C library promises."""
    compiled = compile_program(program)
    return set(undefined(compiled.object_code)) - PROVIDED - set(compiled.externs)
