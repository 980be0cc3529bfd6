"""Make the experience of searches and predictions: measurements of many workloads, with the features of their programs.

    python3 benchmarks/experience.py --sweep             # measure the missing workloads on this machine (half an hour)
    python3 benchmarks/experience.py --sweep --target 'llvm -mcpu=x86-64-v3 -num-cores 1'
    python3 benchmarks/experience.py --random 90         # measure random shapes of templates and sketches
    python3 benchmarks/experience.py --random 27 --kind outliers    # of the kinds that are predicted worst
    python3 benchmarks/experience.py --random 24 --kind models      # of the kinds that models have, with packed weights
    python3 benchmarks/experience.py --random 40 --kind depthwise --seed 11    # depthwise convolutions
    python3 benchmarks/experience.py --random 16 --kind batches --seed 61     # of several images, or of 7x7 in NCHW
    python3 benchmarks/experience.py --random 16 --kind depthwise-rows --seed 71    # in NCHW
    python3 benchmarks/experience.py --random 12 --kind separable --seed 91    # depthwise separable ones
    python3 benchmarks/experience.py --random 12 --kind separable-rows --seed 911    # in NCHW
    python3 benchmarks/experience.py --random 12 --kind some-rows --seed 921    # products of 16 to 250 rows
    python3 benchmarks/experience.py --random 12 --kind narrow-groups --seed 931    # groups of few channels
    python3 benchmarks/experience.py --random 16 --kind winograd --seed 21    # convolutions by Winograd's algorithm
    python3 benchmarks/experience.py --random 12 --kind groups --seed 31    # convolutions in groups
    python3 benchmarks/experience.py --random 14 --kind lines --seed 41    # convolutions in one dimension
    python3 benchmarks/experience.py --random 16 --kind strassen --seed 51    # products by Strassen's algorithm
    python3 benchmarks/experience.py --random 16 --kind attention --seed 81    # the template of attention
    python3 benchmarks/experience.py --random 36 --seed 9001 --held-out    # shapes that only benchmarks use
    python3 benchmarks/experience.py                     # write two files of core/records/shipped
    python3 benchmarks/experience.py --check             # predict each workload from the others
    python3 benchmarks/experience.py --check --across    # and from other kinds of machines

Workloads are shapes that none of the recorded spaces has, and a part of the recorded spaces themselves. A search never
uses the measurements of its own shape. A few configurations of many shapes teach more than many of a few shapes
(`random_shapes.py`). Some of them are those that the model of today prefers: there its errors matter.
Measure on a core on which nothing else runs (`taskset`), with one target at a time.

`benchmarks/experience/` has a folder of records (`*.jsonl.xz`) for each processor. The shipped file keeps the features
of the programs that were measured, even if the template no longer has their space: they still tell fast programs from
slow ones. If the set of features has changed, or with `--anew`, the features of all programs are computed again, from
today's templates; records whose space is gone are left out, and a message names them. Delete records that are older
than a large speedup of code generation for their kind of program.

The model of predictions (`prediction.npz`) learns from all of it, a few times: each time from three quarters of the
workloads, so that the mean is not decided by any one of them.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from random_shapes import (
    OF_MODELS,
    OUTLIERS,
    Shape,
    attention_layer,
    depthwise_batch,
    depthwise_layer,
    grouped_layer,
    in_rows,
    in_turns,
    line_layer,
    narrow_groups,
    separable_layer,
    shapes,
    some_rows,
    strassen_product,
    winograd_layer,
)

import pegbox as pb
from pegbox.codegen import Target
from pegbox.errors import RecordError
from pegbox.features import program_features
from pegbox.features.program import ProgramFeatures
from pegbox.measure import Ok, Result
from pegbox.records.journal import Journal
from pegbox.records.library import find_source, label, recorded_spaces
from pegbox.records.record import Record
from pegbox.records.recorded_space import RecordedSpace
from pegbox.search.loop.recorder import Recorder
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
from pegbox.search.models.prediction import MODEL, described, predicted_configs, write_model
from pegbox.search.models.training import rank_and_speed
from pegbox.search.models.trees import Trees
from pegbox.search.problem import local_measurer
from pegbox.search.protocols import Features, Floats, Transfer
from pegbox.search.sweep.sweep import Sweep
from pegbox.space import Config
from pegbox.space.uniform_sample import uniform_order
from pegbox.suites.folder import SHIPPED
from pegbox.task.task import Task

Verdict: TypeAlias = tuple[float, float, float]

HERE = Path(__file__).parent / "experience"

HELD_OUT = HERE / "held-out"
"""The folder of records that no model learns from."""

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
    # Small products, and convolutions with strides or few channels.
    "matmul-1x2048x2048": ("matmul", (1, 2048, 2048), {}),
    "matmul-2x3000x900": ("matmul", (2, 3000, 900), {}),
    "matmul-4x2000x2500": ("matmul", (4, 2000, 2500), {}),
    "matmul-8x1024x2048": ("matmul", (8, 1024, 2048), {}),
    "matmul-16x800x1500": ("matmul", (16, 800, 1500), {}),
    "matmul-24x2048x700": ("matmul", (24, 2048, 700), {}),
    "matmul-50x1000x400": ("matmul", (50, 1000, 400), {}),
    "matmul-700x900x30": ("matmul", (700, 900, 30), {}),
    "conv2d-60x60-strided-nchw": ("conv2d", (1, 4, 60, 60, 48, 5, 5), HALF | {"padding": 2} | NCHW),
    "conv2d-28x28-strided-nchw": ("conv2d", (1, 64, 28, 28, 96, 3, 3), SAME | HALF | NCHW),
    "conv2d-40x40-wide-nhwc": ("conv2d", (1, 16, 40, 40, 32, 5, 5), HALF | {"padding": 2} | NHWC),
    "conv2d-7x7-nchw": ("conv2d", (1, 512, 7, 7, 256, 3, 3), SAME | NCHW),
    "conv2d-14x14-pointwise-nchw": ("conv2d", (1, 256, 14, 14, 128, 1, 1), NCHW),
    "conv2d-21x21-odd-nchw": ("conv2d", (1, 30, 21, 21, 50, 3, 3), SAME | NCHW),
}

PREFIX = "sketch-"

SKETCHES: dict[str, tuple[int, ...]] = {
    "matmul": (384, 512, 640), "matmul_bias_relu": (256, 768, 512), "matmul_bias_gelu": (192, 512, 768),
    "matmul_chain": (128, 256, 192, 320), "batch_matmul": (8, 96, 64, 128), "matmul_transposed": (200, 700, 300),
    "matmul_int8": (256, 512, 256), "attention": (4, 128, 64), "conv1d": (1, 64, 256, 96, 5, 1, 2),
    "conv2d": (1, 64, 28, 28, 96, 3, 1, 1), "conv2d_nhwc": (1, 28, 28, 64, 96, 3, 1, 1),
    "conv3d": (1, 16, 8, 28, 28, 32, 3, 1, 1), "depthwise_conv2d": (1, 96, 56, 56, 3, 1, 1),
    "conv2d_transposed": (1, 32, 14, 14, 48, 4, 2, 1), "conv2d_bn_relu": (1, 48, 30, 30, 64, 3, 1, 1),
    "conv2d_winograd": (1, 64, 28, 28, 64), "max_pool2d": (1, 64, 56, 56, 3, 2, 1), "avg_pool2d": (1, 48, 40, 40, 2, 2),
    "row_sum": (500, 1000), "row_min": (300, 900), "row_argmax": (256, 1000), "norm": (400, 700),
    "softmax": (512, 768), "layer_norm": (384, 640), "sum_and_max": (500, 800),
    "matmul-few": (100, 333, 777), "softmax-few": (100, 3000), "layer_norm-many": (1500, 200),
    "depthwise_conv2d-wide": (1, 200, 14, 14, 5, 1, 2), "attention-small": (8, 64, 32), "row_argmax-many": (1000, 300),
    "norm-few": (90, 2000),
}  # fmt: skip
"""The workloads whose sketches are measured, some at two shapes. (That of `elementwise_chain` leaves no choice.)"""

KINDS: dict[str, Callable[[int], Iterator[Shape]]] = {
    "all": shapes, "outliers": in_turns(*OUTLIERS), "models": in_turns(*OF_MODELS),
    "depthwise": in_turns(depthwise_layer), "batches": in_turns(depthwise_batch),
    "depthwise-rows": in_turns(in_rows(depthwise_layer, depthwise_batch)), "separable": in_turns(separable_layer),
    "separable-rows": in_turns(in_rows(separable_layer)), "some-rows": in_turns(some_rows),
    "narrow-groups": in_turns(narrow_groups),
    "winograd": in_turns(winograd_layer), "groups": in_turns(grouped_layer),
    "lines": in_turns(line_layer), "strassen": in_turns(strassen_product),
    "attention": in_turns(attention_layer),
}  # fmt: skip
"""The kinds of random shapes: all, those that are predicted worst, those of the nodes of models, depthwise ones,
also of several images or in NCHW, depthwise separable ones, also in NCHW alone, products of some rows, groups of few
channels, those of Winograd's algorithm, convolutions in groups and in one dimension, products by Strassen's algorithm,
and attention."""

LEAST = 20
"""The least number of configurations of a workload that tuners learn from. Predictions learn from fewer, too."""

CONFIGS, LIKED, PASSES = 70, 40, 1
"""The random configurations of a workload, those that the model of today prefers, and the passes over all of them."""

ROWS = 500
"""The largest number of configurations that are taken from a recorded space."""

MODELS, ROUNDS, DEPTH, SHARE = 8, 160, 6, 0.75
"""The models of predictions, the trees of each and their depth, and its share of the workloads.

