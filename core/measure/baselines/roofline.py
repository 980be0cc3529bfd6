"""The roofline of a machine: how fast it multiplies and adds, reads and copies. Measured a few times, and kept.

The model is that of Williams, Waterman and Patterson, "Roofline: An Insightful Visual Performance Model for Multicore
Architectures" (CACM 2009). Memory is as fast as the caches that hold as much as an operator's arguments: kernels are
timed warm.
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

from pegbox.codegen.targets.host import describe_host
from pegbox.output import write_file
from pegbox.workers.affinity import pin

if TYPE_CHECKING:
    from pegbox.codegen import Kernel, Target

PEAKS = frozenset({"float32", "float64"})
"""The types whose multiply-add peak is measured."""

_VERSION = 2
"""Of the file and the kernels that measure: what older ones have found is measured again."""

TIMES = 3
"""How often limits are measured before they are only looked up: in so many searches, as a core may be disturbed for as
long as one takes."""

_LARGEST = 1 << 27
"""Bytes beyond which memory is no slower."""

_ROUNDS, _ROUND_NS = 3, 1e6

_LEAST_TRIES, _MOST_TRIES = 3, 12
_PAUSE = 0.01
"""Seconds between tries: a scheduler's slice has passed by then."""

_AGREE = 0.97
"""Of the best. A limit that two tries come so close to was reached undisturbed."""


@dataclass(frozen=True)
class Roofline:
    """Limits of `cores` cores together: `gflops` of multiply-adds (None: not known for the type), GB/s of memory.

    `read` is that of reading alone; `copy` counts what is read and what is written.
    """

    cores: int
    gflops: float | None
    read: float
    copy: float

    def seconds(self, *, read: float, written: float) -> float:
        """The least that moving so many bytes takes: as many are copied as both have, the rest is read or written."""
        both = min(read, written)
        return (2 * both / self.copy + (read - both) / self.read + (written - both) / self.copy) * 1e-9


def size_class(nbytes: float, cores: int) -> int:
    """The bytes that each core's memory is measured with: a power of four, no more than its share."""
    from pegbox.codegen.runtime.peak import LEAST_BYTES

    share = min(max(nbytes / cores, LEAST_BYTES), _LARGEST)
    return LEAST_BYTES << 2 * math.floor(math.log(share / LEAST_BYTES, 4) + 1e-9)


def measure_roofline(dtype: str, nbytes: int, target: Target, cores: Sequence[int]) -> Roofline:
    """The roofline on these cores. `nbytes` are each core's, a `size_class`."""
    from pegbox.codegen.runtime.peak import copy_kernel, multiply_add_kernel, read_kernel

    meters = [_meter(make(nbytes, target), nbytes, cores) for make in (read_kernel, copy_kernel)]
    if dtype in PEAKS:
        meters.append(_meter(*multiply_add_kernel(dtype, target), cores))
    read, copy, *gflops = best_of_tries(meters)
    return Roofline(len(cores), gflops[0] if gflops else None, read, copy)


def best_of_tries(meters: Sequence[Callable[[], float]], rest: Callable[[float], object] = time.sleep) -> list[float]:
    """The most that each meter says, in tries that stand apart: as many as it takes until two of them agree on it."""
    found: list[list[float]] = [[] for _ in meters]
    for turn in range(1, _MOST_TRIES + 1):
        for rates, meter in zip(found, meters, strict=True):
            rates.append(meter())
        if turn >= _LEAST_TRIES and all(sorted(rates)[-2] >= _AGREE * max(rates) for rates in found):
            break
        rest(_PAUSE)
    return [max(rates) for rates in found]


def _meter(kernel: Kernel, work: float, cores: Sequence[int]) -> Callable[[], float]:
    """Says in each call the work per nanosecond, of all cores at once."""
    sets = [[np.zeros(spec.shape, spec.dtype) for spec in kernel.args] for _ in cores]
    number = max(1, math.ceil(_ROUND_NS / max(min(kernel.time_ns(sets[0], 1) for _ in range(2)), 1)))
    return lambda: _rate(kernel, work, sets, number, cores)


def _rate(
    kernel: Kernel, work: float, sets: Sequence[Sequence[np.ndarray]], number: int, cores: Sequence[int]
) -> float:
    """The best of some rounds: a limit is what is reached undisturbed."""
    if len(cores) == 1:
        pin(cores)
        return max(work * number / kernel.time_ns(sets[0], number) for _ in range(_ROUNDS))
    together = threading.Barrier(len(cores))
    rates = np.zeros((len(cores), _ROUNDS))

    def measure(place: int) -> None:
        pin([cores[place]])
        for turn in range(_ROUNDS):
            together.wait()
            rates[place, turn] = work * number / kernel.time_ns(sets[place], number)

    threads = [threading.Thread(target=measure, args=(place,)) for place in range(len(cores))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return float(rates.sum(axis=0).max())


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
    """Find the roofline measured for this machine (or the one that `host` names), target, type and number of cores, at
    that size in bytes; measure it where there is none.

    Where that was fewer than `TIMES` times, `measure` does so again for the size class, and the fastest is kept, in the
    user's cache folder. `anew` measures in any case.
    """
    size = size_class(nbytes, cores)
    key = f"{host or describe_host()} | {target} on {cores} | {dtype if dtype in PEAKS else '-'} | {size}"
    known, times = _read().get(key, (None, 0))
    if times >= TIMES and not anew:
        return known
    found = measure(size)
    if found is None:
        return known
    best = found if known is None else _faster(known, found)
    _write({**_read(), key: (best, times + 1)})
    return best


def _faster(one: Roofline, other: Roofline) -> Roofline:
    gflops = None if one.gflops is None or other.gflops is None else max(one.gflops, other.gflops)
    return Roofline(one.cores, gflops, max(one.read, other.read), max(one.copy, other.copy))


def cache_file() -> Path:
    """Name the file that keeps rooflines."""
    root = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(root) / "pegbox" / "roofline.json"


def _read() -> dict[str, tuple[Roofline, int]]:
    """Read the rooflines and the number of their measurements; nothing where the file is missing or damaged."""
    try:
        form: Any = json.loads(cache_file().read_text(encoding="utf-8"))
        if form["version"] != _VERSION:
            return {}
        return {
            str(key): (Roofline(**{name: value for name, value in held.items() if name != "times"}), held["times"])
            for key, held in form["rooflines"].items()
            if _is_sound(held)
        }
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RuntimeError):
        return {}


def _is_sound(held: dict[str, Any]) -> bool:
    numbers = [value for name, value in held.items() if value is not None or name != "gflops"]
    return all(isinstance(value, int | float) and 0 < value < math.inf for value in numbers)


def _write(rooflines: dict[str, tuple[Roofline, int]]) -> None:
    """Replace the file at once; a folder that cannot be written to is no reason to fail."""
    form = {
        "version": _VERSION,
        "rooflines": {key: {**asdict(held), "times": times} for key, (held, times) in rooflines.items()},
    }
    with contextlib.suppress(OSError, RuntimeError):
        file = cache_file()
        file.parent.mkdir(parents=True, exist_ok=True)
        write_file(file, json.dumps(form))
