"""`Objective`: a function to minimize, with its space; pegbox calls it in this process."""

from __future__ import annotations

import inspect
import math
import os
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from pegbox.checks import check_callable, check_instance, check_int, check_text
from pegbox.errors import ArgumentError, SpaceError
from pegbox.measure.pipeline.measurer import Measurer
from pegbox.measure.result import Failed, FailureKind, Ok, Result
from pegbox.origin import explained, origin_of
from pegbox.records.record import FUNCTION
from pegbox.space import Config, ConfigSpace
from pegbox.space.entities import KnobEntity
from pegbox.task.code_fingerprint import code_fingerprint

CostFunction: TypeAlias = Callable[[Config], float]
"""A function that returns the cost of a configuration: a finite number above 0; lower is better."""

_SPACE = (
    "a pegbox.ConfigSpace, as in space = pegbox.ConfigSpace(); space.define_knob('block', [16, 32, 64]); the function "
    "reads config['block'].val"
)


class Objective:
    """A user's function with the space of its configurations, for `minimize` and `compare`.

    Args:
        function: a function of a configuration, whose values it reads as in a template (`config["block"].val`), that
            returns its cost: a finite number above 0; lower is better. If it raises, or returns anything else, the
            trial fails with the reason.
        space: the configurations.
        name: the name for tables and records; by default the function's own.
        repeat: the number of calls for each configuration; the median of their costs counts. With several calls, costs
            are taken to be noisy: at the end, the best few are called again, interleaved.
        unit: the unit of the costs, for people; "s" is shown as ms or us if that is more readable. By default, costs
            are plain numbers.
        pure: True if the cost depends on the configuration alone, not on the load of the machine. `compare(jobs=N)` may
            then call the function in several processes at once.

    Raises:
        ArgumentError: `function` does not take one argument, `space` is not a space, or another argument is outside its
            domain.
    """

    flop = 0.0
    args: tuple[()] = ()
    target = FUNCTION

    def __init__(
        self,
        function: CostFunction,
        space: ConfigSpace,
        *,
        name: str | None = None,
        repeat: int = 1,
        unit: str = "",
        pure: bool = False,
    ) -> None:
        self.function = _checked(function)
        self.space = check_instance("space", space, ConfigSpace, _SPACE)
        self.name = _name_of(function) if name is None else check_text("name", name)
        self.repeat = check_int("repeat", repeat, maximum=1_000_000)
        self.unit = check_text("unit", unit)
        self.pure = check_instance("pure", pure, bool, "True, or False for a function that times something")
        self.kwargs: dict[str, Any] = {}
        self.code = code_fingerprint(function)  # computed now, because calls may change the function's closure

    @property
    def workload(self) -> tuple[str, dict[str, Any]]:
        """The key of its records."""
        return (self.name, self.kwargs)

    @property
    def fingerprint(self) -> str:
        """The fingerprint of the space, for records."""
        return self.space.fingerprint

    def __repr__(self) -> str:
        return f"<Objective {self.name} over {self.space.size:,} configurations>"


class ObjectiveMeasurer(Measurer):
    """A measurer that calls the function in this process, one configuration after the other."""

    def __init__(self, objective: Objective) -> None:
        self._objective = objective

    def measure(self, configs: Sequence[Config]) -> Iterator[tuple[Config, Result]]:
        for config in configs:
            yield config, self.remeasure([config])[0]

    def remeasure(self, configs: Sequence[Config]) -> list[Result]:
        """Call the function for each configuration in turn, `repeat` times."""
        calls: list[list[_Evaluation]] = [[] for _ in configs]
        for _ in range(self._objective.repeat):
            for config, done in zip(configs, calls, strict=True):
                if not done or done[-1].fault is None:
                    done.append(_Evaluation.of(self._objective.function, config))
        return [_result(done) for done in calls]

    def beside(self) -> None:
        """Allow no work while the function runs, because it may be timing itself."""


class _Evaluation(NamedTuple):
    """A call of the function: its cost or the fault, and its seconds."""

    cost: float
    fault: str | None
    seconds: float

    @classmethod
    def of(cls, function: CostFunction, config: Config) -> _Evaluation:
        began = time.perf_counter()
        try:
            value: object = function(config)
        except (Exception, SystemExit) as error:  # sys.exit() ends this call, not the search
            return cls(math.inf, _raised(error), time.perf_counter() - began)
        seconds = time.perf_counter() - began
        cost = number_of(value)
        return cls(math.inf if cost is None else cost, _fault(value, cost), seconds)


def number_of(value: object) -> float | None:
    """Convert a cost to a float; None for text, a truth value, or an array of several numbers."""
    if isinstance(value, bool | np.bool_ | str | bytes) or value is None:
        return None
    try:
        return float(value)  # type: ignore[arg-type]  # whatever can be made one
    except (TypeError, ValueError, OverflowError, SpaceError):  # SpaceError for a knob in place of its value
        return None


def _fault(value: object, cost: float | None) -> str | None:
    """Explain why the value cannot be a cost; None if it can."""
    if cost is not None and 0.0 < cost < math.inf:
        return None
    if cost is not None and cost <= 0.0:
        return f"the function returned {value!r}: a cost is above 0; add a constant, or return exp(cost) or 1 / speed"
    kind = "" if cost is not None else f" of type {type(value).__name__}"
    remedy = f"; {value.reading}" if isinstance(value, KnobEntity) else ""
    return f"the function returned {value!r}{kind}: a cost must be a finite number above 0; lower is better{remedy}"


def _raised(error: BaseException) -> str:
    """Describe the error and the line of the user's code, or else the traceback's last line."""
    place = origin_of(error)
    if not place:
        last = traceback.extract_tb(error.__traceback__)[-1]
        place = f"{os.path.basename(last.filename)}:{last.lineno}"
    return f"{explained(error)} ({place})"


def _result(calls: Sequence[_Evaluation]) -> Result:
    spent, now = sum(call.seconds for call in calls), time.time()
    if (fault := calls[-1].fault) is not None:
        return Failed(FailureKind.RUN_ERROR, fault, spent, now, {"run": spent})
    return Ok(tuple(call.cost for call in calls), spent, now, {"run": spent})


def _checked(function: CostFunction) -> CostFunction:
    """Return the function. Raises `ArgumentError` if it cannot be called with one configuration."""
    wanted = "a function of one configuration that returns its cost, a number above 0"
    check_callable("function", function, wanted)
    try:
        inspect.signature(function).bind(None)
    except TypeError as error:
        raise ArgumentError(
            f"function={_name_of(function)}{inspect.signature(function)}: it must take one argument, the "
            f"configuration ({error}); give {wanted}"
        ) from None
    except ValueError:  # functions in C may have no signature
        pass
    return function


def _name_of(function: Any) -> str:
    while isinstance(function, partial):
        function = function.func
    return str(getattr(function, "__name__", None) or type(function).__name__)
