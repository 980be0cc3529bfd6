"""Targets of random programs: processors of this machine's kind that it can run, and AArch64, whose code is not run."""

from __future__ import annotations

import os
import random
from functools import cache

from processors import OTHERS, runnable

from pegbox.codegen import Target

_DRAWN = ("x86-64", "x86-64-v2", "x86-64-v3", "x86-64-v4", "znver4")
_CORES = 2
ELSEWHERE = Target(f"{OTHERS['aarch64']} -num-cores {_CORES}")
"""AArch64: LLVM makes an object for it."""


@cache
def _here() -> tuple[Target, ...]:
    """The default target first. What PEGBOX_TARGET asks for is drawn alone."""
    default = Target(f"llvm -num-cores {_CORES}")
    if "PEGBOX_TARGET" in os.environ:
        return (default,)
    able = runnable()
    return (default, *(Target(f"llvm -mcpu={name} -num-cores {_CORES}") for name in _DRAWN if name in able))


def draw_target(rng: random.Random) -> Target:
    """Half of all programs are for this machine's own processor, which is what users have."""
    default, *others = _here()
    return rng.choice(others) if others and rng.random() < 0.5 else default
