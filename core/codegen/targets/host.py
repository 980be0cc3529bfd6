"""The host machine: its processor's name and features as LLVM sees them, and the number of usable cores."""

from __future__ import annotations

import os
import platform
from functools import cache


@cache
def cpu_name() -> str:
    from llvmlite import binding  # slow to import, and only this needs it

    return str(binding.get_host_cpu_name())


@cache
def cpu_features() -> tuple[str, ...]:
    """`+avx2`, `-amx-tile`, ...: what the processor (or the virtual machine) really offers."""
    from llvmlite import binding

    return tuple(binding.get_host_cpu_features().flatten().split(","))


@cache
def llvm_version() -> str:
    from llvmlite import binding

    return ".".join(map(str, binding.llvm_version_info))


@cache
def cpu_model() -> str:
    """The processor's name, for people."""
    model = platform.processor() or platform.machine()
    try:
        with open("/proc/cpuinfo") as file:
            named = next((line for line in file if line.startswith("model name")), "")
        model = named.partition(":")[2].strip() or model
    except OSError:
        pass
    return model


@cache
def describe_host() -> str:
    """This machine: its name and its processor."""
    return f"{platform.node()} ({cpu_model()})"


def usable_cores() -> tuple[int, ...]:
    """The numbers of the cores the calling thread may run on, ascending (the affinity mask counts, not the machine)."""
    if hasattr(os, "sched_getaffinity"):
        return tuple(sorted(os.sched_getaffinity(0)))
    return tuple(range(os.cpu_count() or 1))
