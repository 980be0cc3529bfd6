"""Creation of a tuner or a cost model from its name."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from pegbox.checks import check_int, check_mapping
from pegbox.errors import ArgumentError, PluginError
from pegbox.hooks import registry
from pegbox.hooks.construction import construct
from pegbox.hooks.options import bind_options, signature_of
from pegbox.hooks.spec import Spec, parse_nested, parse_spec
from pegbox.search.factory.base import NO_INPUTS, RESERVED, BoundTuner, TunerInputs
from pegbox.search.protocols import CostModel, Tuner, TunerFactory
from pegbox.shown import value_text

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from pegbox.space import ConfigSpace


def make_tuner(
    spec: str | Spec | TunerFactory,
    space: ConfigSpace,
    *,
    seed: int = 0,
    options: Mapping[str, object] | None = None,
    **inputs: Unpack[TunerInputs],
) -> Tuner:
    """Make the tuner that `spec` ("xgb:plan_size=32", "file.py:MyTuner", or a factory) means, over `space`.

    `options` come on top of those in the spec and win over them. The `inputs` are given to factories that declare them.
    Raises `UnknownName` for an unknown tuner, `ArgumentError` for a bad option, `PluginError` if it raises or makes no
    tuner.
    """
    check_int("seed", seed, minimum=0)
    factory, name, written = _resolve("tuner", spec)
    owner = f"tuner {name!r}"
    bound = bind_options(owner, factory, {**written, **_options(options)}, but=RESERVED)
    declared, given = signature_of(factory).parameters, {**NO_INPUTS, **inputs}
    _check_takes_seed(owner, factory)
    wanted = {name: given[name] for name in given if name in declared}
    tuner = construct(owner, factory, space, seed=seed, **wanted, **bound)
    if not isinstance(tuner, Tuner):
        raise PluginError(f"{owner} made a {type(tuner).__name__}, which has no ask(n) and tell(configs, results)")
    return tuner


def _options(options: object) -> Mapping[str, object]:
    return {} if options is None else check_mapping("options", options, "options by name")


def _check_takes_seed(owner: str, factory: Callable[..., Any]) -> None:
    signature = signature_of(factory)
    try:
        signature.bind_partial(None, seed=0)
    except TypeError as error:
        raise ArgumentError(
            f"{owner} cannot be made as factory(space, seed=0): {error}; its signature is {signature}, let it take a "
            "space and the keyword seed"
        ) from None


def declared_inputs(spec: str | Spec | TunerFactory) -> frozenset[str]:
    """Which of `program`, `transfer` and `experience` the tuner's factory takes: none is made for nothing."""
    factory, _, _ = _resolve("tuner", spec)
    return frozenset(NO_INPUTS) & set(signature_of(factory).parameters)


def make_cost_model(
    spec: str | CostModel,
    *,
    seed: int = 0,
    options: Mapping[str, object] | None = None,
) -> CostModel:
    """Make the cost model that `spec` names; an object that is one already is returned.

    Raises as `make_tuner` does.
    """
    check_int("seed", seed, minimum=0)
    if not isinstance(spec, str):
        return _given_model(spec, options)
    factory, name, written = _resolve("cost_model", parse_nested(spec))
    owner = f"cost model {name!r}"
    bound = bind_options(owner, factory, {**written, **_options(options)}, but=RESERVED)
    model = construct(owner, factory, seed=seed, **bound)
    if not isinstance(model, CostModel):
        raise PluginError(f"{owner} made a {type(model).__name__}, which has no fit(...) and predict(...)")
    return model


def _given_model(model: object, options: Mapping[str, object] | None) -> CostModel:
    if not isinstance(model, CostModel):
        raise ArgumentError(
            f"cost_model={value_text(model)} is neither the name of a cost model nor has it fit and predict"
        )
    if given := _options(options):
        raise ArgumentError(f"{model!r} is made already and takes no options; given {given!r}")
    return model


def _resolve(kind: str, spec: str | Spec | Callable[..., Any]) -> tuple[Callable[..., Any], str, Mapping[str, object]]:
    """The factory, the name for messages, and the options given with it, as text where they were written as text."""
    if isinstance(spec, str):
        spec = parse_spec(spec)
    if isinstance(spec, Spec):
        return registry.resolve(kind, spec.name), spec.name, spec.options
    if isinstance(spec, BoundTuner):
        return spec.factory, str(spec), spec.options
    return check_factory(spec), tuner_label(spec), {}


def check_factory(tuner: Any) -> TunerFactory:
    """The tuner's factory. Raises `ArgumentError` for what is none, a tuner for instance."""
    if isinstance(tuner, Tuner) and not isinstance(tuner, type):
        raise ArgumentError(
            f"{tuner!r} is a tuner made already, for one space and one seed; every run needs a fresh one: give its "
            f"class ({type(tuner).__name__}), its name, or a factory such as MyTuner.with_options(option=...)"
        )
    if not callable(tuner):
        raise ArgumentError(f"{value_text(tuner)} is neither the name of a tuner nor a factory of one")
    factory: TunerFactory = tuner
    return factory


def tuner_label(spec: str | Spec | TunerFactory) -> str:
    """Name a tuner in tables, records and messages: "xgb:plan_size=32", "MyTuner(alpha=2)", "MyTuner"."""
    match spec:
        case str():
            return str(parse_spec(spec))
        case Spec() | BoundTuner():
            return str(spec)
        case functools.partial():
            return str(BoundTuner(spec.func, spec.keywords))
        case _:
            return str(getattr(spec, "__name__", None) or type(spec).__name__)
