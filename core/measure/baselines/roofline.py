"""The roofline of a machine: the speed of its multiply-adds, reads and copies, measured a few times and kept.

The model is that of Williams, Waterman and Patterson, "Roofline: An Insightful Visual Performance Model for Multicore
Architectures" (CACM 2009). The speed of memory is that of the caches that hold an operator's arguments, because kernels
are timed warm.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from pegbox.codegen.runtime.checked_call import aligned_copy
from pegbox.codegen.targets.host import describe_host
from pegbox.output import write_file
from pegbox.workers.affinity import pin

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from pegbox.codegen import ArgSpec, Kernel, Target

PEAKS = frozenset({"float32", "float64"})
"""The types whose multiply-add peak is measured."""

_VERSION = 3
"""The version of the file and of the kernels that measure; limits of older versions are measured again."""

TIMES = 3
"""The number of searches that measure limits; later ones look them up. A whole search may be disturbed."""

_LARGEST = 1 << 27
"""The size in bytes beyond which memory is no slower."""

_ROUNDS, _ROUND_NS = 3, 1e6

_LEAST_TRIES, _MOST_TRIES = 3, 12
_PAUSE = 0.01
"""The seconds between tries, longer than a scheduler's time slice."""

_AGREE = 0.97
"""The share of the best that a second try reaches if both were undisturbed."""


@dataclass(frozen=True)
class Roofline:
    """The limits of `cores` cores together: `gflops` of multiply-adds (None: unknown for the type), GB/s of memory.

    `read` is for reading alone; `copy` counts the bytes read and the bytes written.
    """

    cores: int
    gflops: float | None
    read: float
    copy: float

    def seconds(self, *, read: float, written: float) -> float:
        """Compute the least seconds to move so many bytes: the smaller number is copied, the rest read or written."""
        both = min(read, written)
        return (2 * both / self.copy + (read - both) / self.read + (written - both) / self.copy) * 1e-9


def size_class(nbytes: float, target: Target, cores: int) -> int:
    """Return the bytes with which to measure each core's memory: the smallest size times a power of four.

    It is at most the core's share. But if it fits into a cache that the share exceeds, it is the next power, which does
    not fit either.
    """
    from pegbox.codegen.runtime.roof_kernels import LEAST_BYTES

    share = min(max(nbytes / cores, LEAST_BYTES), _LARGEST)
    size = LEAST_BYTES << 2 * math.floor(math.log(share / LEAST_BYTES, 4) + 1e-9)
    if any(size <= cache < share for cache in target.caches):
        return min(4 * size, _LARGEST)
    return size


def measure_roofline(dtype: str, nbytes: int, target: Target, cores: Sequence[int]) -> Roofline:
    """Measure the roofline on these cores. `nbytes` are each core's, a `size_class`."""
    from pegbox.codegen.runtime.roof_kernels import copy_kernel, multiply_add_kernel, read_kernel

    meters = [_meter(make(nbytes, target), nbytes, cores) for make in (read_kernel, copy_kernel)]
    if dtype in PEAKS:
        meters.append(_meter(*multiply_add_kernel(dtype, target), cores))
    read, copy, *gflops = best_of_tries(meters)
    return Roofline(len(cores), gflops[0] if gflops else None, read, copy)


def best_of_tries(meters: Sequence[Callable[[], float]]) -> list[float]:
    """Return the best of each meter, in tries with pauses between them, until two tries agree on it."""
    found: list[list[float]] = [[] for _ in meters]
    for turn in range(1, _MOST_TRIES + 1):
        for rates, meter in zip(found, meters, strict=True):
            rates.append(meter())
        if turn >= _LEAST_TRIES and all(sorted(rates)[-2] >= _AGREE * max(rates) for rates in found):
            break
        time.sleep(_PAUSE)
    return [max(rates) for rates in found]


def _meter(kernel: Kernel, work: float, cores: Sequence[int]) -> Callable[[], float]:
    """Make a function that measures the work per nanosecond of all cores at once, in the best of several rounds."""
    sets = [[_written(spec) for spec in kernel.args] for _ in cores]
    number = max(1, math.ceil(_ROUND_NS / max(min(kernel.time_ns(sets[0], 1) for _ in range(2)), 1)))
    together = threading.Barrier(len(cores))
    rates = np.zeros((len(cores), _ROUNDS))

    def measure(place: int) -> None:
        pin([cores[place]])
        for turn in range(_ROUNDS):
            together.wait()
            rates[place, turn] = work * number / kernel.time_ns(sets[place], number)

    def rate() -> float:
        others = [threading.Thread(target=measure, args=(place,)) for place in range(1, len(cores))]
        for thread in others:
            thread.start()
        measure(0)
        for thread in others:
            thread.join()
        return float(rates.sum(axis=0).max())

    return rate


def _written(spec: ArgSpec) -> NDArray[Any]:
    """Make an array of zeros that begins at a cache line, in pages of its own.

    Vectors that span two lines would halve the speed of L1. The system maps all unwritten pages to one
    page of zeros, which would stay in L1.
    """
    return aligned_copy(np.zeros(spec.shape, spec.dtype))


def kept_roofline(
    dtype: str,
    nbytes: float,
    target: Target,
    cores: int,
    measure: Callable[[int], Roofline | None],
    *,
    anew: bool = False,
    host: str = "",
) -> Roofline | None:
    """Find the roofline of this machine (or the one that `host` names), target, type and number of cores, at that size.

    `measure` measures it for the size class, unless that was done `TIMES` times; `anew` measures in any case. The
    fastest result is kept in the user's cache folder.
    """
    size = size_class(nbytes, target, cores)
    key = f"{host or describe_host()} | {target} on {cores} | {dtype if dtype in PEAKS else '-'} | {size}"
    known, times = _read().get(key, (None, 0))
    if times >= TIMES and not anew:
        return known
    found = measure(size)
    if found is None:
        return known
    if known is not None:
        gflops = None if known.gflops is None or found.gflops is None else max(known.gflops, found.gflops)
        found = Roofline(known.cores, gflops, max(known.read, found.read), max(known.copy, found.copy))
    _write({**_read(), key: (found, times + 1)})
    return found


def cache_file() -> Path:
    """Return the path of the file that keeps rooflines."""
    root = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(root) / "pegbox" / "roofline.json"


def _read() -> dict[str, tuple[Roofline, int]]:
    """Read the rooflines and the number of their measurements; empty if the file is missing or damaged."""
    try:
        form: Any = json.loads(cache_file().read_text(encoding="utf-8"))
        if form["version"] != _VERSION:
            return {}
        found = {}
        for key, held in form["rooflines"].items():
            numbers = [value for name, value in held.items() if value is not None or name != "gflops"]
            if all(isinstance(value, int | float) and 0 < value < math.inf for value in numbers):
                times = held.pop("times")
                found[str(key)] = Roofline(**held), times
        return found
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RuntimeError):
        return {}


def _write(rooflines: dict[str, tuple[Roofline, int]]) -> None:
    """Replace the file atomically; a folder that is not writable is not an error."""
    kept = {key: {**asdict(held), "times": times} for key, (held, times) in rooflines.items()}
    with contextlib.suppress(OSError, RuntimeError):
        file = cache_file()
        file.parent.mkdir(parents=True, exist_ok=True)
        write_file(file, json.dumps({"version": _VERSION, "rooflines": kept}))
