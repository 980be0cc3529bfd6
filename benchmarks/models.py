"""Whole models: pegbox beside ONNX Runtime, torch and torch.compile, all on the same input, in turns.

    pip install torch torchvision onnx onnxscript onnxruntime
    taskset -c 0 python3 benchmarks/models.py resnet18 mobilenet_v2          # untuned
    taskset -c 0 python3 benchmarks/models.py resnet18 --budget 10m --records resnet18.jsonl
    python3 benchmarks/models.py bert_layer --threads 2 --rivals "ONNX Runtime"

A row is a model of `networks.py`; columns are milliseconds of a call, medians of rounds in which all take turns, and
the speed of pegbox relative to the fastest rival, the median of the rounds'. Outputs are compared before anything is
timed. "untuned" is `pb.compile_model` without records or store, with the seconds that it took; "tuned" is
`pb.tune_model` after `--budget`.
With one thread the clock counts the processor time of this process, so that other programs on the core do not count.
With several, a turn begins after a pause: threads of ONNX Runtime spin for tens of milliseconds after a call, on the
cores that the next one needs. The last column is then that of `cores.py`: how many times as fast a core reads what it
has written itself as what another has, before and after the row.
torch.compile (max-autotune) needs a C++ compiler and minutes; `--rivals` with its name asks for it.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from cores import speeds
from networks import NETWORKS, network, torch_network

import pegbox as pb

Call = Callable[[], Any]
PAUSE = 0.15
"""The seconds until the threads of a rival sleep."""

RIVALS = ("ONNX Runtime", "torch", "torch.compile")
ERRORS = {"fourier_layer": 1e-3}
"""The largest errors where 1e-4 is not enough, because the transform of ONNX Runtime is less accurate than ours."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("networks", nargs="*", default=list(NETWORKS)[:8], metavar="NETWORK", help=", ".join(NETWORKS))
    parser.add_argument("--budget", help="tune each model for that time, such as 10m")
    parser.add_argument("--trials", type=int, help="tune each model with that many trials")
    parser.add_argument("--records", help="a file for the trials; its earlier ones are not measured again")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--rivals", nargs="+", default=RIVALS[:2], choices=RIVALS)
    parser.add_argument("--target", default="llvm -mcpu=native")
    options = parser.parse_args()
    if unknown := [name for name in options.networks if name not in NETWORKS]:
        parser.error(f"there is no network {unknown[0]!r}; give some of {', '.join(NETWORKS)}")
    several = options.threads > 1
    columns = ["untuned", "compiled in s", *(["tuned"] if options.budget or options.trials else []), *options.rivals]
    print("| ms a call | " + " | ".join(columns) + " | relative speed |" + " own / other's |" * several, flush=True)
    print("| --- |" + " ---: |" * (len(columns) + 1 + several), flush=True)
    for name in options.networks:
        samples, seconds, apart = timed_row(name, options)
        ours = [f"{relative_speed(samples, key, options.rivals):.2f}" for key in ("untuned", "tuned") if key in samples]
        ms = {key: f"{1e3 * statistics.median(values):.2f}" for key, values in samples.items()}
        cells = [f"{seconds:.1f}" if key == "compiled in s" else ms[key] for key in columns]
        last = [", ".join(ours), *([", ".join(f"{each:.1f}" for each in apart)] if several else [])]
        print(f"| {name} | " + " | ".join([*cells, *last]) + " |", flush=True)
    return 0


def relative_speed(samples: dict[str, list[float]], key: str, rivals: Sequence[str]) -> float:
    """Return the median, over the rounds, of the time of the fastest rival divided by ours."""
    fastest = min(rivals, key=lambda rival: statistics.median(samples[rival]))
    return statistics.median(theirs / own for theirs, own in zip(samples[fastest], samples[key], strict=True))


def timed_row(name: str, options: argparse.Namespace) -> tuple[dict[str, list[float]], float, list[float]]:
    """Time a row: return the seconds of each column in each round, and those that compiling without tuning took.

    The ratios of `cores.py` before and after come last, for several threads.
    """
    path = network(name)
    target = f"{options.target} -num-cores {options.threads}"
    model = pb.load_model(path)
    (given,) = model.graph.inputs
    x = np.random.default_rng(0).standard_normal(given.shape, dtype=np.float32)
    start = time.perf_counter()
    modules = {"untuned": pb.compile_model(model, target=target, store=None)}
    seconds = time.perf_counter() - start
    if options.budget or options.trials:
        limits = {"budget": options.budget, "trials": options.trials, "records": options.records}
        modules["tuned"] = pb.tune_model(model, target=target, store=None, **limits).module
    calls: dict[str, Call] = {key: lambda module=module: module(x) for key, module in modules.items()}
    calls |= {rival: MADE[rival](name, path, x, options.threads) for rival in options.rivals}
    wanted = calls[options.rivals[0]]()[0]
    for key in modules:
        error = np.abs(calls[key]()[0] - wanted).max() / np.abs(wanted).max()
        if not error < ERRORS.get(name, 1e-4):
            raise SystemExit(f"{name}, {key}: the largest error is {error:.1e} of the largest value")
    clock = time.process_time if options.threads == 1 else time.perf_counter
    if options.threads == 1:
        return in_turns(calls, options.rounds, clock, pause=0.0), seconds, []
    before = speeds()
    samples = in_turns(calls, options.rounds, clock, pause=PAUSE)
    return samples, seconds, [own / other for own, other in (before, speeds())]


def in_turns(calls: dict[str, Call], rounds: int, clock: Callable[[], float], pause: float) -> dict[str, list[float]]:
    """Measure the seconds of each call in each round, in which it runs for about 50 ms after a pause."""
    for call in calls.values():
        call()
    numbers = {key: max(1, round(0.05 / once(call, 1, clock))) for key, call in calls.items()}
    samples: dict[str, list[float]] = {key: [] for key in calls}
    for _ in range(rounds):
        for key, call in calls.items():
            time.sleep(pause)
            call()
            samples[key].append(once(call, numbers[key], clock))
    return samples


def once(call: Call, number: int, clock: Callable[[], float]) -> float:
    """Seconds of one call, the mean of `number`."""
    start = clock()
    for _ in range(number):
        call()
    return (clock() - start) / number


def onnx_call(name: str, path: Path, x: np.ndarray, threads: int) -> Call:
    import onnxruntime

    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads, settings.inter_op_num_threads = threads, 1
    session = onnxruntime.InferenceSession(str(path), settings, providers=["CPUExecutionProvider"])
    return lambda: session.run(None, {"x": x})


def torch_call(name: str, path: Path, x: np.ndarray, threads: int) -> Call:
    import torch

    torch.set_num_threads(threads)
    torch.set_grad_enabled(False)
    module, given = torch_network(name)[0], torch.from_numpy(x)
    return lambda: [module(given).numpy()]


def compiled_call(name: str, path: Path, x: np.ndarray, threads: int) -> Call:
    import torch

    torch.set_num_threads(threads)
    torch.set_grad_enabled(False)
    module, given = torch.compile(torch_network(name)[0], mode="max-autotune"), torch.from_numpy(x)
    return lambda: [module(given).numpy()]


MADE = {"ONNX Runtime": onnx_call, "torch": torch_call, "torch.compile": compiled_call}


if __name__ == "__main__":
    sys.exit(main())
