"""The base class of runners, which turn compiled candidates into results (plugin kind "runner")."""

from __future__ import annotations

import functools
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeAlias

from pegbox.errors import ArgumentError
from pegbox.hooks.options import bind_options
from pegbox.hooks.refs import parse_spec
from pegbox.measure.machine.cores import CorePlan
from pegbox.measure.result import Failed, FailureKind, Result
from pegbox.measure.trial.bench import Bench
from pegbox.measure.trial.timing import TimingPolicy
from pegbox.shown import value_text

if TYPE_CHECKING:
    from pegbox.codegen import CompiledProgram, Program, Target
    from pegbox.comparison.pool import RunPool
    from pegbox.compute.numpy_program import NumpyProgram
    from pegbox.measure.baselines.roofline import Roofline
    from pegbox.measure.trial.lowering import Lowered, Lowering

RUN_GIVEN_UP = Failed(FailureKind.CRASH, "the run was given up")
"""The result of a run that was interrupted."""

GIVEN = frozenset({"timing", "cores", "max_memory"})
"""The arguments that a runner is given although the user did not name them."""


class Runner(ABC):
    """Runs compiled candidates of one task, one at a time, somewhere; derive from it.

    Whatever a candidate does comes back as a `Failed`: an endless loop as TIMEOUT, a fatal signal as CRASH, a wrong
    answer as WRONG_RESULT, a Python-level error (out of memory among them) as RUN_ERROR. Only a runner that cannot
    work at all raises, `MeasureError`. After any failure the next candidate gets a sound runner. A runner's own
    check against the bench may be left to `pegbox.measure.trial.trial.run_trial`, timing included. The suite that every
    runner must pass is `pegbox.testing.RunnerContract`.

    A class for other machines sets `cluster`. Then the runner is made before anything is compiled, no core of this
    machine is kept free for timing, and `run` is called from many threads: as many candidates are on their way.
    """

    cluster: ClassVar[bool] = False
    """True if candidates run on other machines."""

    run_pool: ClassVar[Callable[..., RunPool] | None] = None
    """Opens a pool that makes runs of a comparison, `run_pool(payload, **options)`; None if there is none."""

    @property
    def compares(self) -> bool:
        """True if `time_numpy` and `roofline` may return something."""
        return False

    @property
    def machines(self) -> int:
        """The number of candidates that are measured at the same time now, at least 1; machines come and go."""
        return 1

    @property
    def host(self) -> str:
        """The kind of the machines, as records name it; empty for this machine."""
        return ""

    @property
    def where(self) -> str:
        """The place in words ("on 2 machines"); empty for this machine."""
        return f"on {self.machines} machine{'s' if self.machines != 1 else ''}" if self.cluster else ""

    @property
    def cores(self) -> int | None:
        """The number of cores of each machine of a cluster, if known."""
        return None

    @property
    def builders(self) -> int:
        """The number of programs that a cluster can compile now without keeping a machine from timing."""
        return 0

    @abstractmethod
    def run(self, program: CompiledProgram, *, best: float = math.inf) -> Result:
        """Check and time one candidate; `best` is the best cost so far, in seconds per call."""

    @abstractmethod
    def rerun(self, programs: Sequence[CompiledProgram]) -> list[Result]:
        """Time candidates that have run well before, interleaved: A B C A B C ...; one result for each, in order."""

    def interrupt(self) -> None:  # noqa: B027 - a runner without processes has nothing to give up
        """Give up the run in progress, if any. Called from another thread than `run`, which then returns a Failed."""

    def close(self) -> None:  # noqa: B027
        """Release everything; no call follows. May be called while `run` is in progress, and twice."""

    def check_target(self, target: Target) -> None:  # noqa: B027
        """Raise `MeasureError`, with a remedy, if no candidate for the target can run. Called before compilations."""

    def time_numpy(self, program: NumpyProgram, *, threads: int) -> Sequence[float] | float | None:
        """Return the seconds that NumPy takes for the bench with so many threads, of each of a few warm calls.

        None if it takes too long, or fails. It is asked before and after the finalists are timed.
        """
        return None

    def roofline(self, dtype: str, nbytes: int, target: Target) -> Roofline | None:
        """Return the limits of as many cores as the target has; `nbytes` are each one's (`roofline.size_class`)."""
        return None

    @property
    def lowers(self) -> bool:
        """True if `build` takes a `Lowering`, too, as `Builder.build` does. A runner that compiles nothing leaves both
        to this machine's builders."""
        return type(self).build is Runner.build

    def build(self, job: Program | Lowering, *, timeout: float) -> CompiledProgram | Lowered | Failed | None:
        """Compile on the cluster for so many seconds at most, from any thread; `interrupt` gives it up.

        Asked if this machine's builders are busy and there are `builders`. None if no machine can.
        """
        return None

    def building_here(self, given_up: Callable[[], bool]) -> AbstractContextManager[None]:
        """Enclose a compilation on this machine, which may be one of those that time.

        Raises `GivenUp` if `given_up()`, which is looked at while it waits, becomes true first.
        """
        return nullcontext()


