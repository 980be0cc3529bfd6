"""The cost of a search by AutoTVM's names, against the same search by pegbox's own.

    python3 benchmarks/tvm_names.py                                  # about a minute
    python3 benchmarks/tvm_names.py --trials 64 --rounds 9 512x512x512

The same template of a matrix product is tuned with `XGBTuner`, once by `autotvm.tuner.XGBTuner(task).tune(...)` with a
log, once by `pegbox.tune(task, tuner="xgb", records=...)`. Each search is a process of its own, and the two take turns.
The time that pegbox takes at the end to time NumPy for comparison is left out. Prints, as medians, the seconds from the
task to the end of the search; of these, those that are not spent on building and timing candidates, which differ from
search to search; and how many times as long AutoTVM's names took.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import pegbox
from pegbox.plugins.tvm import autotvm, te

WAYS = ("pegbox", "autotvm")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("shape", nargs="?", default="128x128x128", help="M x K x N")
    parser.add_argument("--trials", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--child", choices=WAYS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        print(json.dumps(searched(options.child, options.shape, options.trials)))
        return 0
    found: dict[str, list[list[float]]] = {way: [] for way in WAYS}
    for number in range(options.rounds):
        for way in WAYS if number % 2 == 0 else WAYS[::-1]:
            command = [sys.executable, __file__, "--child", way, "--trials", str(options.trials), options.shape]
            env = {**os.environ, "PEGBOX_STORE": "off"}  # both ways keep results there
            run = subprocess.run(command, env=env, check=True, capture_output=True, text=True)
            found[way].append(json.loads(run.stdout.splitlines()[-1]))
    medians = {way: [statistics.median(column) for column in zip(*found[way], strict=True)] for way in WAYS}
    for way, (whole, own, speed) in medians.items():
        print(f"{way:8} {whole:6.2f} s, {own:5.2f} s of them beside candidates, best {speed:6.1f} GFLOP/s")
    whole, own = (medians["autotvm"][column] / medians["pegbox"][column] for column in (0, 1))
    print(f"AutoTVM's names take {whole:.2f} times as long, {own:.2f} times beside candidates")
    return 0


def schedule(cfg: Any, shape: tuple[int, ...]) -> Any:
    """The template: tiles, the order inside them, and vectors."""
    m, k, n = shape
    A = te.placeholder((m, k), name="A")
    B = te.placeholder((k, n), name="B")
    kk = te.reduce_axis((0, k), name="k")
    C = te.compute((m, n), lambda i, j: te.sum(A[i, kk] * B[kk, j], axis=kk), name="C")
    s = te.create_schedule(C.op)
    y, x = s[C].op.axis
    cfg.define_split("tile_y", y, num_outputs=3)
    cfg.define_split("tile_x", x, num_outputs=2)
    cfg.define_split("tile_k", kk, num_outputs=2)
    yt, yo, yi = cfg["tile_y"].apply(s, C, y)
    xo, xi = cfg["tile_x"].apply(s, C, x)
    ko, ki = cfg["tile_k"].apply(s, C, kk)
    s[C].reorder(yt, xo, ko, yo, ki, yi, xi)
    if cfg["tile_x"].size[-1] <= 64:
        s[C].vectorize(xi)
    return s, [A, B, C]


@autotvm.template("benchmarks/matmul")
def by_autotvm(m: int, k: int, n: int) -> Any:
    return schedule(autotvm.get_config(), (m, k, n))


def by_pegbox(cfg: Any, m: int, k: int, n: int) -> Any:
    return schedule(cfg, (m, k, n))


def searched(way: str, shape: str, trials: int) -> tuple[float, float, float]:
    """Seconds of one search, those of them that are not spent on candidates, and the GFLOP/s of its best."""
    args = tuple(map(int, shape.split("x")))
    target = "llvm -num-cores 1"
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "records.jsonl")
        began = time.perf_counter()
        if way == "pegbox":
            task = pegbox.create_task(by_pegbox, args=args, target=target)
            result = pegbox.tune(task, tuner="xgb", trials=trials, records=path, progress=False)
        else:
            tuner = autotvm.tuner.XGBTuner(autotvm.task.create("benchmarks/matmul", args=args, target=target))
            measure = autotvm.measure_option(builder="local", runner="local")
            tuner.tune(n_trial=trials, measure_option=measure, callbacks=[autotvm.callback.log_to_file(path)])
            result = tuner.result
        spent = time.perf_counter() - began - result.phases.get("baseline", 0.0)
    candidates = result.phases["measure"] + result.phases["remeasure"]
    return spent, spent - candidates, result.best.gflops if result.best else 0.0


if __name__ == "__main__":
    raise SystemExit(main())
