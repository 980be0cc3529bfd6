"""Convolutions by columns (im2col): tune, then time them beside the direct ones and other libraries in one process.

    python3 benchmarks/im2col.py                              # few outputs, wide dilations, first layers; both layouts
    python3 benchmarks/im2col.py 64x112x112-3x3x3-p1 --layout NHWC
    python3 benchmarks/im2col.py --records columns.jsonl      # continue an earlier run

The output has the columns of `winograd.py`, but for `m`. Weights are packed ahead on all sides.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

from conv2d import Case, parsed, print_row
from matmul import settle_environment
from winograd import one_case, options_of

import pegbox as pb

SHAPES = (
    "64x28x28-17x3x3-p1", "3x64x64-17x9x9-p4", "48x28x28-36x3x3-p1", "3x112x112-20x3x3-s2-p1", "32x28x28-21x3x3-p6-d6",
    "64x14x14-40x5x5-p2", "64x56x56-3x3x3-p1", "32x64x64-3x9x9-p4",
)  # fmt: skip


@dataclass(frozen=True)
class ColumnCase(Case):
    """A convolution as a product with the columns of its windows."""

    def task(self) -> pb.Task:
        direct = super().task()
        return pb.create_task("conv2d_im2col", direct.args, direct.kwargs, target=self.target)


def main() -> int:
    options = options_of(__doc__, SHAPES, ("NCHW", "NHWC")).parse_args()
    settle_environment(options)
    header = True
    for text, layout in itertools.product(options.shapes, options.layout):
        direct = parsed(text, layout, "packed", options.target)
        print_row(one_case(direct, ColumnCase(**vars(direct)), options), header=header)
        header = False
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
