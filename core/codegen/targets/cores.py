"""The processor cores that this process may use, by its affinity mask and by the CPU quota of its container."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path, PurePosixPath

from pegbox.workers.affinity import affinity_mask

MEMBERSHIP = "/proc/self/cgroup"
MOUNTS = "/proc/self/mountinfo"


def usable_cores() -> tuple[int, ...]:
    """List the cores to use, ascending: those of the affinity mask, but no more than the CPU quota covers.

    A container with a quota of 2.5 processors may run on all cores of its host. Threads on more than two of them use up
    the quota before its period ends, and then all of them wait for the next period, which would distort timings.
    """
    mask = affinity_mask()
    quota = cpu_quota()
    if quota >= len(mask):
        return mask
    return tuple(sorted(apart_first(mask)[: max(1, math.floor(quota))]))


def apart_first(cores: Sequence[int]) -> tuple[int, ...]:
    """Order the cores so that hyperthreads share a physical core only when all physical cores are taken."""
    ranks = {core: sum(other < core for other in siblings(core).intersection(cores)) for core in cores}
    return tuple(sorted(cores, key=lambda core: (ranks[core], core)))


def siblings(core: int) -> frozenset[int]:
    """Find the hyperthreads of the same physical core in Linux's topology files; empty if these cannot be read."""
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


@cache
def cpu_quota() -> float:
    """Read the CPU quota of this process's control group, in processors: for example 1.5, or infinity without a quota.

    Both versions of Linux's control groups are read, once per process. The smallest of the quotas of a group and of the
    groups around it counts. Docker's `--cpus` and Kubernetes's CPU limits are such quotas.
    """
    return min(_quotas(), default=math.inf)


def _quotas() -> Iterator[float]:
    try:
        mounts = [_Mount(line) for line in Path(MOUNTS).read_text().splitlines()]
        lines = (line.split(":", 2) for line in Path(MEMBERSHIP).read_text().splitlines())
        groups = [(controllers, path) for _, controllers, path in lines]
    except (OSError, ValueError, IndexError):
        return
    for controllers, path in groups:
        wanted = "cpu" if controllers else ""
        if wanted not in controllers.split(","):
            continue
        for mount in mounts:
            if mount.controls(wanted):
                yield from (quota for folder in mount.folders(path) if (quota := _read(folder)) is not None)


class _Mount:
    """A line of the mount table: `36 35 98:0 /root /point options - type source super-options`."""

    def __init__(self, line: str) -> None:
        before, _, after = line.partition(" - ")
        self.root, self.point = before.split()[3:5]
        self.kind, self.options = after.split()[0], after.split()[-1]

    def controls(self, controller: str) -> bool:
        """Decide if the controller's groups are mounted here; the empty name means those of version 2."""
        if not controller:
            return self.kind == "cgroup2"
        return self.kind == "cgroup" and controller in self.options.split(",")

    def folders(self, group: str) -> Iterator[Path]:
        """Yield the folders of a group and of the groups around it, as far as they are mounted."""
        try:
            inner = PurePosixPath(group).relative_to(self.root)
        except ValueError:  # a container may see its group's path on the host, but have only its own group mounted
            inner = PurePosixPath()
        for part in (inner, *inner.parents):
            yield Path(self.point, part)


def _read(folder: Path) -> float | None:
    """Read one group's quota; None if it has no quota."""
    try:
        if (limit := folder / "cpu.max").exists():
            quota, period = limit.read_text().split()
        else:
            quota, period = ((folder / f"cpu.cfs_{name}_us").read_text().strip() for name in ("quota", "period"))
        return float(quota) / float(period) if quota not in ("max", "-1") else None
    except (OSError, ValueError, ZeroDivisionError):
        return None
