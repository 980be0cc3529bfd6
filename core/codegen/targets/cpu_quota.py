"""The CPU quota of this process's control group: how much processor time a container may use."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cache
from pathlib import Path, PurePosixPath

MEMBERSHIP = "/proc/self/cgroup"
MOUNTS = "/proc/self/mountinfo"


@cache
def cpu_quota() -> float:
    """Read the processors' worth of time that this process may use, 1.5 for example; infinite without a quota.

    Both versions of Linux's control groups are read, once for each process: a group's own quota and those of the groups
    around it, of which the least counts. Docker's `--cpus` and Kubernetes's CPU limits are such quotas.
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
    """A line of the table of mounts: `36 35 98:0 /root /point options - type source super-options`."""

    def __init__(self, line: str) -> None:
        before, _, after = line.partition(" - ")
        self.root, self.point = before.split()[3:5]
        self.kind, self.options = after.split()[0], after.split()[-1]

    def controls(self, controller: str) -> bool:
        """Tell whether the controller's groups are here; the empty name means those of version 2."""
        if not controller:
            return self.kind == "cgroup2"
        return self.kind == "cgroup" and controller in self.options.split(",")

    def folders(self, group: str) -> Iterator[Path]:
        """Yield the folder of a group and those of the groups around it, as far as they are mounted."""
        try:
            inner = PurePosixPath(group).relative_to(self.root)
        except ValueError:  # a container may see its group's path on the host, and only its own group mounted
            inner = PurePosixPath()
        for part in (inner, *inner.parents):
            yield Path(self.point, part)


def _read(folder: Path) -> float | None:
    """Read one group's quota; None where it has none."""
    try:
        if (limit := folder / "cpu.max").exists():
            quota, period = limit.read_text().split()
        else:
            quota, period = ((folder / f"cpu.cfs_{name}_us").read_text().strip() for name in ("quota", "period"))
        return float(quota) / float(period) if quota not in ("max", "-1") else None
    except (OSError, ValueError, ZeroDivisionError):
        return None
