"""A tuned kernel from a definition, without a template: matmul + C at 1024 x 1024 x 1024.

Run it twice: the second run goes on from the records of the first. `--trials` and `--size` make it shorter.
"""

from __future__ import annotations

import argparse

import numpy as np

import pegbox as pb
from pegbox import te


@pb.workload
def matmul_add(N: int, L: int, M: int, dtype: str = "float32") -> list[te.Tensor]:
    """out = A B + C"""
    A = te.placeholder((N, L), name="A", dtype=dtype)
    B = te.placeholder((L, M), name="B", dtype=dtype)
    C = te.placeholder((N, M), name="C", dtype=dtype)
    k = te.reduce_axis((0, L), name="k")
    matmul = te.compute((N, M), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="matmul")
    out = te.compute((N, M), lambda i, j: matmul[i, j] + C[i, j], name="out")
    return [A, B, C, out]


def main() -> None:
    """Derive the space, search it, and time the best kernel beside NumPy."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", type=int, default=1024, help="N = L = M")
    parser.add_argument("--trials", type=int, default=200, help="configurations to try, those of earlier runs included")
    parser.add_argument("--records", default="matmul_add.jsonl", help="where the trials are kept")
    options = parser.parse_args()

    size = options.size
    task = pb.create_task(matmul_add, args=(size, size, size), space="sketch", target="llvm")
    print(task.compute_dag)
    print(task.space)

    result = pb.tune(task, trials=options.trials, records=options.records, resume=True)
    print(result)
    assert result.best is not None, "no trial gave a valid kernel: the records tell why"
    print(task.schedule_code(result.best.config))

    func = pb.build(task, config=result.best.config)
    rng = np.random.default_rng(0)
    a, b, c = (rng.standard_normal((size, size)).astype("float32") for _ in range(3))
    out = np.empty((size, size), "float32")
    func(a, b, c, out)
    np.testing.assert_allclose(out, a @ b + c, rtol=1e-3, atol=1e-3 * size**0.5)
    seconds = func.time_evaluator(func.entry_name, number=3, repeat=5)(a, b, c, out).median
    print(f"checked; {seconds * 1e3:.3f} ms, {task.flop / seconds / 1e9:.1f} GFLOP/s")


if __name__ == "__main__":
    main()
