"""`BaseTuner`, an optional base class, and tuners with options that are bound before the space is known.

`MyTuner.with_options(alpha=2)` stands for "a MyTuner with alpha=2", which `tune` and `compare` make anew for each space
and each seed.
"""

from __future__ import annotations

import inspect
import typing
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, TypedDict

from pegbox.checks import check_callable, check_mapping
from pegbox.errors import ArgumentError
from pegbox.measure.result import Result
from pegbox.records.record import call
from pegbox.search.protocols import FeatureSource, Prior, Transfer
from pegbox.space import ConfigSpace

if TYPE_CHECKING:
    from typing_extensions import Self

    from pegbox.space import Config


class TunerInputs(TypedDict, total=False):
    """What a tuner is given where its factory declares it, and what it is given where there is none."""

    program: FeatureSource | None
    transfer: Sequence[Transfer]
    experience: Prior | None


NO_INPUTS: TunerInputs = {"program": None, "transfer": (), "experience": None}

RESERVED = frozenset({*NO_INPUTS, "seed"})
"""What a tuner is given without being told so by the user."""


@dataclass(frozen=True, eq=True, repr=False)
class BoundTuner:
    """A factory of tuners with options given: `BoundTuner(MyTuner, {"alpha": 2})(space, seed=0)`.

    Raises `ArgumentError` for the options that are not the user's to give (`RESERVED`).
    """

    factory: Callable[..., Any]
    options: Mapping[str, Any]

    def __post_init__(self) -> None:
        check_callable("factory", self.factory, "a class of tuners")
        for name in sorted(RESERVED & check_mapping("options", self.options, "options by name").keys()):
            raise ArgumentError(
                f"{self}: {name} is not an option: it is given to the tuner anew for each run; leave it out"
                + (", and say seed= to tune, compare or create_tuner" if name == "seed" else "")
            )

    def __call__(self, space: ConfigSpace, /, **given: Any) -> Any:
        return self.factory(space, **{**self.options, **given})

    @property
    def __name__(self) -> str:
        return str(self)

    def __hash__(self) -> int:
        return hash((self.factory, frozenset(self.options)))  # the values may be lists

    def __str__(self) -> str:
        return call(str(getattr(self.factory, "__name__", self.factory)), self.options)

    __repr__ = __str__


class _InitSignature:
    """The signature of a tuner's `__init__`, with the fields of its `Options` in the place of `**options`.

    `inspect` would not look at `__init__`, because there is a `__new__`.
    """

    def __get__(self, instance: object, kind: type[BaseTuner]) -> inspect.Signature:
        *named, last = list(inspect.signature(kind.__init__).parameters.values())[1:]
        if kind.Options is None or last.kind is not inspect.Parameter.VAR_KEYWORD:
            return inspect.Signature([*named, last])
        hints = typing.get_type_hints(kind.Options)
        fields = inspect.signature(kind.Options).parameters.values()
        return inspect.Signature([*named, *(field.replace(annotation=hints[field.name]) for field in fields)])


class BaseTuner:
    """Derive from it, or don't: a tuner is any class with `ask` and `tell` (see `pegbox.search.Tuner`).

    It adds `with_options`, and `Options`: a frozen dataclass of the options that `__init__` takes as `**options` and
    makes by `self.Options(**options)`.
    """

    Options: ClassVar[type[Any] | None] = None

    __signature__ = _InitSignature()

    def __new__(cls, *args: Any, **options: Any) -> Self:
        """Checks the space. Without one, as in the deprecated `MyTuner(alpha=2)`, it gives a `BoundTuner`."""
        space = next(iter(inspect.signature(cls).parameters), "")
        if not args and space not in options:
            bound = BoundTuner(cls, options)
            written = str(bound).removeprefix(cls.__name__)
            message = f"{bound} without a space is called {cls.__name__}.with_options{written} now"
            warnings.warn(message, DeprecationWarning, stacklevel=2)
            return bound  # type: ignore[return-value]
        if args and not hasattr(args[0], "sample"):
            raise ArgumentError(
                f"{cls.__name__}({args[0]!r}): the first argument is the space to search; write options by name, "
                f"as in {cls.__name__}.with_options(option={args[0]!r})"
            )
        return super().__new__(cls)

    def __getnewargs__(self) -> tuple[Any, ...]:
        # Unpickling calls `__new__`, which wants a space; the tuner's own comes with its state.
        return (ConfigSpace,)

    @classmethod
    def with_options(cls, **options: Any) -> BoundTuner:
        """A factory of tuners of this class with these options.

        Raises `ArgumentError` for the options that are not the user's to give (`RESERVED`).
        """
        return BoundTuner(cls, options)

    def ask(self, n: int) -> Sequence[Config]:
        """Propose at most `n` new configurations; an empty sequence says that the space is exhausted."""
        raise NotImplementedError(f"{type(self).__name__} defines no ask(n)")

    def tell(self, configs: Sequence[Config], results: Sequence[Result]) -> None:
        """Take in measured results, in the order of `configs`; they need not come from `ask`."""
        raise NotImplementedError(f"{type(self).__name__} defines no tell(configs, results)")
