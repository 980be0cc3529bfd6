"""Make the experience of `bayes`: measurements of many workloads, with the features of their programs.

    python3 benchmarks/experience.py --sweep             # measure the missing workloads on this machine (half an hour)
    python3 benchmarks/experience.py --sweep --target 'llvm -mcpu=x86-64-v3 -num-cores 1'
    python3 benchmarks/experience.py                     # write core/records/shipped/experience.npz
    python3 benchmarks/experience.py --check             # predict each workload from the others
    python3 benchmarks/experience.py --check --across    # and from other kinds of machines

Workloads are shapes that none of the recorded spaces has, and a part of the recorded spaces themselves. A search never
uses the measurements of its own shape.

`benchmarks/experience/` has a folder for each processor. It holds records (`*.jsonl.xz`) of the current spaces, and
`numbers.npz.xz`, the numbers from which features are computed (`ProgramFeatures.numbers`). The command without options
updates the numbers. They stay when a template's space changes, so that measurements on a machine that is no longer
available are not lost; delete the records that no longer fit. Run the command again after a change of the features'
formulas.
"""

from __future__ import annotations

import argparse
import io
import json
import lzma
import statistics
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

import pegbox as pb
from pegbox.codegen import Target
from pegbox.errors import RecordError
from pegbox.features import program_features
from pegbox.features.formulas import Machine
from pegbox.features.program import ProgramFeatures, finished
from pegbox.records.library import recorded_spaces
from pegbox.records.recorded_space import RecordedSpace
from pegbox.search.models.experience import (
    FILE,
    Experience,
    ShippedSource,
    affinity,
    learned_for,
    ranked,
    shape_key,
    shipped_sources,
    write_experience,
)
from pegbox.search.protocols import Transfer
from pegbox.task.task import Task

Verdict: TypeAlias = tuple[float, float, float]

HERE = Path(__file__).parent / "experience"

KEPT = "numbers.npz.xz"

SAME: dict[str, Any] = {"padding": 1}
HALF: dict[str, Any] = {"stride": 2}
NCHW, NHWC = {"layout": "NCHW"}, {"layout": "NHWC"}

WORKLOADS: dict[str, tuple[str, tuple[int, ...], dict[str, Any]]] = {
    "conv2d-40x40-nchw": ("conv2d", (1, 48, 40, 40, 96, 3, 3), SAME | NCHW),
    "conv2d-28x28-nhwc": ("conv2d", (1, 128, 28, 28, 128, 3, 3), SAME | NHWC),
    "conv2d-56x56-pointwise-nhwc": ("conv2d", (1, 64, 56, 56, 64, 1, 1), NHWC),
    "conv2d-7x7-pointwise-nchw": ("conv2d", (1, 512, 7, 7, 1024, 1, 1), NCHW),
    "conv2d-14x14-strided-nchw": ("conv2d", (1, 256, 14, 14, 512, 3, 3), SAME | HALF | NCHW),
    "conv2d-112x112-strided-nchw": ("conv2d", (1, 3, 112, 112, 64, 7, 7), HALF | {"padding": 3} | NCHW),
    "conv2d-33x17-odd-nchw": ("conv2d", (1, 36, 33, 17, 52, 3, 3), SAME | NCHW),
    "conv2d-80x80-wide-nhwc": ("conv2d", (1, 24, 80, 80, 40, 5, 5), HALF | {"padding": 2} | NHWC),
    "matmul-4x4096x1024": ("matmul", (4, 4096, 1024), {}),
    "matmul-37x1531x777": ("matmul", (37, 1531, 777), {}),
    "matmul-96x2048x512": ("matmul", (96, 2048, 512), {}),
    "matmul-256x256x256": ("matmul", (256, 256, 256), {}),
    "matmul-1024x1024x640": ("matmul", (1024, 1024, 640), {}),
    "matmul-2000x100x500": ("matmul", (2000, 100, 500), {}),
    "matmul-16x1024x4096": ("matmul", (16, 1024, 4096), {}),
    "matmul-300x3000x120": ("matmul", (300, 3000, 120), {}),
}

