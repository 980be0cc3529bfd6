"""Kernels that TVM's MetaSchedule finds for workloads of pegbox.

    pip install apache-tvm==0.27.0.post1 apache-tvm-ffi==0.1.14.post0 xgboost psutil tornado

MetaSchedule of TVM 0.27 crashes with later versions of apache-tvm-ffi. Where torch is installed, set
TVM_FFI_DISABLE_TORCH_C_DLPACK=1: otherwise TVM compiles an extension of torch when it is imported.
"""

from __future__ import annotations

import argparse
import logging
import tempfile
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np

import pegbox as pb
from pegbox import te
from pegbox.task import find_workload

# Words of TVM 0.18, which pegbox prints, and what TVM 0.27 calls the same.
_RENAMED = {
    "@T.prim_func": "@T.prim_func(s_tir=True)",
    "T.block(": "T.sblock(",
    "T.alloc_buffer(": "T.sblock_alloc_buffer(",
    '"tir.noalias"': '"tirx.noalias"',
}


def tuned_kernel(
    name: str,
    args: tuple[int, ...],
    arrays: list[np.ndarray],
    options: argparse.Namespace,
    *,
    kept: Path | None = None,
) -> Callable[[], Any]:
    """Tune a workload for one core, and return a call of the kernel, whose result `.numpy()` reads.

    A search leaves its database in the folder `kept`, and a finished one is not repeated.

    Raises:
        ImportError: TVM, or a version that has MetaSchedule under this name, is not installed.
    """
    import tvm
    import tvm.script.parser
    from tvm.s_tir import meta_schedule

    logging.getLogger("tvm").setLevel(logging.ERROR)
    text = pb.tir.Schedule(te.create_prim_func(find_workload(name).tensors(*args))).mod.script()
    for ours, theirs in _RENAMED.items():
        text = text.replace(ours, theirs)
    program = tvm.script.parser.parse(text.partition("\n")[2])  # without the comment that imports I and T
    cpu = tvm.target.Target({"kind": "llvm", "mcpu": pb.Target(options.target).cpu, "num-cores": 1})
    with nullcontext(str(kept)) if kept else tempfile.TemporaryDirectory() as folder:
        finished = Path(folder) / f"finished-{options.trials}"
        if finished.exists():
            found = meta_schedule.database.JSONDatabase(work_dir=folder)
        else:
            # On one core, several workers take so long to import TVM that their builds time out.
            builder = meta_schedule.builder.LocalBuilder(max_workers=1, timeout_sec=120.0)
            found = meta_schedule.tir_integration.tune_tir(
                program, cpu, folder, options.trials, num_trials_per_iter=32, builder=builder, seed=options.seed + 1
            )
            finished.touch()
        schedule = meta_schedule.tir_integration.compile_tir(found, program, cpu)
    if schedule is None:
        raise RuntimeError(f"MetaSchedule found no kernel for {name} in {options.trials} trials")
    kernel = tvm.compile(schedule.mod, target=cpu)["main"]
    given = [tvm.runtime.tensor(array) for array in arrays[:-1]]

    def call() -> Any:
        result = tvm.runtime.empty(arrays[-1].shape, str(arrays[-1].dtype))
        kernel(*given, result)
        return result

    return call
