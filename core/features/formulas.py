"""The formulas of the features, over the numbers of `pegbox.features.describe`.

Sizes are logarithms to base 2, and traffic is in bytes for each operation, so that their meaning does not depend on the
shape or the template. The units are those of the machine: vectors for operations, registers for tiles, caches for
footprints. So a number means the same on machines that differ in these.

Sources: the features of Ansor (Zheng et al., OSDI 2020: extents and annotations, arithmetic intensity sampled along the
loops, touched bytes and lines, allocations), the context relations of AutoTVM (Chen et al., NeurIPS 2018: reuse and
touched memory at thresholds, independent of the depth of the nest), and the autoscheduler of Halide (Adams et al.,
SIGGRAPH 2019: lines and pages touched per tile, vectors loaded per operation, work of copies, parallel tasks).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pegbox.codegen.targets.cpus import LINE, Caches
from pegbox.codegen.targets.target import Target
from pegbox.features.describe import DEPTH, GROUPS, LAYOUT
from pegbox.features.graph import Floats

WORK = {f"2^{bits}": float(1 << bits) for bits in (2, 6, 10, 14, 18)}
"""The numbers of iterations of the main computation's body, in vectors, at which footprints are sampled."""

Features = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Machine:
    """The units of features: `vector` bytes, `registers` of them, `caches` in bytes, cores."""

    vector: int
    registers: int
    caches: Caches
    cores: int

    @classmethod
    def of(cls, target: Target) -> Machine:
        """Describe the machine of a target."""
        return cls(target.vector_bits // 8, target.vector_registers, target.caches, target.num_cores)

    @property
    def lanes(self) -> int:
        """The number of elements of a vector, with four bytes each."""
        return self.vector // 4

    @property
    def capacities(self) -> dict[str, int]:
        """The bytes of registers, caches, and a part of L2, since operands share it."""
        l1, l2, l3 = self.caches
        return {
            "registers": self.registers * self.vector,
            "L1": l1,
            "L2/4": max(l2 // 4, 1),
            "L2": l2,
            "L3": max(l3, l2),
        }


class Numbers:
    """The columns of `describe` by name: arrays of shape (rows,), or (levels, rows)."""

    def __init__(self, columns: Floats) -> None:
        self._columns = columns

    def __getattr__(self, name: str) -> Floats:
        return self[name]

    def __getitem__(self, name: str) -> Floats:
        place = LAYOUT[name]
        return self._columns[place] if place.stop - place.start > 1 else self._columns[place.start]


def compute(columns: Floats, machine: Machine) -> dict[str, Floats]:
    """Compute features by name, arrays of shape (rows,), from columns of shape (WIDTH, rows)."""
    numbers = Numbers(columns)
    operations = np.maximum(numbers.flop, 1.0) * numbers.points / machine.lanes
    found = _loops(numbers, machine) | _tile(numbers, machine) | _threads(numbers, machine.cores)
    curves = _Curves(numbers, machine)
    found |= curves.traffic(operations) | curves.samples()
    for group in GROUPS:
        found |= _group(numbers, group, operations)
    return found | _program(numbers, operations, machine)


def _log(values: Floats) -> Floats:
    """Take the logarithm of 1 + a size."""
    return np.asarray(np.log2(1.0 + values))


def _ratio(a: Floats, b: Floats) -> Floats:
    """Take the logarithm of a quotient of sizes; zero counts as a millionth."""
    return np.asarray(np.log2(np.maximum(a / np.maximum(b, 1.0), 1e-6)))


def _share(sizes: Floats, whole: float) -> Floats:
    """Take the logarithm of a size in units of the whole."""
    return np.asarray(np.log2((1.0 + sizes) / whole))


def _loops(n: Numbers, machine: Machine) -> dict[str, Floats]:
    return {
        "main.points": _log(n.points),
        "main.flop_per_point": n.flop,
        "main.is_reduction": n.reduced,
        "main.waste": _ratio(n.computed, n.points),
        "main.overshoot": _ratio(n.runs, n.points),
        "main.loops": (n.extents > 1).sum(axis=0).astype(np.float64),
        "vector.length": _share(n.vector, machine.lanes),
        "vector.registers": n.wide,
        "vector.loops": n.vector_loops,
        "unroll.product": _log(n.unrolled),
        "unroll.loops": n.unroll_loops,
        "unroll.max_step": _log(n.steps),
        "reads.contiguous": n.contiguous,
        "reads.repeated": n.repeated,
        "reads.strided": n.strided,
        "write.contiguous": n.writes_contiguous,
    }


def _tile(n: Numbers, machine: Machine) -> dict[str, Floats]:
    return {
        "tile.accumulators": n.accumulators,
        "tile.work": _log(n.work),
        "tile.loads_per_work": n.loads / np.maximum(n.work, 1.0),
        "tile.chains": np.minimum(n.accumulators, 64.0),
        "tile.registers": (n.accumulators + n.loads) / machine.registers,
        "tile.trip": _log(n.trip),
        "tile.bytes": _share(n.tile_bytes, machine.caches[0]),
        "tile.lines": _share(n.tile_lines * LINE, machine.caches[0]),
        "tile.pages": _log(n.tile_pages),
        "tile.spread": _ratio(n.tile_lines * LINE, n.tile_bytes),
    }


def _threads(n: Numbers, cores: int) -> dict[str, Floats]:
    rounds = np.ceil(n.parallel / cores)
    return {
        "parallel.extent": _log(n.parallel),
        "parallel.loops": n.parallel_loops,
        "parallel.regions": _log(n.regions),
        "parallel.work": _log(n.runs / np.maximum(n.parallel, 1.0)),
        "parallel.imbalance": rounds * cores / np.maximum(n.parallel, 1.0),
    }


class _Curves:
    """The footprints of the main computation inside its loops, from the whole nest inwards."""

    def __init__(self, n: Numbers, machine: Machine) -> None:
        self.machine = machine
        ones = np.ones((1, n.extents.shape[1]))
        self.outside = np.concatenate([ones, np.cumprod(n.extents, axis=0)])
        self.inside = np.concatenate([np.cumprod(n.extents[::-1], axis=0)[::-1], ones])
        self.parts = (n.lines_written, n.lines_read_0, n.lines_read_1, n.lines_read_more)
        self.lines = self.parts[0] + self.parts[1] + self.parts[2] + self.parts[3]
        self.bytes = n.bytes
        self.pages = n.pages
        self.flop = np.maximum(n.flop, 1.0)

    def traffic(self, operations: Floats) -> dict[str, Floats]:
        """Compute the traffic into each cache of the machine, for each vector of operations.

        `traffic` counts the footprint of the outermost loops that fit, once for each run of them; `reused` leaves out
        the elements that stay from one run to the next; `write` is the results' part of that.
        """
        found = {}
        for name, capacity in self.machine.capacities.items():
            level = self._first_that(self.lines * LINE <= capacity)
            moved = _at(self.lines, level) * _at(self.outside, level)
            reused = [self._reused(part, level) for part in self.parts]
            found[f"cache.{name}.traffic"] = _ratio(moved * LINE, operations)
            found[f"cache.{name}.reused"] = _ratio((reused[0] + reused[1] + reused[2] + reused[3]) * LINE, operations)
            found[f"cache.{name}.write"] = _ratio(reused[0] * LINE, operations)
            found[f"cache.{name}.work"] = _share(_at(self.inside, level), self.machine.lanes)
            found[f"cache.{name}.filled"] = _at(self.lines, level) * LINE / capacity
            found[f"cache.{name}.pages"] = _log(_at(self.pages, level))
        return found

    def samples(self) -> dict[str, Floats]:
        """Compute footprint and reuse of the innermost loops with at least so many iterations."""
        found = {}
        for name, work in WORK.items():
            level = np.maximum((self.inside >= work * self.machine.lanes).sum(axis=0) - 1, 0)
            done = _at(self.inside, level)
            found[f"work.{name}.lines"] = _share(_at(self.lines, level) * LINE, self.machine.caches[0])
            found[f"work.{name}.pages"] = _log(_at(self.pages, level))
            found[f"work.{name}.intensity"] = _ratio(done * self.flop / self.machine.lanes, _at(self.bytes, level))
        return found

    def _first_that(self, fits: npt.NDArray[np.bool_]) -> npt.NDArray[np.intp]:
        """Find the outermost level that fits, else the innermost."""
        return np.asarray(np.minimum((~fits).sum(axis=0), DEPTH))

    def _reused(self, lines: Floats, level: npt.NDArray[np.intp]) -> Floats:
        """Count the lines of one operand, moved again only by loops that change its footprint."""
        here = _at(lines, level)
        changed = (lines > here).sum(axis=0)
        return here * _at(self.outside, changed)


def _at(levels: Floats, level: npt.NDArray[np.intp]) -> Floats:
    return np.asarray(np.take_along_axis(levels, level[None, :], axis=0)[0])


def _group(n: Numbers, group: str, operations: Floats) -> dict[str, Floats]:
    def part(name: str) -> Floats:
        return n[f"{group}_{name}"]

    return {
        f"{group}.statements": part("count"),
        f"{group}.points": _ratio(part("points"), operations),
        f"{group}.repeats": _ratio(part("runs"), part("points")),
        f"{group}.vectors": _ratio(part("vectors"), operations),
        f"{group}.strided": _ratio(part("strided"), operations),
        f"{group}.bytes_read": _ratio(part("lines_read") * LINE, operations),
        f"{group}.bytes_written": _ratio(part("lines_written") * LINE, operations),
    }


def _program(n: Numbers, operations: Floats, machine: Machine) -> dict[str, Floats]:
    return {
        "program.statements": n.statements,
        "program.iterations": _ratio(n.iterations, operations),
        "program.code": _log(n.code),
        "program.workspace": _share(n.workspace, machine.caches[1]),
        "program.largest": _share(n.largest, machine.caches[1]),
    }