CONFIGS, PASSES = 500, 2

ROWS = 1000
"""Number of configurations that are taken from a recorded space."""


@dataclass(frozen=True)
class Kept:
    """Numbers of programs, (WIDTH, n); which of them the template refuses, (n,); their costs in seconds, (n,)."""

    shape: str
    target: str
    name: str
    numbers: npt.NDArray[np.float64]
    refused: npt.NDArray[np.bool_]
    costs: npt.NDArray[np.float64]

    def shipped(self) -> ShippedSource:
        features = finished(self.numbers, self.refused, Machine.of(Target(self.target)))
        return ShippedSource(self.shape, self.target, Transfer(self.name, features, self.costs))


def main() -> int:
    options = parse()
    if options.sweep:
        measure(options)
    if options.check:
        check(shipped_sources(), across=options.across)
        return 0
    known = {(one.target, one.name): one for one in kept()} | {(one.target, one.name): one for one in recorded()}
    sources = sorted(known.values(), key=lambda one: (one.target, one.name))
    keep(sources)
    write_experience(FILE, ProgramFeatures.names, [one.shipped() for one in sources])
    count = sum(len(one.costs) for one in sources)
    print(f"{FILE.name}: {count:,} configurations of {len(sources)} workloads, {FILE.stat().st_size / 1e3:.0f} kB")
    return 0


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sweep", action="store_true", help="measure the workloads that have no file yet")
    parser.add_argument("--target", default="llvm -num-cores 1", help="target of --sweep")
    parser.add_argument("--configs", type=int, default=CONFIGS, help="number of configurations of each workload")
    parser.add_argument("--passes", type=int, default=PASSES)
    parser.add_argument("--only", nargs="+", choices=WORKLOADS, default=list(WORKLOADS))
    parser.add_argument("--check", action="store_true", help="predict each workload from the others; write nothing")
    parser.add_argument("--across", action="store_true", help="with --check: also from other kinds of machines only")
    return parser.parse_args()


def measure(options: argparse.Namespace) -> None:
    target = Target(options.target)
    folder = HERE / target.cpu
    folder.mkdir(parents=True, exist_ok=True)
    for name in options.only:
        packed = folder / f"{name}.jsonl.xz"
        if packed.exists():
            continue
        template, args, kwargs = WORKLOADS[name]
        task = pb.create_task(template, args=args, kwargs=kwargs, target=target)
        with tempfile.TemporaryDirectory() as temporary:
            records = Path(temporary) / "sweep.jsonl"
            print(pb.sweep(task, records=records, configs=options.configs, passes=options.passes), flush=True)
            pb.pack_space(records, packed)


def recorded() -> Iterator[Kept]:
    """Measurements of the current spaces."""
    for file in sorted(HERE.glob("*/*.jsonl.xz")):
        try:
            space = pb.recorded_space(file)
        except RecordError as error:
            print(f"{file.relative_to(HERE)}: left to {KEPT}: {error}")
        else:
            yield numbers_of(space, CONFIGS)
    for name in recorded_spaces():
        yield numbers_of(pb.recorded_space(name), ROWS)


def numbers_of(space: RecordedSpace, rows: int) -> Kept:
    """Numbers of a uniform sample of a recorded space. (Its first rows have the lowest indices.)"""
    assert isinstance(space.task, Task)
    configs = list(space.results)
    chosen = [configs[place] for place in np.random.default_rng(0).permutation(len(configs))[:rows]]
    numbers, refused = program_features(space.task).numbers(np.array([config.digits for config in chosen]))
    costs = np.array([space.results[config].cost for config in chosen])
    return Kept(shape_key(space.task.workload), str(space.task.target), space.name, numbers, refused, costs)


