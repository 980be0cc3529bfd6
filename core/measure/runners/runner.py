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
"""The arguments that pegbox passes to a runner in addition to the user's."""


class Runner(ABC):
    """A runner runs compiled candidates of one task, one at a time; derive from it.

    Any misbehaviour of a candidate gives a `Failed`: an endless loop TIMEOUT, a fatal signal CRASH, a wrong answer
    WRONG_RESULT, a Python-level error (such as out of memory) RUN_ERROR. Only a runner that cannot work at all raises
    `MeasureError`. After any failure, the runner must be sound for the next candidate. A runner may leave the check
    against the bench, and the timing, to `pegbox.measure.trial.trial.run_trial`. The suite that every runner must pass
    is `pegbox.testing.RunnerContract`.

    A class for other machines sets `cluster`. Then the runner is made before anything is compiled, no core of this
    machine is kept free for timing, and `run` is called from many threads, one for each candidate in progress.
    """

    cluster: ClassVar[bool] = False
    """True if candidates run on other machines."""

    run_pool: ClassVar[Callable[..., RunPool] | None] = None
    """A function `run_pool(payload, **options)` that opens a pool for the runs of a comparison, or None."""

    @property
    def compares(self) -> bool:
        """True if `time_numpy` and `roofline` may return something."""
        return False

    @property
    def machines(self) -> int:
        """The number of candidates measured at the same time now, at least 1; machines come and go."""
        return 1

    @property
    def host(self) -> str:
        """The kind of the machines, as records name it; empty for this machine."""
        return ""

    @property
    def where(self) -> str:
        """The machines in words ("on 2 machines"); empty for this machine."""
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
        """Time candidates that ran well before, interleaved: A B C A B C ...; return one result for each, in order."""

    def interrupt(self) -> None:  # noqa: B027 - a runner without processes has nothing to give up
        """Give up the run in progress, if any.

        It is called from another thread than `run`, which then returns a `Failed`.
        """

    def close(self) -> None:  # noqa: B027
        """Release everything; no other call follows. It may be called while `run` is in progress, and twice."""

    def check_target(self, target: Target) -> None:  # noqa: B027
        """Raise `MeasureError`, with a remedy, if no candidate for the target can run.

        It is called before compilations.
        """

    def time_numpy(self, program: NumpyProgram, *, threads: int) -> Sequence[float] | float | None:
        """Return NumPy's seconds for the bench with so many threads, for each of a few warm calls.

        None if it takes too long, or fails. It is called before and after the finalists are timed.
        """
        return None

    def roofline(self, dtype: str, nbytes: int, target: Target) -> Roofline | None:
        """Return the limits of as many cores as the target has; `nbytes` are per core (`roofline.size_class`)."""
        return None

    @property
    def lowers(self) -> bool:
        """True if `build` also takes a `Lowering`, as `Builder.build` does.

        A runner that compiles nothing leaves both to this machine's builders.
        """
        return type(self).build is Runner.build

    def build(self, job: Program | Lowering, *, timeout: float) -> CompiledProgram | Lowered | Failed | None:
        """Compile on the cluster for at most so many seconds, from any thread; `interrupt` gives it up.

        It is called if this machine's builders are busy and there are `builders`. None if no machine can.
        """
        return None

    def building_here(self, given_up: Callable[[], bool]) -> AbstractContextManager[None]:
        """Enclose a compilation on this machine, which may also time.

        Raises `GivenUp` if `given_up()`, which it checks while it waits, becomes true first.
        """
        return nullcontext()


class RunnerWrapper(Runner):
    """A runner that forwards everything to another one; derive from it, and override the differences."""

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
    """Make a member of a wrapper that forwards to the other runner."""
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
    """A factory that a plugin registers under the name of a runner. It is called once per measurer, from any thread."""

    def __call__(
        self, bench: Bench, *, timing: TimingPolicy, cores: CorePlan, max_memory: int | None, **options: Any
    ) -> Runner:
        """Make a runner for candidates of one task.

        `max_memory` is in bytes, or None for no limit; `options` are the user's for this runner.
        """
        ...


RunnerLike: TypeAlias = "str | RunnerFactory | Any"
"""A value for `runner=`.

It is a name with options, "file.py:Class", "module:attribute", a factory, or an object for which a plugin has a runner,
such as the client of a Dask cluster.
"""


def runner_name(runner: RunnerLike) -> str:
    """Name the runner for messages."""
    return _read(runner)[1]


def runner_factory(runner: RunnerLike, options: Mapping[str, object]) -> RunnerFactory:
    """Find the factory that `runner` means, with its options bound.

    `options` override those in a spec ("patient:spread=0.1"). Raises `UnknownName` for an unknown runner,
    `ArgumentError` for an unknown option, and for a value that is not a runner.
    """
    from pegbox.hooks import registry  # processes that run candidates need no plugins

    ref, name, own = _read(runner)
    factory: RunnerFactory = registry.resolve("runner", ref)
    bound: dict[str, Any] = bind_options(f"runner {name!r}", factory, {**own, **options}, but=GIVEN)
    return functools.partial(factory, **bound) if bound else factory


def _read(runner: Any) -> tuple[Any, str, Mapping[str, Any]]:
    """Return a reference to a factory or the factory itself, its name for messages, and its options."""
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
