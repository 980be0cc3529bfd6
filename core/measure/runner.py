"""The protocol of runners, which turn compiled candidates into results (plugin kind "runner")."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, runtime_checkable

from pegbox.errors import ArgumentError
from pegbox.hooks import registry
from pegbox.hooks.options import bind_options
from pegbox.hooks.spec import parse_spec
from pegbox.measure.bench import Bench
from pegbox.measure.cores import CorePlan
from pegbox.measure.result import Failed, Result
from pegbox.measure.timing import TimingPolicy
from pegbox.shown import value_text

if TYPE_CHECKING:
    from distributed import Client

    from pegbox.codegen import CompiledProgram, Program, Target
    from pegbox.compute.numpy_program import NumpyProgram
    from pegbox.measure.roofline import Roofline

GIVEN = frozenset({"timing", "cores", "max_memory"})
"""What a runner is given without being told so by the user."""


@runtime_checkable
class Runner(Protocol):
    """Runs compiled candidates of one task, one at a time, somewhere.

    Whatever a candidate does comes back as a `Failed`: an endless loop as TIMEOUT, a fatal signal as CRASH, a wrong
    answer as WRONG_RESULT, a Python-level error (out of memory among them) as RUN_ERROR. Only a runner that cannot
    work at all raises, `MeasureError`. After any failure the next candidate gets a sound runner. A runner's own
    check against the bench may be left to `pegbox.measure.trial.run_trial`, timing included. The suite that every
    runner must pass is `pegbox.testing.RunnerContract`.
    """

    def run(self, program: CompiledProgram, *, best: float = math.inf) -> Result:
        """Check and time one candidate; `best` is the best cost so far, in seconds per call."""
        ...

    def rerun(self, programs: Sequence[CompiledProgram]) -> list[Result]:
        """Time candidates that have run well before, interleaved: A B C A B C ...; one result for each, in order."""
        ...

    def interrupt(self) -> None:
        """Give up the run in progress, if any. Called from another thread than `run`, which then returns a Failed."""
        ...

    def close(self) -> None:
        """Release everything; no call follows. May be called while `run` is in progress, and twice."""
        ...


@runtime_checkable
class YardstickRunner(Protocol):
    """A runner that can also say what results are compared with, on the machine where it runs candidates."""

    def time_numpy(self, program: NumpyProgram, *, threads: int) -> Sequence[float] | float | None:
        """Seconds that NumPy takes for the bench with so many threads, each of a few timings of a warm call; None where
        it takes too long, or fails. It is asked before and after the finalists are timed."""
        ...

    def roofline(self, dtype: str, nbytes: int, target: Target) -> Roofline | None:
        """The limits of as many cores as the target has; `nbytes` are each one's (`roofline.size_class`)."""
        ...


@runtime_checkable
class TargetRunner(Protocol):
    """A runner that says beforehand whether it can run code for a target. It is asked before anything is compiled."""

    def check_target(self, target: Target) -> None:
        """Raise `MeasureError`, with a remedy, where no candidate for the target can run."""
        ...


@runtime_checkable
class ClusterRunner(Protocol):
    """A runner of other machines: `run` may be called from many threads, and as many candidates are on their way.

    It measures as many of them at the same time as there are machines. Where the factory is the class of the runner,
    the runner is made before anything is compiled, and no core of this machine is kept free for timing. It may have
    `dashboard`, the address of a page that shows what the machines do, `cores`, of each of them, and `where`, what
    people are told of the place ("on 2 machines" by default).
    """

    @property
    def machines(self) -> int:
        """How many candidates are measured at the same time now, at least 1; machines come and go."""
        ...

    @property
    def host(self) -> str:
        """The kind of the machines, as records name it in place of this machine."""
        ...


@runtime_checkable
class BuildingRunner(Protocol):
    """A cluster whose machines also compile. What this machine's builders are too busy for is compiled there."""

    @property
    def builders(self) -> int:
        """How many programs can be compiled at the same time now without keeping a machine from timing; 0 for none."""
        ...

    def build(self, program: Program, *, timeout: float) -> CompiledProgram | Failed | None:
        """Compile for so many seconds at most, from any thread; None where no machine can. `interrupt` gives it up."""
        ...

    def building_here(self, given_up: Callable[[], bool]) -> AbstractContextManager[None]:
        """What this machine compiles itself is compiled in the body: it may be one of those that time.

        Raises `GivenUp` where `given_up()`, which is to be looked at while it waits, becomes true first.
        """
        ...


