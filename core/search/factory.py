"""Factories of tuners and cost models, from names and options, and `BaseTuner`, an optional base class.

`MyTuner.with_options(alpha=2)` is a factory, which `tune` and `compare` call for each space and each seed.
"""

from __future__ import annotations

import functools
import inspect
import typing
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, TypedDict

from pegbox.checks import check_callable, check_int, check_mapping
from pegbox.errors import ArgumentError, PluginError
from pegbox.hooks import registry
from pegbox.hooks.options import bind_options, construct, signature_of
from pegbox.hooks.refs import Spec, parse_nested, parse_spec
from pegbox.measure.result import Result
from pegbox.records.record import call
from pegbox.search.protocols import CostModel, FeatureSource, Prior, Transfer, Tuner, TunerFactory
from pegbox.shown import value_text
from pegbox.space import Config, ConfigSpace

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack


class TunerInputs(TypedDict, total=False):
    """The inputs of a tuner whose factory declares them; `NO_INPUTS` for a space alone."""

    program: FeatureSource | None
    transfer: Sequence[Transfer]
    experience: Prior | None


NO_INPUTS: TunerInputs = {"program": None, "transfer": (), "experience": None}

RESERVED = frozenset({*NO_INPUTS, "seed"})
"""The arguments of a tuner that are not options of the user."""


@dataclass(frozen=True, eq=True, repr=False)
class BoundTuner:
    """A factory of tuners with given options: `BoundTuner(MyTuner, {"alpha": 2})(space, seed=0)`.

    Raises `ArgumentError` for options that a user may not give (`RESERVED`).
    """

    factory: Callable[..., Any]
    options: Mapping[str, Any]

    def __post_init__(self) -> None:
        check_callable("factory", self.factory, "a class of tuners")
        for name in sorted(RESERVED & check_mapping("options", self.options, "options by name").keys()):
            raise ArgumentError(
                f"{self}: {name} is not an option: it is set by pegbox for each run; leave it out"
                + (", and pass seed= to tune, compare or create_tuner" if name == "seed" else "")
            )

    def __call__(self, space: ConfigSpace, /, **given: Any) -> Any:
        return self.factory(space, **{**self.options, **given})

    @property
    def __name__(self) -> str:
        return str(self)

    def __hash__(self) -> int:
        return hash((self.factory, frozenset(self.options)))  # a value may be a list, which has no hash

    def __str__(self) -> str:
        return call(str(getattr(self.factory, "__name__", self.factory)), self.options)

    __repr__ = __str__


class _InitSignature:
    """The signature of a tuner's `__init__`, with the fields of its `Options` in place of `**options`.

    `inspect` ignores `__init__` if there is a `__new__`.
    """

    def __get__(self, instance: object, kind: type[BaseTuner]) -> inspect.Signature:
        *named, last = list(inspect.signature(kind.__init__).parameters.values())[1:]
        if kind.Options is None or last.kind is not inspect.Parameter.VAR_KEYWORD:
            return inspect.Signature([*named, last])
        hints = typing.get_type_hints(kind.Options)
        fields = inspect.signature(kind.Options).parameters.values()
        return inspect.Signature([*named, *(field.replace(annotation=hints[field.name]) for field in fields)])


class BaseTuner:
    """An optional base class: a tuner is any class with `ask` and `tell` (see `pegbox.search.Tuner`).

    It adds `with_options`, and `Options`, a frozen dataclass of the options: `__init__` takes `**options` and calls
    `self.Options(**options)`.
    """

    Options: ClassVar[type[Any] | None] = None

    __signature__ = _InitSignature()

    def __new__(cls, *args: Any, **options: Any) -> Self:
        """Check the space. Without one, as in the deprecated `MyTuner(alpha=2)`, return a `BoundTuner`."""
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
        # Unpickling calls `__new__`, which needs a space; the tuner's own is in its state.
        return (ConfigSpace,)

    @classmethod
    def with_options(cls, **options: Any) -> BoundTuner:
        """Make a factory of tuners of this class with these options.

        Raises `ArgumentError` for options that a user may not give (`RESERVED`).
        """
        return BoundTuner(cls, options)

    def ask(self, n: int) -> Sequence[Config]:
        """Propose at most `n` new configurations; an empty sequence says that the space is exhausted."""
        raise NotImplementedError(f"{type(self).__name__} defines no ask(n)")

    def tell(self, configs: Sequence[Config], results: Sequence[Result]) -> None:
        """Take in measured results, in the order of `configs`; they need not come from `ask`."""
        raise NotImplementedError(f"{type(self).__name__} defines no tell(configs, results)")


