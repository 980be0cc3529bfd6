"""Write a matmul template of your own, tune it, build the best kernel, check it and call it.

    python3 examples/my_matmul.py --size 512 --trials 64

The command line can tune the same template:

    pegbox tune examples/my_matmul.py:my_matmul 512 512 512 --trials 64
"""

import argparse
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

import pegbox as pb
from pegbox import te


@pb.template("my_matmul")
def my_matmul(
    cfg: pb.TemplateConfig, N: int, L: int, M: int, dtype: str = "float32"
) -> tuple[te.TESchedule, list[te.Tensor]]:
    """C[N, M] = A[N, L] · B[L, M], in tiles that are accumulated in registers."""
    # The computation.
    A = te.placeholder((N, L), name="A", dtype=dtype)
    B = te.placeholder((L, M), name="B", dtype=dtype)
    k = te.reduce_axis((0, L), name="k")
    C = te.compute((N, M), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C")

    # The knobs. This function runs once to declare them, and once for each candidate.
    s = te.create_schedule(C.op)
    y, x = s[C].op.axis
    cfg.define_split("tile_y", y, num_outputs=2, max_factor=16)
    cfg.define_split("tile_x", x, num_outputs=2, max_factor=128)
    cfg.define_split("tile_k", k, num_outputs=2, max_factor=16)
    cfg.define_reorder("order", ["yo", "xo"], policy="all")
    cfg.define_annotate("tile", ["yi", "xi"], policy="try_unroll_vec")
    cfg.define_knob("unroll", [0, 64, 512])

    # The schedule. A tile of C is computed in a buffer of its own, and written when it is complete.
    CC = s.cache_write(C, "local")
    yo, yi = cfg["tile_y"].apply(s, C, y)
    xo, xi = cfg["tile_x"].apply(s, C, x)
    outer = cfg["order"].apply(s, C, [yo, xo])
    s[C].reorder(*outer, yi, xi)
    s[C].parallel(outer[0])
    s[C].vectorize(xi)

    s[CC].compute_at(s[C], outer[1])
    yc, xc = s[CC].op.axis
    ko, ki = cfg["tile_k"].apply(s, CC, k)
    s[CC].reorder(ko, ki, yc, xc)
    cfg["tile"].apply(s, CC, [yc, xc])
    s[CC].pragma(ko, "auto_unroll_max_step", cfg["unroll"].val)
    return s, [A, B, C]


def main(size: int, trials: int, records: Path) -> None:
    task = pb.create_task("my_matmul", args=(size, size, size), target="llvm")  # or the function itself
    print(task.space)

    result = pb.tune(task, trials=trials, records=records, seed=0)
    print(result.best)

    func = pb.build(task, config=result.best.config)
    a, b = np.random.default_rng(0).random((2, size, size), dtype="float32")
    c = np.empty((size, size), dtype="float32")
    func(a, b, c)
    np.testing.assert_allclose(c, a @ b, rtol=1e-4)
    print("the same as NumPy")

    # Later, also in another process: build the best configuration of the records file.
    with pb.apply_history_best(records):
        again = pb.build(task)
    again(a, b, c)
    np.testing.assert_allclose(c, a @ b, rtol=1e-4)

    # The loop program and the machine code.
    print(task.show_ir(result.best.config))
    print(func.source("asm")[:400], "...")

    # You can schedule and print a program without a template.
    A = te.placeholder((4, 4), name="A")
    B = te.compute((4, 4), lambda i, j: A[j, i] * 2, name="B")
    s = te.create_schedule(B.op)
    s[B].vectorize(s[B].op.axis[1])
    print(pb.lower(s, [A, B]))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=int, default=512, help="rows and columns of the square matrices")
    parser.add_argument("--trials", type=int, default=64)
    parser.add_argument("--records", type=Path, help="keep every trial in this file (default: a temporary one)")
    options = parser.parse_args()
    with TemporaryDirectory() as folder:
        main(options.size, options.trials, options.records or Path(folder) / "my_matmul.jsonl")