class RunnerWrapper(Runner):
    """A runner that passes everything on to another one; derive from it, and override what is different."""

    def __init__(self, inner: Runner) -> None:
        self.inner = inner

    def run(self, program: CompiledProgram, *, best: float = math.inf) -> Result:
        return self.inner.run(program, best=best)

    def rerun(self, programs: Sequence[CompiledProgram]) -> list[Result]:
        return self.inner.rerun(programs)

    @property
    def lowers(self) -> bool:
        return self.inner.lowers and type(self).build is RunnerWrapper.build


def _passed_on(name: str, member: object) -> object:
    """Make the member of a wrapper that stands for one of the other runner."""
    if callable(member):
        return functools.wraps(member)(lambda self, *args, **options: getattr(self.inner, name)(*args, **options))
    return property(lambda self: getattr(self.inner, name), doc=f"`{name}` of the other runner.")


for _name, _value in list(vars(Runner).items()):
    if not _name.startswith("_") and _name not in vars(RunnerWrapper) and _name not in Runner.__annotations__:
        setattr(RunnerWrapper, _name, _passed_on(_name, _value))


def class_of(factory: RunnerFactory) -> type[Runner]:
    """Return the class of the runners that a factory makes; `Runner` itself if it is a function."""
    made: object = getattr(factory, "func", factory)
    return made if isinstance(made, type) and issubclass(made, Runner) else Runner


class RunnerFactory(Protocol):
    """A factory that a plugin registers under the name of a runner. Called once per measurer, from any thread."""

    def __call__(
        self, bench: Bench, *, timing: TimingPolicy, cores: CorePlan, max_memory: int | None, **options: Any
    ) -> Runner:
        """Make a runner for candidates of one task. `max_memory` is in bytes, None leaves memory unlimited; `options`
        are the user's for this runner."""
        ...


RunnerLike: TypeAlias = "str | RunnerFactory | Any"
"""A value for `runner=`: a name with options, "file.py:Class", "module:attribute", a factory, or an object
that a plugin has a runner for, such as the client of a Dask cluster."""


def runner_name(runner: RunnerLike) -> str:
    """Name the runner for messages."""
    return _read(runner)[1]


def runner_factory(runner: RunnerLike, options: Mapping[str, object]) -> RunnerFactory:
    """Find the factory that `runner` means, with its options bound.

    `options` come on top of those in a spec ("patient:spread=0.1") and win over them.
    Raises `UnknownName` for an unknown runner, `ArgumentError` for an option that it does not have, and for what is no
    runner.
    """
    from pegbox.hooks import registry  # the processes that run candidates need no plugins

    ref, name, own = _read(runner)
    factory: RunnerFactory = registry.resolve("runner", ref)
    bound: dict[str, Any] = bind_options(f"runner {name!r}", factory, {**own, **options}, but=GIVEN)
    return functools.partial(factory, **bound) if bound else factory


def _read(runner: Any) -> tuple[Any, str, Mapping[str, Any]]:
    """Return a reference to a factory or the factory itself, the name that messages call it by, and its options."""
    from pegbox.hooks import registry

    if isinstance(runner, str):
        spec = parse_spec(runner)
        return spec.name, spec.name, spec.options
    known = registry.names("runner_object")
    for parent in type(runner).__mro__:
        if (kind := f"{parent.__module__}.{parent.__qualname__}") in known:
            name, options = registry.get("runner_object", kind)(runner)
            return name, name, options
    if not callable(runner):
        made = isinstance(runner, Runner)
        objects = "".join(f", or a {name}" for name in known)
        remedy = "it is an instance: give its class" if made else f"give a runner's name, its class{objects}"
        raise ArgumentError(
            f"runner={value_text(runner)} of type {type(runner).__name__} cannot make a runner; {remedy}"
        )
    return runner, str(getattr(runner, "__name__", runner)), {}
