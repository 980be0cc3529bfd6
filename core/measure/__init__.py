"""Measuring: builds, checks and times candidates; the result is `Ok` or `Failed`.

Names are imported when they are first used: the processes that compile candidates need neither NumPy nor plugins.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pegbox.exports import by_name, on_demand

if TYPE_CHECKING:
    from pegbox.measure.bench import Bench
    from pegbox.measure.blas import blas_threads
    from pegbox.measure.check import Tolerance
    from pegbox.measure.cores import CorePlan
    from pegbox.measure.local import LocalMeasurer
    from pegbox.measure.result import Failed, FailureKind, Ok, Result
    from pegbox.measure.runner import (
        BuildingRunner,
        ClusterRunner,
        Runner,
        RunnerFactory,
        RunnerWrapper,
        TargetRunner,
        YardstickRunner,
    )
    from pegbox.measure.timing import TimingPolicy
    from pegbox.measure.trial import Stage, run_interleaved, run_trial
    from pegbox.measure.yardstick import WAITED, Yardstick

__all__ = [
    "WAITED", "Bench", "BuildingRunner", "ClusterRunner", "CorePlan", "Failed", "FailureKind", "LocalMeasurer",
    "Ok", "Result", "Runner", "RunnerFactory", "RunnerWrapper", "Stage", "TargetRunner", "TimingPolicy",
    "Tolerance", "Yardstick", "YardstickRunner", "blas_threads", "run_interleaved", "run_trial",
]  # fmt: skip

_NAMES = {
    "pegbox.measure.bench": "Bench",
    "pegbox.measure.blas": "blas_threads",
    "pegbox.measure.check": "Tolerance",
    "pegbox.measure.cores": "CorePlan",
    "pegbox.measure.local": "LocalMeasurer",
    "pegbox.measure.result": "Failed FailureKind Ok Result",
    "pegbox.measure.runner": (
        "BuildingRunner ClusterRunner Runner RunnerFactory RunnerWrapper TargetRunner YardstickRunner"
    ),
    "pegbox.measure.timing": "TimingPolicy",
    "pegbox.measure.trial": "Stage run_interleaved run_trial",
    "pegbox.measure.yardstick": "WAITED Yardstick",
}

__getattr__ = on_demand(__name__, by_name(_NAMES))


def __dir__() -> list[str]:
    return __all__
