"""The roofline of a machine: how fast it multiplies and adds, reads and copies. Measured once, and kept.

The model is that of Williams, Waterman and Patterson, "Roofline: An Insightful Visual Performance Model for Multicore
Architectures" (CACM 2009). Memory is as fast as the caches that hold as much as an operator's arguments: kernels are
timed warm.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import tempfile
import threading
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from pegbox.codegen.targets.host import describe_host
from pegbox.measure.cores import pin

if TYPE_CHECKING:
    from pegbox.codegen import Kernel, Target

PEAKS = frozenset({"float32", "float64"})
"""The types whose multiply-add peak is measured."""

_VERSION = 1
"""Of the kernels that measure: what older ones have found is measured again."""

_LARGEST = 1 << 27
"""Bytes beyond which memory is no slower."""

_ROUNDS, _ROUND_NS = 7, 1e6


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

    gflops = None
    if dtype in PEAKS:
        kernel, flop = multiply_add_kernel(dtype, target)
        gflops = _rate(kernel, flop, cores)
    read, copy = (_rate(make(nbytes, target), nbytes, cores) for make in (read_kernel, copy_kernel))
    return Roofline(len(cores), gflops, read, copy)


def _rate(kernel: Kernel, work: float, cores: Sequence[int]) -> float:
    """Work per nanosecond, of all cores at once; the best of some rounds: a limit is what is reached undisturbed."""
    sets = [[np.zeros(spec.shape, spec.dtype) for spec in kernel.args] for _ in cores]
    number = max(1, math.ceil(_ROUND_NS / max(min(kernel.time_ns(sets[0], 1) for _ in range(2)), 1)))
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
) -> Roofline | None:
    """What was measured for this machine, target, type and number of cores, at the size of so many bytes.

    Where nothing was, it is what `measure` finds for the size class. It is kept in the user's cache folder. `anew`
    measures again, and keeps the faster of the two.
    """
    size = size_class(nbytes, cores)
    key = f"{describe_host()} | {target} on {cores} | {dtype if dtype in PEAKS else '-'} | {size}"
    known = _read().get(key)
    if known is not None and not anew:
        return known
    found = measure(size)
    if found is None:
        return known
    best = found if known is None else _faster(known, found)
    _write({**_read(), key: best})
    return best


def _faster(one: Roofline, other: Roofline) -> Roofline:
    gflops = None if one.gflops is None or other.gflops is None else max(one.gflops, other.gflops)
    return Roofline(one.cores, gflops, max(one.read, other.read), max(one.copy, other.copy))


def cache_file() -> Path:
    """Where rooflines are kept."""
    root = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(root) / "pegbox" / "roofline.json"


def _read() -> dict[str, Roofline]:
    """What is kept; nothing where the file is missing or damaged: it is measured again then."""
    try:
        form: Any = json.loads(cache_file().read_text(encoding="utf-8"))
        if form["version"] != _VERSION:
            return {}
        return {str(key): Roofline(**held) for key, held in form["rooflines"].items() if _is_sound(held)}
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RuntimeError):
        return {}


def _is_sound(held: dict[str, Any]) -> bool:
    numbers = [value for name, value in held.items() if value is not None or name != "gflops"]
    return all(isinstance(value, int | float) and 0 < value < math.inf for value in numbers)


def _write(rooflines: dict[str, Roofline]) -> None:
    """Replace the file at once; a folder that cannot be written to is no reason to fail."""
    form = {"version": _VERSION, "rooflines": {key: asdict(held) for key, held in rooflines.items()}}
    with contextlib.suppress(OSError, RuntimeError):
        file = cache_file()
        file.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", dir=file.parent, delete=False, encoding="utf-8") as beside:
            json.dump(form, beside)
        os.replace(beside.name, file)
