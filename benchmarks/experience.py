"""Makes what `bayes` knows before its first trial: measurements of many workloads, with their programs' features.

    python3 benchmarks/experience.py --sweep     # measure what is missing in benchmarks/experience/ (half an hour)
    python3 benchmarks/experience.py             # compute the features, write core/records/shipped/experience.npz
    python3 benchmarks/experience.py --check     # how well the others foretell each of them

Workloads are shapes that none of the recorded spaces has, and a part of the recorded spaces themselves. Whatever is
searched, its own shape is left out of what is known of it. After a change of the program features the second command
makes the file anew.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import pegbox as pb
from pegbox.features import program_features
from pegbox.records.library import recorded_spaces
from pegbox.records.recorded import RecordedSpace
from pegbox.search.experience import FILE, Experience, ranked, shape_key, shipped_sources, write_experience
from pegbox.search.protocols import Transfer
from pegbox.task.task import Task

HERE = Path(__file__).parent / "experience"

TARGET = "llvm -num-cores 1"

SAME: dict[str, Any] = {"padding": 1}
HALF: dict[str, Any] = {"stride": 2}

WORKLOADS: dict[str, tuple[str, tuple[int, ...], dict[str, Any]]] = {
    "conv2d-40x40-nchw": ("conv2d", (1, 48, 40, 40, 96, 3, 3), SAME | {"layout": "NCHW"}),
    "conv2d-28x28-nhwc": ("conv2d", (1, 128, 28, 28, 128, 3, 3), SAME | {"layout": "NHWC"}),
    "conv2d-56x56-pointwise-nhwc": ("conv2d", (1, 64, 56, 56, 64, 1, 1), {"layout": "NHWC"}),
    "conv2d-7x7-pointwise-nchw": ("conv2d", (1, 512, 7, 7, 1024, 1, 1), {"layout": "NCHW"}),
    "conv2d-14x14-strided-nchw": ("conv2d", (1, 256, 14, 14, 512, 3, 3), SAME | HALF | {"layout": "NCHW"}),
    "conv2d-112x112-strided-nchw": (
        "conv2d",
        (1, 3, 112, 112, 64, 7, 7),
        HALF | {"padding": 3, "layout": "NCHW"},
    ),
    "matmul-4x4096x1024": ("matmul", (4, 4096, 1024), {}),
    "matmul-37x1531x777": ("matmul", (37, 1531, 777), {}),
    "matmul-96x2048x512": ("matmul", (96, 2048, 512), {}),
    "matmul-256x256x256": ("matmul", (256, 256, 256), {}),
    "matmul-1024x1024x640": ("matmul", (1024, 1024, 640), {}),
    "matmul-2000x100x500": ("matmul", (2000, 100, 500), {}),
}

CONFIGS, PASSES = 500, 2

ROWS = 1000
"""Configurations taken of a recorded space."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sweep", action="store_true", help="measure the workloads that have no file yet")
    parser.add_argument("--check", action="store_true", help="foretell each workload from the others; write nothing")
    options = parser.parse_args()
    if options.sweep:
        measure()
    if options.check:
        check(shipped_sources())
        return 0
    sources = list(learned())
    features = program_features(pb.create_task("matmul", args=(64, 64, 64)))
    write_experience(FILE, features.names, sources)
    count = sum(len(source.costs) for _, source in sources)
    print(f"{FILE.name}: {count:,} configurations of {len(sources)} workloads, {FILE.stat().st_size / 1e3:.0f} kB")
    return 0


def measure() -> None:
    HERE.mkdir(exist_ok=True)
    for name, (template, args, kwargs) in WORKLOADS.items():
        packed = HERE / f"{name}.jsonl.xz"
        if packed.exists():
            continue
        task = pb.create_task(template, args=args, kwargs=kwargs, target=TARGET)
        with tempfile.TemporaryDirectory() as folder:
            records = Path(folder) / "sweep.jsonl"
            print(pb.sweep(task, records=records, configs=CONFIGS, passes=PASSES))
            pb.pack_space(records, packed)


def learned() -> Iterator[tuple[str, Transfer]]:
    for file in sorted(HERE.glob("*.jsonl.xz")):
        yield source_of(pb.recorded_space(file), CONFIGS)
    for name in recorded_spaces():
        yield source_of(pb.recorded_space(name), ROWS)


def source_of(recorded: RecordedSpace, rows: int) -> tuple[str, Transfer]:
    """A fair part of a space: not the first, which are the least in the order of the indices."""
    assert isinstance(recorded.task, Task)
    features = program_features(recorded.task)
    configs = list(recorded.results)
    chosen = [configs[place] for place in np.random.default_rng(0).permutation(len(configs))[:rows]]
    costs = np.array([recorded.results[config].cost for config in chosen])
    digits = np.array([config.digits for config in chosen])
    return shape_key(recorded.task.workload), Transfer(recorded.name, features(digits), costs)


def check(sources: Sequence[tuple[str, Transfer]]) -> None:
    """Rank correlation with the costs, and which of the rows in the order of the scores is the first within 95%.

    The second correlation is that of what was learned from other templates alone.
    """
    print(f"{'workload':58} correlation  other templates  first within 95%  by chance")
    for key, source in sources:
        others = Experience([other for held, other in sources if held != key])
        foreign = Experience([other for held, other in sources if json.loads(held)[0] != json.loads(key)[0]])
        scores, ran = others(source.features), np.isfinite(source.costs)
        order = np.argsort(-scores, kind="stable")
        good = source.costs <= source.costs.min() / 0.95
        both, other = (
            np.corrcoef(ranked(-said[ran]), ranked(source.costs[ran]))[0, 1]
            for said in (scores, foreign(source.features))
        )
        chance = (len(good) + 1) / (good.sum() + 1)
        first = int(np.argmax(good[order])) + 1
        print(f"{source.name[:58]:58} {both:11.2f}  {other:15.2f}  {first:16d}  {chance:9.0f}")


if __name__ == "__main__":
    raise SystemExit(main())
