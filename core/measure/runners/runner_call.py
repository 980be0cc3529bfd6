"""Calls of a plugin's runner, which report its faults with its name, its line, and the expected behaviour."""

from __future__ import annotations

import inspect
import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pegbox.checks import check_mapping
from pegbox.errors import ArgumentError, MeasureError, PegboxError
from pegbox.measure.result import Failed, Ok, Result
from pegbox.measure.runners.runner import (
    GIVEN,
    Runner,
    RunnerFactory,
    RunnerLike,
    RunnerWrapper,
    class_of,
    runner_factory,
    runner_name,
)
from pegbox.measure.trial.bench import Bench
from pegbox.origin import definition_of, explained, located, users_level

if TYPE_CHECKING:
    from pegbox.codegen import CompiledProgram, Target

_RAISES = (
    "; return a fault of the candidate as pegbox.measure.Failed(kind, message); only a runner that cannot "
    "work at all raises pegbox.errors.MeasureError"
)
_RESULT = (
    "return pegbox.measure.Ok((seconds, ...)) with the seconds of a call for each repeat, or "
    "pegbox.measure.Failed(kind, message)"
)


def check_runner_factory(name: str, factory: RunnerFactory) -> None:
    """Raise `ArgumentError` unless the factory has the signature of a runner's factory."""
    try:
        signature = inspect.signature(factory)
    except (TypeError, ValueError):  # it is written in C
        return
    try:
        signature.bind(None, **dict.fromkeys(sorted(GIVEN)))
    except TypeError as error:
        is_tuner = all(hasattr(factory, method) for method in ("ask", "tell"))
        other = "; this is a tuner: give it as tuner= (--tuner)" if is_tuner else ""
        fault = ArgumentError(
            f"runner {name!r} cannot be made as factory(bench, *, timing, cores, max_memory): {error}; its "
            f"signature is {signature}{other}"
        )
        fault.source = _defined(getattr(factory, "__init__", factory) if isinstance(factory, type) else factory)
        raise fault from None


class CheckedFactory:
    """A runner as a user gives it, with its options, until it is made.

    Raises:
        UnknownName: there is no such runner.
        ArgumentError: the runner lacks an option, or the value is not a runner.
    """

    def __init__(self, runner: RunnerLike, options: Mapping[str, Any] | None) -> None:
        given = check_mapping("runner_options", {} if options is None else options, "the runner's options by name")
        self._factory = runner_factory(runner, given)
        self._name = runner_name(runner)
        check_runner_factory(self._name, self._factory)
        self.is_cluster = class_of(self._factory).cluster
        """True if the runner measures on other machines."""

    def make(self, bench: Bench, **given: Any) -> CheckedRunner:
        """Make the runner. Raises `MeasureError` if its factory raises, or returns something else."""
        return CheckedRunner(self._name, self._factory, bench, **given)


class CheckedRunner(RunnerWrapper):
    """A plugin's runner, whose faults become `MeasureError` with its `name`.

    The factory makes it with the bench, and with the keywords `given` to every runner.
    """

    def __init__(self, name: str, factory: RunnerFactory, bench: Bench, **given: Any) -> None:
        self.name = name
        made = self._called("its factory", lambda: factory(bench, **given))
        if not isinstance(made, Runner):
            raise MeasureError(
                f"runner {name!r} made a {type(made).__name__} instead of a pegbox.measure.Runner; derive it from "
                "that class, and define run(program, *, best=inf) and rerun(programs)"
            )
        super().__init__(made)
        self._check_takes_best(made)

    @property
    def uneven(self) -> str:
        """The reason why a search and its finalists may disagree: the runner overrides only one of the two methods."""
        changed = _changed_alone(type(self.inner))
        other = {"run": "rerun(), which times the finalists", "rerun": "run(), which times the trials"}
        return f"runner {self.name!r} changes {changed}() but not {other[changed]}" if changed else ""

    def run(self, program: CompiledProgram, *, best: float = math.inf) -> Result:
        """See `Runner`. Raises `MeasureError` if the runner raises, or does not return a result."""
        result = self._called("run()", lambda: self.inner.run(program, best=best))
        return self._checked("run", result)

    def rerun(self, programs: Sequence[CompiledProgram]) -> list[Result]:
        """See `Runner`. Raises as `run` does."""
        results = self._called("rerun()", lambda: self.inner.rerun(programs))
        if not isinstance(results, list | tuple) or len(results) != len(programs):
            what = f"gave {_shown(results)} for {len(programs)} programs; return a list of as many results"
            raise self._fault("rerun", what)
        return [self._checked("rerun", result) for result in results]

    def check_target(self, target: Target) -> None:
        """See `Runner`. Raises `MeasureError` if no candidate for the target can run."""
        self._called("check_target()", lambda: self.inner.check_target(target), remedy="")

    def interrupt(self) -> None:
        """See `Runner`. Raises `MeasureError` where the runner raised."""
        self._called("interrupt()", self.inner.interrupt, remedy="")

    def close(self) -> None:
        """See `Runner`. Raises `MeasureError` where the runner raised."""
        self._called("close()", self.inner.close, remedy="")

    def _checked(self, method: str, result: object) -> Result:
        costs: object = result.costs if isinstance(result, Ok) else ()
        timed = isinstance(costs, tuple | list) and costs and all(hasattr(cost, "__float__") for cost in costs)
        if isinstance(result, Failed) or (isinstance(result, Ok) and timed):
            return result
        raise self._fault(method, f"gave {_shown(result)}; {_RESULT}")

    def _check_takes_best(self, runner: Runner) -> None:
        try:
            inspect.signature(runner.run).bind(None, best=math.inf)
        except TypeError as error:
            what = (
                f"cannot be called as run(program, best=seconds): {error}; define run(self, program, *, best=math.inf)"
            )
            raise self._fault("run", what) from None
        except ValueError:  # it is written in C
            return

    def _fault(self, method: str, what: str) -> MeasureError:
        fault = MeasureError(f"runner {self.name!r}: {method}() {what}")
        fault.source = _defined(getattr(self.inner, method))
        return fault

    def _called(self, what: str, call: Callable[[], Any], remedy: str = _RAISES) -> Any:
        try:
            return call()
        except PegboxError:
            raise
        except Exception as error:
            message = f"runner {self.name!r}: {what} raised {explained(error)}{remedy}"
            raise located(MeasureError(message), error) from error


def end(call: Callable[[], None]) -> None:
    """Interrupt or close a checked runner at its end; turn an error into a warning."""
    try:
        call()
    except PegboxError as error:
        warnings.warn(str(error), RuntimeWarning, stacklevel=users_level())


def _changed_alone(kind: type[Runner]) -> str:
    """Find which of `run` and `rerun` a class overrides without the other, relative to a class with both; else ""."""
    changed: set[str] = set()
    for each in kind.__mro__:
        own = {"run", "rerun"} & vars(each).keys()
        if len(own) == 2:
            break
        changed |= own
    return changed.pop() if len(changed) == 1 else ""


def _defined(function: Any) -> str:
    return definition_of(function) if callable(function) else ""


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
