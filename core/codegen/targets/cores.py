"""The processor cores that this process may use."""

from __future__ import annotations

import math
from collections.abc import Sequence

from pegbox.codegen.targets.cpu_quota import cpu_quota
from pegbox.workers.affinity import affinity_mask


def usable_cores() -> tuple[int, ...]:
    """The numbers of the cores to use, ascending: those of the affinity mask, but no more than the CPU quota pays for.

    A container with a quota of 2.5 processors may run on all cores of its host. Threads on more than two of them use
    the quota up before its period ends, and then all of them wait for the next one, which timings would show.
    """
    mask = affinity_mask()
    quota = cpu_quota()
    if quota >= len(mask):
        return mask
    return tuple(sorted(apart_first(mask)[: max(1, math.floor(quota))]))


def apart_first(cores: Sequence[int]) -> tuple[int, ...]:
    """Order the cores so that hyperthreads of one physical core come together only when all others are taken."""
    ranks = {core: sum(other < core for other in siblings(core).intersection(cores)) for core in cores}
    return tuple(sorted(cores, key=lambda core: (ranks[core], core)))


def siblings(core: int) -> frozenset[int]:
    """The hyperthreads of the same physical core, from Linux's topology files; empty where they cannot be read."""
    try:
        with open(f"/sys/devices/system/cpu/cpu{core}/topology/thread_siblings_list") as file:
            text = file.read().strip()
        found: set[int] = set()
        for part in text.split(","):
            first, _, last = part.partition("-")
            found.update(range(int(first), int(last or first) + 1))
    except (OSError, ValueError):
        return frozenset()
    return frozenset(found)
