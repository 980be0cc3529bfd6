"""Measuring: builds, checks and times candidates; the result is `Ok` or `Failed`.

Names are imported when they are first used: the processes that compile candidates need neither NumPy nor plugins.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pegbox.exports import by_name, on_demand

if TYPE_CHECKING:
    from pegbox.measure.baselines.roofline import Roofline
    from pegbox.measure.baselines.yardstick import WAITED, Yardstick
    from pegbox.measure.jobs.lowering import Lowered, Lowering
    from pegbox.measure.jobs.reply import Asked
    from pegbox.measure.machine.blas import blas_threads
    from pegbox.measure.machine.cores import CorePlan
    from pegbox.measure.machine.memory import memory_share
    from pegbox.measure.measurer import Measurer
    from pegbox.measure.pipeline.builder import GIVEN_UP, WARM, Builder
    from pegbox.measure.pipeline.local import LocalMeasurer
    from pegbox.measure.result import Failed, FailureKind, Ok, Result
    from pegbox.measure.runners.runner import RUN_GIVEN_UP, Runner, RunnerFactory, RunnerWrapper
    from pegbox.measure.trial import CandidateArrays, run_interleaved, run_trial
    from pegbox.measure.trial.bench import Bench
    from pegbox.measure.trial.check import Tolerance
    from pegbox.measure.trial.timing import TimingPolicy
    from pegbox.private_folder import ProcessFolder

__all__ = [
    "GIVEN_UP",
    "RUN_GIVEN_UP",
    "WAITED",
    "WARM",
    "Asked",
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
    "Yardstick",
    "blas_threads",
    "memory_share",
    "run_interleaved",
    "run_trial",
]  # fmt: skip

_NAMES = {
    "pegbox.measure.trial.bench": "Bench",
    "pegbox.measure.machine.blas": "blas_threads",
    "pegbox.measure.pipeline.builder": "GIVEN_UP WARM Builder",
    "pegbox.measure.trial.check": "Tolerance",
    "pegbox.measure.machine.cores": "CorePlan",
    "pegbox.measure.pipeline.local": "LocalMeasurer",
    "pegbox.measure.measurer": "Measurer",
    "pegbox.measure.machine.memory": "memory_share",
    "pegbox.measure.jobs.lowering": "Lowered Lowering",
    "pegbox.measure.jobs.reply": "Asked",
    "pegbox.measure.result": "Failed FailureKind Ok Result",
    "pegbox.measure.baselines.roofline": "Roofline",
    "pegbox.measure.runners.runner": "RUN_GIVEN_UP Runner RunnerFactory RunnerWrapper",
    "pegbox.measure.trial.timing": "TimingPolicy",
    "pegbox.measure.trial": "CandidateArrays run_interleaved run_trial",
    "pegbox.measure.baselines.yardstick": "WAITED Yardstick",
    "pegbox.private_folder": "ProcessFolder",
}

__getattr__ = on_demand(__name__, by_name(_NAMES))


def __dir__() -> list[str]:
    return __all__
