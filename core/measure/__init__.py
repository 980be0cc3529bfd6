"""Measuring: candidates in, `Ok` or `Failed` out. Importing this loads NumPy, and no LLVM."""

from pegbox.measure.bench import Bench
from pegbox.measure.check import Tolerance
from pegbox.measure.cores import CorePlan
from pegbox.measure.local import LocalMeasurer
from pegbox.measure.result import Failed, FailureKind, Ok, Result
from pegbox.measure.runner import Runner, RunnerFactory
from pegbox.measure.timing import TimingPolicy

__all__ = [
    "Bench",
    "CorePlan",
    "Failed",
    "FailureKind",
    "LocalMeasurer",
    "Ok",
    "Result",
    "Runner",
    "RunnerFactory",
    "TimingPolicy",
    "Tolerance",
]