def is_cluster(factory: RunnerFactory) -> bool:
    """Whether the factory is a class of runners that measure on other machines."""
    return hasattr(getattr(factory, "func", factory), "machines")


class RunnerWrapper:
    """A runner that passes everything on to another one; derive from it, and override what is different.

    Args:
        inner: the other runner. One that says nothing of what results are compared with is no hindrance.
    """

    def __init__(self, inner: Runner) -> None:
        self.inner = inner

    def run(self, program: CompiledProgram, *, best: float = math.inf) -> Result:
        """See `Runner`."""
        return self.inner.run(program, best=best)

    def rerun(self, programs: Sequence[CompiledProgram]) -> list[Result]:
        """See `Runner`."""
        return self.inner.rerun(programs)

    def interrupt(self) -> None:
        """See `Runner`."""
        self.inner.interrupt()

    def close(self) -> None:
        """See `Runner`."""
        self.inner.close()

    def check_target(self, target: Target) -> None:
        """See `TargetRunner`; nothing is checked where the other runner is none."""
        if isinstance(self.inner, TargetRunner):
            self.inner.check_target(target)

    def time_numpy(self, program: NumpyProgram, *, threads: int) -> Sequence[float] | float | None:
        """See `YardstickRunner`; None where the other runner is none."""
        return self.inner.time_numpy(program, threads=threads) if isinstance(self.inner, YardstickRunner) else None

    def roofline(self, dtype: str, nbytes: int, target: Target) -> Roofline | None:
        """See `YardstickRunner`; None where the other runner is none."""
        return self.inner.roofline(dtype, nbytes, target) if isinstance(self.inner, YardstickRunner) else None


class RunnerFactory(Protocol):
    """What a plugin registers under the name of a runner. Called once per measurer, from any thread."""

    def __call__(
        self, bench: Bench, *, timing: TimingPolicy, cores: CorePlan, max_memory: int | None, **options: Any
    ) -> Runner:
        """A runner for candidates of one task. `max_memory` is in bytes, None leaves memory unlimited; `options`
        are what the user gave for this runner."""
        ...


RunnerLike: TypeAlias = "str | RunnerFactory | Client"
"""What users may give as `runner=`: a name with options, "file.py:Class", "module:attribute", a factory, or the client
of a Dask cluster."""

_CLIENTS = {"distributed.client.Client": ("dask", "scheduler")}
"""Classes whose objects stand for a runner, by name, so that nothing is imported: the runner, its option for them."""


def runner_name(runner: RunnerLike) -> str:
    """What messages call the runner."""
    return _read(runner)[1]


def runner_factory(runner: RunnerLike, options: Mapping[str, object]) -> RunnerFactory:
    """The factory that `runner` means, with its options bound.

    `options` come on top of those in a spec ("patient:spread=0.1") and win over them.
    Raises `UnknownName` for an unknown runner, `ArgumentError` for an option that it does not have, and for what is no
    runner.
    """
    ref, name, own = _read(runner)
    factory: RunnerFactory = registry.resolve("runner", ref)
    bound: dict[str, Any] = bind_options(f"runner {name!r}", factory, {**own, **options}, but=GIVEN)
    return functools.partial(factory, **bound) if bound else factory


def _read(runner: Any) -> tuple[Any, str, Mapping[str, Any]]:
    """A reference to a factory or the factory itself, what messages call it, and its options."""
    if isinstance(runner, str):
        spec = parse_spec(runner)
        return spec.name, spec.name, spec.options
    for parent in type(runner).__mro__:
        if (found := _CLIENTS.get(f"{parent.__module__}.{parent.__qualname__}")) is not None:
            name, option = found
            return name, name, {option: runner}
    if not callable(runner):
        made = isinstance(runner, Runner)
        remedy = "it is made already: give its class" if made else "give a runner's name, its class, or a Dask client"
        raise ArgumentError(
            f"runner={value_text(runner)} makes no runner, it is of type {type(runner).__name__}; {remedy}"
        )
    return runner, str(getattr(runner, "__name__", runner)), {}