def make_tuner(
    spec: str | Spec | TunerFactory,
    space: ConfigSpace,
    *,
    seed: int = 0,
    options: Mapping[str, object] | None = None,
    **inputs: Unpack[TunerInputs],
) -> Tuner:
    """Make the tuner that `spec` ("xgb:plan_size=32", "file.py:MyTuner", or a factory) means, over `space`.

    `options` override those in the spec. Factories that declare `inputs` get them. Raises `UnknownName` for an unknown
    tuner, `ArgumentError` for a bad option, `PluginError` if the factory raises or does not return a tuner.
    """
    check_int("seed", seed, minimum=0)
    factory, name, written = _resolve("tuner", spec)
    owner = f"tuner {name!r}"
    bound = bind_options(owner, factory, {**written, **_options(options)}, but=RESERVED)
    given = {**NO_INPUTS, **inputs}
    signature = signature_of(factory)
    try:
        signature.bind_partial(None, seed=0)
    except TypeError as error:
        raise ArgumentError(
            f"{owner} cannot be made as factory(space, seed=0): {error}; its signature is {signature}, let it take a "
            "space and the keyword seed"
        ) from None
    wanted = {name: given[name] for name in given if name in signature.parameters}
    tuner = construct(owner, factory, space, seed=seed, **wanted, **bound)
    if not isinstance(tuner, Tuner):
        raise PluginError(f"{owner} made a {type(tuner).__name__} without ask(n) and tell(configs, results)")
    return tuner


def check_tuner(spec: str | Spec | TunerFactory) -> None:
    """Raise the errors of `make_tuner` for an unknown tuner, or for unknown options."""
    factory, name, written = _resolve("tuner", spec)
    bind_options(f"tuner {name!r}", factory, written, but=RESERVED)


def _options(options: object) -> Mapping[str, object]:
    return {} if options is None else check_mapping("options", options, "options by name")


def declared_inputs(spec: str | Spec | TunerFactory) -> frozenset[str]:
    """Find which of `program`, `transfer` and `experience` the tuner's factory takes, so that no other is made."""
    factory, _, _ = _resolve("tuner", spec)
    return frozenset(NO_INPUTS) & set(signature_of(factory).parameters)


def make_cost_model(
    spec: str | CostModel,
    *,
    seed: int = 0,
    options: Mapping[str, object] | None = None,
) -> CostModel:
    """Make the cost model that `spec` names; return an object that is one already.

    Raises as `make_tuner` does.
    """
    check_int("seed", seed, minimum=0)
    if not isinstance(spec, str):
        if not isinstance(spec, CostModel):
            raise ArgumentError(
                f"cost_model={value_text(spec)} is neither the name of a cost model nor has it fit and predict"
            )
        if given := _options(options):
            raise ArgumentError(f"{spec!r} is an instance and takes no options; given {given!r}")
        return spec
    factory, name, written = _resolve("cost_model", parse_nested(spec))
    owner = f"cost model {name!r}"
    bound = bind_options(owner, factory, {**written, **_options(options)}, but=RESERVED)
    model = construct(owner, factory, seed=seed, **bound)
    if not isinstance(model, CostModel):
        raise PluginError(f"{owner} made a {type(model).__name__} without fit(...) and predict(...)")
    return model


def _resolve(kind: str, spec: str | Spec | Callable[..., Any]) -> tuple[Callable[..., Any], str, Mapping[str, object]]:
    """Find the factory, the name for messages, and the options given with it, which may be text."""
    if isinstance(spec, str):
        spec = parse_spec(spec)
    if isinstance(spec, Spec):
        return registry.resolve(kind, spec.name), spec.name, spec.options
    if isinstance(spec, BoundTuner):
        return spec.factory, str(spec), spec.options
    return check_factory(spec), tuner_label(spec), {}


def check_factory(tuner: Any) -> TunerFactory:
    """Return the tuner's factory. Raises `ArgumentError` for anything else, such as a tuner."""
    if isinstance(tuner, Tuner) and not isinstance(tuner, type):
        raise ArgumentError(
            f"{tuner!r} is an instance, made for one space and one seed; every run needs a new one: give its "
            f"class ({type(tuner).__name__}), its name, or a factory such as MyTuner.with_options(option=...)"
        )
    if not callable(tuner):
        raise ArgumentError(f"{value_text(tuner)} is neither the name of a tuner nor a factory")
    factory: TunerFactory = tuner
    return factory


def tuner_label(spec: str | Spec | TunerFactory) -> str:
    """Name a tuner for tables, records and messages: "xgb:plan_size=32", "MyTuner(alpha=2)", "MyTuner"."""
    match spec:
        case str():
            return str(parse_spec(spec))
        case Spec() | BoundTuner():
            return str(spec)
        case functools.partial():
            return str(BoundTuner(spec.func, spec.keywords))
        case _:
            return str(getattr(spec, "__name__", None) or type(spec).__name__)
