"""Measuring: builds, checks and times candidates; the result is `Ok` or `Failed`.

Names are imported when they are first used: the processes that compile candidates need neither NumPy nor plugins.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pegbox.exports import by_name, on_demand

if TYPE_CHECKING:
    from pegbox.measure.bench import Bench
    from pegbox.measure.blas import blas_threads
    from pegbox.measure.builder import GIVEN_UP, Builder
    from pegbox.measure.check import Tolerance
    from pegbox.measure.cores import CorePlan
    from pegbox.measure.local import LocalMeasurer
    from pegbox.measure.memory import memory_share
    from pegbox.measure.reply import Asked
    from pegbox.measure.result import Failed, FailureKind, Ok, Result
    from pegbox.measure.roofline import Roofline
    from pegbox.measure.runner import Runner, RunnerFactory, RunnerWrapper
    from pegbox.measure.timing import TimingPolicy
    from pegbox.measure.trial import Stage, run_interleaved, run_trial
    from pegbox.measure.yardstick import WAITED, Yardstick
    from pegbox.private_folder import ProcessFolder

__all__ = [
    "GIVEN_UP", "WAITED", "Asked", "Bench", "Builder", "CorePlan", "Failed", "FailureKind", "LocalMeasurer", "Ok",
    "ProcessFolder", "Result", "Roofline", "Runner", "RunnerFactory", "RunnerWrapper", "Stage", "TimingPolicy",
    "Tolerance", "Yardstick", "blas_threads", "memory_share", "run_interleaved", "run_trial",
]  # fmt: skip

_NAMES = {
    "pegbox.measure.bench": "Bench",
    "pegbox.measure.blas": "blas_threads",
    "pegbox.measure.builder": "GIVEN_UP Builder",
    "pegbox.measure.check": "Tolerance",
    "pegbox.measure.cores": "CorePlan",
    "pegbox.measure.local": "LocalMeasurer",
    "pegbox.measure.memory": "memory_share",
    "pegbox.measure.reply": "Asked",
    "pegbox.measure.result": "Failed FailureKind Ok Result",
    "pegbox.measure.roofline": "Roofline",
    "pegbox.measure.runner": "Runner RunnerFactory RunnerWrapper",
    "pegbox.measure.timing": "TimingPolicy",
    "pegbox.measure.trial": "Stage run_interleaved run_trial",
    "pegbox.measure.yardstick": "WAITED Yardstick",
    "pegbox.private_folder": "ProcessFolder",
}

__getattr__ = on_demand(__name__, by_name(_NAMES))


def __dir__() -> list[str]:
    return __all__
