"""Measuring: builds, checks and times candidates; the result is `Ok` or `Failed`.

Names are imported when they are first used, because processes that compile candidates need neither NumPy nor plugins.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pegbox.exports import on_demand

if TYPE_CHECKING:
    from pegbox.measure.baselines.baseline import MOST_RUN_QUEUE_WAIT, Baseline
    from pegbox.measure.baselines.roofline import Roofline
    from pegbox.measure.jobs.reply import Asked
    from pegbox.measure.machine.blas import blas_threads
    from pegbox.measure.machine.cores import CorePlan
    from pegbox.measure.machine.memory import memory_share
    from pegbox.measure.pipeline.builder import GIVEN_UP, WARM, Builder
    from pegbox.measure.pipeline.local import LocalMeasurer
    from pegbox.measure.pipeline.measurer import Measurer
    from pegbox.measure.result import Failed, FailureKind, Ok, Result
    from pegbox.measure.runners.runner import RUN_GIVEN_UP, Runner, RunnerFactory, RunnerWrapper
    from pegbox.measure.trial import CandidateArrays, run_interleaved, run_trial
    from pegbox.measure.trial.bench import Bench
    from pegbox.measure.trial.check import Tolerance
    from pegbox.measure.trial.lowering import Lowered, Lowering
    from pegbox.measure.trial.timing import TimingPolicy
    from pegbox.private_folder import ProcessFolder

__all__ = [
    "GIVEN_UP",
    "MOST_RUN_QUEUE_WAIT",
    "RUN_GIVEN_UP",
    "WARM",
    "Asked",
    "Baseline",
    "Bench",
    "Builder",
    "CandidateArrays",
    "CorePlan",
    "Failed",
    "FailureKind",
    "LocalMeasurer",
    "Lowered",
    "Lowering",
    "Measurer",
    "Ok",
    "ProcessFolder",
    "Result",
    "Roofline",
    "Runner",
    "RunnerFactory",
    "RunnerWrapper",
    "TimingPolicy",
    "Tolerance",
    "blas_threads",
    "memory_share",
    "run_interleaved",
    "run_trial",
]  # fmt: skip

__getattr__ = on_demand(__name__)


def __dir__() -> list[str]:
    return __all__
