"""Measuring: builds, checks and times candidates; the result is `Ok` or `Failed`.

Names are imported when they are first used: the processes that compile candidates need neither NumPy nor plugins.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pegbox.exports import on_demand

if TYPE_CHECKING:
    from pegbox.measure.machine.cores import CorePlan
    from pegbox.measure.measurer import Measurer
    from pegbox.measure.pipeline.local import LocalMeasurer
    from pegbox.measure.result import Failed, FailureKind, Ok, Result
    from pegbox.measure.runners.runner import Runner, RunnerFactory, RunnerWrapper
    from pegbox.measure.trial.bench import Bench
    from pegbox.measure.trial.check import Tolerance
    from pegbox.measure.trial.timing import TimingPolicy

__all__ = [
    "Bench",
    "CorePlan",
    "Failed",
    "FailureKind",
    "LocalMeasurer",
    "Measurer",
    "Ok",
    "Result",
    "Runner",
    "RunnerFactory",
    "RunnerWrapper",
    "TimingPolicy",
    "Tolerance",
]

__getattr__ = on_demand(
    __name__,
    {
        "Bench": "pegbox.measure.trial.bench",
        "CorePlan": "pegbox.measure.machine.cores",
        "Failed": "pegbox.measure.result",
        "FailureKind": "pegbox.measure.result",
        "LocalMeasurer": "pegbox.measure.pipeline.local",
        "Measurer": "pegbox.measure.measurer",
        "Ok": "pegbox.measure.result",
        "Result": "pegbox.measure.result",
        "Runner": "pegbox.measure.runners.runner",
        "RunnerFactory": "pegbox.measure.runners.runner",
        "RunnerWrapper": "pegbox.measure.runners.runner",
        "TimingPolicy": "pegbox.measure.trial.timing",
        "Tolerance": "pegbox.measure.trial.check",
    },
)


def __dir__() -> list[str]:
    return sorted(__all__)