def keep(sources: Sequence[Kept]) -> None:
    """Write the file of numbers of each processor."""
    for cpu in sorted({Target(one.target).cpu for one in sources}):
        of_cpu = [one for one in sources if Target(one.target).cpu == cpu]
        buffer = io.BytesIO()
        np.savez(
            buffer,
            texts=np.array([(one.shape, one.target, one.name) for one in of_cpu]),
            counts=np.array([len(one.costs) for one in of_cpu]),
            numbers=np.concatenate([one.numbers for one in of_cpu], axis=1).astype(np.float32),
            refused=np.concatenate([one.refused for one in of_cpu]),
            costs=np.concatenate([one.costs for one in of_cpu]),
        )
        (HERE / cpu).mkdir(parents=True, exist_ok=True)
        (HERE / cpu / KEPT).write_bytes(lzma.compress(buffer.getvalue()))


def kept() -> Iterator[Kept]:
    for file in sorted(HERE.glob(f"*/{KEPT}")):
        with np.load(io.BytesIO(lzma.decompress(file.read_bytes()))) as held:
            ends = np.cumsum(held["counts"])[:-1]
            parts = (
                np.split(held["numbers"].astype(np.float64), ends, axis=1),
                np.split(held["refused"], ends),
                np.split(held["costs"], ends),
            )
            for texts, *arrays in zip(held["texts"].tolist(), *parts, strict=True):
                yield Kept(*texts, *arrays)


def check(sources: Sequence[ShippedSource], *, across: bool) -> None:
    """Print how well each workload is predicted from others: from all, other templates only, other machines only.

    A cell has the rank correlation of scores and costs, the speed of the program with the best score relative to the
    fastest, and that of the fastest of the first eight. The last lines are medians for each processor.
    """
    columns = list(judged(sources[0], sources, across))
    print(f"{'target and workload':78} " + " ".join(f"{name:>22}" for name in columns))
    found: dict[str, list[list[Verdict | None]]] = {}
    for one in sources:
        target = Target(one.target)
        row = [
            verdict(learned_for(target, others), one.measured) if others else None
            for others in judged(one, sources, across).values()
        ]
        found.setdefault(target.cpu, []).append(row)
        print_row(f"{target.cpu} {one.measured.name}", row)
    for cpu, rows in found.items():
        print_row(f"median of {len(rows)} of {cpu}", [median(column) for column in zip(*rows, strict=True)])


def print_row(name: str, verdicts: Iterable[Verdict | None]) -> None:
    cells = [f"{v[0]:5.2f} {v[1]:6.0%} {v[2]:6.0%}" if v else "-" for v in verdicts]
    print(f"{name:78.78} " + " ".join(f"{cell:>22}" for cell in cells), flush=True)


def median(verdicts: Iterable[Verdict | None]) -> Verdict | None:
    there = [v for v in verdicts if v is not None]
    if not there:
        return None
    correlation, first, eight = (statistics.median(values) for values in zip(*there, strict=True))
    return correlation, first, eight


def judged(one: ShippedSource, sources: Sequence[ShippedSource], across: bool) -> dict[str, list[ShippedSource]]:
    target = Target(one.target)
    others = [other for other in sources if other.shape != one.shape]
    found = {
        "all others": others,
        "other templates": [other for other in others if json.loads(other.shape)[0] != json.loads(one.shape)[0]],
    }
    if across:
        found["this machine"] = [other for other in others if affinity(target, Target(other.target)) == 1]
        found["other machines"] = [other for other in others if affinity(target, Target(other.target)) < 1]
        bits = target.vector_bits
        found["other vectors"] = [other for other in others if Target(other.target).vector_bits != bits]
    return found


def verdict(experience: Experience, measured: Transfer) -> Verdict:
    scores, ran = experience(measured.features), np.isfinite(measured.costs)
    speeds = (measured.costs.min() / measured.costs)[np.argsort(-scores, kind="stable")]
    correlation = float(np.corrcoef(ranked(-scores[ran]), ranked(measured.costs[ran]))[0, 1])
    return correlation, float(speeds[0]), float(speeds[:8].max())


if __name__ == "__main__":
    raise SystemExit(main())
