"""Builders and runners of `autotvm` and `auto_scheduler`: options of pegbox's own measuring, by TVM's names."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from pegbox.errors import ArgumentError
from pegbox.measure import Result
from pegbox.plugins.tvm.absence import refuse
from pegbox.records import Journal, Record, autotvm_result
from pegbox.search import Callback, SearchState, Session, Trial

if TYPE_CHECKING:
    from pegbox.task import Task


class MeasureErrorNo:
    """The numbers of failures."""

    NO_ERROR = 0
    INSTANTIATION_ERROR = 1
    COMPILE_HOST = 2
    COMPILE_DEVICE = 3
    RUNTIME_DEVICE = 4
    WRONG_ANSWER = 5
    BUILD_TIMEOUT = 6
    RUN_TIMEOUT = 7
    UNKNOWN_ERROR = 8


class LocalBuilder:
    """The options of building, in processes of this machine; others have pegbox's defaults.

    Args:
        timeout: the seconds that a build may take.
        n_parallel: the number of processes.
    """

    def __init__(self, timeout: float | None = None, n_parallel: int | None = None, **absent: Any) -> None:
        refuse("LocalBuilder", absent)
        self.options = _given(build_timeout=timeout, builders=n_parallel)


class LocalRunner:
    """The options of running, one candidate at a time in a separate process; the others have pegbox's defaults.

    Args:
        timeout: the seconds that a trial may take.
        number: the calls of one timing; pegbox counts them itself, so that they last `min_repeat_ms`.
        repeat: the number of timings.
        min_repeat_ms: the least duration of one timing.
        enable_cpu_cache_flush: empty the caches before each timing, which is then a single call.
    """

    def __init__(
        self,
        timeout: float = 10,
        number: int | None = None,
        repeat: int | None = None,
        min_repeat_ms: float | None = None,
        *,
        enable_cpu_cache_flush: bool = False,
        **absent: Any,
    ) -> None:
        refuse("LocalRunner", absent)
        self.timeout = timeout
        flush = enable_cpu_cache_flush or None
        self.options = _given(repeats=repeat, min_repeat_ms=min_repeat_ms or None, flush_cache=flush)


def _given(**options: Any) -> dict[str, Any]:
    return {name: value for name, value in options.items() if value is not None}


def measuring(builder: object, runner: object) -> dict[str, Any]:
    """Return the arguments of `Session.round` for a builder and a runner; each is "local" or an object.

    Raises `ArgumentError` for anything else.
    """
    builder = LocalBuilder() if builder == "local" else builder
    runner = LocalRunner() if runner == "local" else runner
    if not isinstance(builder, LocalBuilder):
        raise ArgumentError(f"builder={builder!r}: give 'local' or a LocalBuilder(...)")
    if not isinstance(runner, LocalRunner):
        raise ArgumentError(f"runner={runner!r}: give 'local' or a LocalRunner(...)")
    return {"timeout": runner.timeout, "measure_options": {**builder.options, **runner.options}}


def result_of(number: int, costs: tuple[Any, ...], total: float, timestamp: float, message: str) -> Result:
    """Return a result of pegbox. Raises `ArgumentError` for costs that are not times, or an unknown error number."""
    seconds = [] if number else [*map(float, costs)]  # numbers of NumPy are welcome; failures have other costs
    return autotvm_result(int(number), seconds, float(total), float(timestamp), message=message)


class Log(Callback):
    """A callback that appends the trials of a session to a file of records, before anything else sees them."""

    essential = True

    def __init__(self, journal: Journal, task: Task, session: Session, tuner: str = "") -> None:
        self._journal = journal
        self._record = functools.partial(
            Record.of, task, tuner=tuner or session.name, seed=session.seed, run=session.run
        )

    def on_trial(self, trial: Trial, state: SearchState) -> None:
        self._journal.append(self._record(trial.config, trial.result))

    def on_remeasured(self, trial: Trial, state: SearchState) -> None:
        record = self._record(trial.config, trial.result, remeasured=True, baseline=state.baseline)
        self._journal.append(record)