The mean of a few models depends on chance, but each lengthens all predictions. With 16, `prediction.py` found 109 of
689 spaces below 75% of the best speed with the shape left out, and 8 of 51 held-out ones; with eight, 104 and 11 of 50.
"""

PARAMETERS: dict[str, Any] = {
    "max_depth": DEPTH, "learning_rate": 0.1, "subsample": 0.5, "colsample_bynode": 0.2, "tree_method": "hist",
    "max_bin": 32, "nthread": 1, "verbosity": 0,
}  # fmt: skip

TRAINED_ROWS = 250
"""The largest number of configurations of a workload that a model of predictions learns from."""


def main() -> int:
    options = parse()
    if options.sweep or options.random:
        measure(options)
    if options.random:
        return 0
    if options.check:
        check(shipped_sources(), across=options.across)
        return 0
    sources = list(collected(measured_before() if not options.anew else {}))
    known = [one for one in sources if len(one.measured.costs) >= LEAST]
    write_experience(FILE, ProgramFeatures.names, known)
    write_model(MODEL, trained(sources))
    count = sum(len(one.measured.costs) for one in sources)
    sizes = ", ".join(f"{file.name} {file.stat().st_size / 1e3:.0f} kB" for file in (FILE, MODEL))
    print(f"{count:,} configurations of {len(sources)} workloads; {sizes}")
    return 0


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = [*WORKLOADS, *(f"{PREFIX}{name}" for name in SKETCHES)]
    parser.add_argument("--sweep", action="store_true", help="measure the workloads that have no file yet")
    parser.add_argument("--target", default="llvm -num-cores 1", help="target of --sweep")
    parser.add_argument("--configs", type=int, default=CONFIGS, help="number of random configurations of each workload")
    parser.add_argument("--liked", type=int, default=LIKED, help="number of configurations that the model prefers")
    parser.add_argument("--passes", type=int, default=PASSES)
    parser.add_argument("--random", type=int, metavar="COUNT", help="measure so many random shapes")
    parser.add_argument("--seed", type=int, default=1, help="which random shapes")
    parser.add_argument("--kind", choices=KINDS, default="all", help="with --random: which kinds of shapes")
    parser.add_argument("--held-out", action="store_true", help="with --random: for benchmarks, not for models")
    parser.add_argument("--only", nargs="+", choices=names, default=names, metavar="NAME")
    parser.add_argument("--anew", action="store_true", help="compute the features of all programs again")
    parser.add_argument("--check", action="store_true", help="predict each workload from the others; write nothing")
    parser.add_argument("--across", action="store_true", help="with --check: also from other kinds of machines only")
    return parser.parse_args()


def measure(options: argparse.Namespace) -> None:
    target = Target(options.target)
    folder = (HELD_OUT if options.held_out else HERE) / target.cpu
    folder.mkdir(parents=True, exist_ok=True)
    for name, shape in wanted(options):
        packed = folder / f"{name}.jsonl.xz"
        if not packed.exists():
            record(task_of(shape, target), packed, options)


def wanted(options: argparse.Namespace) -> Iterator[tuple[str, Shape]]:
    """Yield the workloads to measure, with their names."""
    if options.random:
        for shape in islice(KINDS[options.kind](options.seed), options.random):
            template, args, kwargs = shape
            words = (
                value if isinstance(value, str) else f"{key}{joined(value)}" for key, value in sorted(kwargs.items())
            )
            yield "-".join((template, joined(args), *words)), shape
        return
    for name in options.only:
        label = name.removeprefix(PREFIX)
        yield name, WORKLOADS[name] if label == name else (PREFIX + label.partition("-")[0], SKETCHES[label], {})


def joined(value: Any) -> str:
    """Write numbers with an x between them."""
    return "x".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def task_of(shape: Shape, target: Target) -> Task:
    """Make the task of a workload."""
    template, args, kwargs = shape
    if template.startswith(PREFIX):
        return pb.create_task(template.removeprefix(PREFIX), args=args, space="sketch", target=target)
    return pb.create_task(template, args=args, kwargs=kwargs, target=target)


@dataclass
class Sampling(Sweep):
    """A sweep of chosen configurations."""

    chosen: Sequence[Config] = ()

    def _missing(self) -> list[Config]:
        return list(self.chosen)


def record(task: Task, packed: Path, options: argparse.Namespace) -> None:
    """Measure random configurations of a task, and some that the model prefers, in one random order."""
    configs = chosen(task, options.configs, options.liked)
    with tempfile.TemporaryDirectory() as temporary:
        journal = Journal(Path(temporary) / "sweep.jsonl")
        recorder = Recorder(journal, task, "sweep", 0, "sweep")
        sampling = Sampling(task, len(configs), passes=options.passes, recorder=recorder, chosen=configs)
        defaults = {"kept_builds": len(configs), "rounds": 3}
        with local_measurer(None, timeout=5.0, seed=0, runner="local", defaults=defaults)(
            task, best=float("inf")
        ) as measurer:
            print(sampling.run(measurer), flush=True)
        pb.pack_space(journal.path, packed)


def chosen(task: Task, uniform: int, liked: int) -> list[Config]:
    """Choose random configurations and the model's: half of them its first, the others from its first 400."""
    rows = (row for block in uniform_order(task.space, 0) for row in block.tolist())
    found = dict.fromkeys(map(task.space.config, islice(rows, uniform)))
    ranked = list(islice(predicted_configs(task), 400)) if liked else []
    first, others = ranked[: liked // 2], ranked[liked // 2 :]
    if others:
        places = np.geomspace(1, len(others), liked - len(first)).round().astype(int) - 1
        first += [others[place] for place in np.unique(places)]
    configs = list(found | dict.fromkeys(first))
    return [configs[place] for place in np.random.default_rng(2).permutation(len(configs))]


def measured_before() -> dict[tuple[str, str], ShippedSource]:
    """Return the measurements of the shipped file by name and target, or none if the features have changed since.

    Their features are those of the programs that were measured, even if the template makes other programs today.
    """
    with np.load(FILE) as held:
        if held["features_of"].tolist() != list(ProgramFeatures.names):
            return {}
    return {(one.measured.name, one.target): one for one in shipped_sources()}


def collected(before: Mapping[tuple[str, str], ShippedSource]) -> Iterator[ShippedSource]:
    """Collect the measurements of all recordings: known ones with their features, others with those of today's code."""
    for file in recordings():
        records = Journal(find_source(file)).read()
        known = before.get((label(records[0]), records[0].target))
        if known is not None and is_sample(known, records):
            yield known
        elif (space := opened(file)) is not None:
            yield source_of(space)


def is_sample(known: ShippedSource, records: Sequence[Record]) -> bool:
    """Decide if all costs of a source are in these records: a workload that was measured again has other costs."""
    costs = np.array([least_cost(record.result) for record in records])
    return bool(np.isin(known.measured.costs.astype(np.float32), costs.astype(np.float32)).all())


def recordings(folder: Path = HERE) -> Iterator[Path | str]:
    """List the recordings of a folder; for this one, also those that ship."""
    yield from sorted(folder.glob("*/*.jsonl.xz"))
    if folder == HERE:
        yield from (*recorded_spaces(), *sorted((SHIPPED / "templates").glob("*.jsonl.xz")))


def opened(file: Path | str) -> RecordedSpace | None:
    """Open a recorded space; print a line and return None if the template has another space today."""
    try:
        return pb.recorded_space(file)
    except RecordError as error:
        print(f"left out: {error}")
        return None


def spaces(folder: Path = HERE) -> Iterator[RecordedSpace]:
    """Open the recorded spaces of a folder, those that the templates still have."""
    return filter(None, map(opened, recordings(folder)))


def sample_of(space: RecordedSpace) -> list[Config]:
    """Choose a uniform sample of a recorded space. (Its first rows have the lowest indices.)"""
    configs = list(space.results)
    return [configs[place] for place in np.random.default_rng(0).permutation(len(configs))[:ROWS]]


def source_of(space: RecordedSpace) -> ShippedSource:
    assert isinstance(space.task, Task)
    chosen = sample_of(space)
    costs = np.array([least_cost(space.results[config]) for config in chosen])
    measured = Transfer(space.name, program_features(space.task).of(chosen), costs)
    return ShippedSource(shape_key(space.task.workload), str(space.task.target), measured)


def least_cost(result: Result) -> float:
    """Return the least cost of a trial: other programs and a lower clock lengthen costs, by up to a third."""
    return min(result.costs) if isinstance(result, Ok) else result.cost


def trained(sources: Sequence[ShippedSource]) -> Trees:
    """Train the model of predictions."""
    import xgboost

    models: list[dict[str, Any]] = []
    for seed in range(MODELS):
        rng = np.random.default_rng(seed)
        places = rng.permutation(len(sources))[: max(1, round(SHARE * len(sources)))]
        rows, labels = zip(*(examples(sources[place], rng) for place in places), strict=True)
        data = xgboost.DMatrix(np.concatenate(rows), label=np.concatenate(labels), nthread=1)
        booster = xgboost.train(PARAMETERS | {"seed": seed}, data, num_boost_round=ROUNDS)
        models.append(json.loads(booster.save_raw("json")))
    return Trees.of_xgboost(models, DEPTH)


def examples(source: ShippedSource, rng: np.random.Generator) -> tuple[Features, Floats]:
    """Choose some rows of a source; their labels are ranks and speeds among all its rows."""
    chosen = rng.permutation(len(source.measured.costs))[:TRAINED_ROWS]
    rows = described(source.measured.features[chosen], Target(source.target))
    return rows, rank_and_speed(source.measured.costs)[chosen]


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
