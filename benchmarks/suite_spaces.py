"""Record the spaces of the suites `templates` and `sketches`, and of `hard`, on one core of this machine.

    python3 benchmarks/suite_spaces.py --list
    python3 benchmarks/suite_spaces.py spaces/ matmul-197x768x3072 --configs 500 --budget 3m
    python3 benchmarks/suite_spaces.py spaces/ free_conv2d-16x28x28-32-3x3 --configs 1500 --budget 5m
    python3 benchmarks/suite_spaces.py spaces/                # all that the folder does not have
    python3 benchmarks/suite_spaces.py --features templates   # a table of a suite's spaces

Sizes are those of networks (ResNet-50, MobileNetV2, BERT-base, ViT-B/16). Each space becomes a packed file; add it to a
`suite.json`. A search of a suite never sees the experience of its own shape, and no default was chosen on these spaces.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import pegbox as pb
from pegbox.comparison.landscape import objective_landscape, recorded_landscape
from pegbox.records.recorded_space import RecordedSpace
from pegbox.suites import load_suite

SAME = {"padding": 1}
FREE = f"{Path(__file__).with_name('free_conv2d.py')}:free_conv2d"
SPACES: dict[str, tuple[str, tuple[int, ...], dict[str, Any], str | None]] = {
    "matmul-197x768x3072": ("matmul", (197, 768, 3072), {}, None),
    "batch_matmul-12x384x64x384": ("batch_matmul", (12, 384, 64, 384), {}, None),
    "conv2d-64x56x56-64-3x3-nchw": ("conv2d", (1, 64, 56, 56, 64, 3, 3), SAME, None),
    "conv2d-3x224x224-64-7x7-stride2-nhwc": (
        "conv2d", (1, 3, 224, 224, 64, 7, 7), {"padding": 3, "stride": 2, "layout": "NHWC"}, None
    ),
    "conv2d-96x56x56-24-1x1-nhwc": ("conv2d", (1, 96, 56, 56, 24, 1, 1), {"layout": "NHWC"}, None),
    "conv2d-512x7x7-2048-1x1-nchw": ("conv2d", (1, 512, 7, 7, 2048, 1, 1), {}, None),
    "conv2d_winograd-128x28x28-nhwc": (
        "conv2d_winograd", (1, 128, 28, 28, 128, 3, 3), SAME | {"layout": "NHWC", "weights": "packed"}, None
    ),
    "depthwise_conv2d-144x56x56-stride2-nhwc": (
        "depthwise_conv2d", (1, 144, 56, 56, 3, 3), SAME | {"stride": 2, "layout": "NHWC"}, None
    ),
    "group_conv2d-128x56x56-32-nhwc": (
        "group_conv2d", (1, 128, 56, 56, 128, 3, 3), SAME | {"groups": 32, "layout": "NHWC"}, None
    ),
    "attention-12x197x64": ("attention", (1, 12, 197, 197, 64), {}, None),
    "free_conv2d-16x28x28-32-3x3": (FREE, (16, 28, 28, 32, 3), {}, None),
    "free_conv2d-32x14x14-64-3x3": (FREE, (32, 14, 14, 64, 3), {}, None),
    "sketch-depthwise-144x56x56": ("depthwise_conv2d", (1, 144, 56, 56, 3), SAME, "sketch"),
    "sketch-softmax-4608x384": ("softmax", (4608, 384), {}, "sketch"),
    "sketch-attention-12x128x64": ("attention", (12, 128, 64), {}, "sketch"),
    "sketch-matmul_bias_gelu-197x768x768": ("matmul_bias_gelu", (197, 768, 768), {}, "sketch"),
    "sketch-conv2d_bn_relu-128x28x28": ("conv2d_bn_relu", (1, 128, 28, 28, 128, 3), SAME, "sketch"),
    "sketch-conv2d_winograd-128x28x28": ("conv2d_winograd", (1, 128, 28, 28, 128), {}, "sketch"),
    "sketch-layer_norm-384x768": ("layer_norm", (384, 768), {}, "sketch"),
    "sketch-matmul_chain-384x64x384x64": ("matmul_chain", (384, 64, 384, 64), {}, "sketch"),
}  # fmt: skip
"""The template or workload, its arguments, and the space generator, by the name of the file."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=Path, help="where the packed files go")
    parser.add_argument("names", nargs="*", help="which spaces (default: those that the folder lacks)")
    parser.add_argument("--configs", type=int, default=420)
    parser.add_argument("--budget", default="175s", help="the time of each space (default: 175s)")
    parser.add_argument("--target", default="llvm -num-cores 1")
    parser.add_argument("--list", action="store_true", help="print the names")
    parser.add_argument("--features", metavar="SUITE", help="print the features of a suite's spaces")
    options = parser.parse_args()
    if options.list:
        print("\n".join(SPACES))
    elif options.features:
        print_features(options.features)
    elif options.folder is None:
        parser.error("name a folder")
    else:
        options.folder.mkdir(parents=True, exist_ok=True)
        for name in options.names or SPACES:
            if not (options.folder / f"{name}.jsonl.xz").exists():
                record(name, options)


def record(name: str, options: argparse.Namespace) -> None:
    template, args, kwargs, space = SPACES[name]
    chosen = {} if space is None else {"space": space}
    task = pb.create_task(template, args=args, kwargs=kwargs, target=options.target, **chosen)
    file = options.folder / f"{name}.jsonl"
    print(
        name, pb.sweep(task, records=file, configs=options.configs, budget=options.budget, timeout=2.0, progress=False)
    )
    pb.pack_space(file, file.with_suffix(".jsonl.xz"))


def print_features(suite: str) -> None:
    for problem in load_suite(suite):
        task = problem.task
        if isinstance(task, RecordedSpace):
            found, size = recorded_landscape(task, 100), len(task)
        else:
            assert isinstance(task, pb.Objective)
            found, size = objective_landscape(task, 100, problem.optimum), task.space.size
        print(
            f"{problem.name:32} {size:9.3g} configurations, {found.knobs:2} knobs, {found.failures:5.1%} fail, "
            f"random search at 95% after {found.random_trials:6.0f} trials, "
            f"autocorrelation {found.autocorrelation:+.2f}, fitness-distance {found.fitness_distance:+.2f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
