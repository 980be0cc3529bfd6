"""From a tuner's or a cost model's name to the object."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from pegbox.errors import ArgumentError, PluginError
from pegbox.search.options import bind_options
from pegbox.search.protocols import CostModel, Lookup, Tuner
from pegbox.search.spec import Spec, parse_nested, parse_spec

if TYPE_CHECKING:
    from pegbox.space import ConfigSpace


def make_tuner(
    spec: str | Spec,
    space: ConfigSpace,
    *,
    seed: int = 0,
    options: Mapping[str, object] | None = None,
    lookup: Lookup | None = None,
) -> Tuner:
    """Make the tuner that `spec` ("xgb:plan_size=32") names, over `space`.

    `options` come on top of those in the spec and win over them. `lookup` finds factories; the registry by default.
    Raises `UnknownName` for an unknown tuner, `ArgumentError` for a bad option, `PluginError` if the plugin is no tuner.
    """
    spec = parse_spec(spec) if isinstance(spec, str) else spec
    factory = (lookup or registry_lookup)("tuner", spec.name)
    tuner = _make(f"tuner {spec.name!r}", factory, (space,), seed, {**spec.options, **(options or {})})
    if not isinstance(tuner, Tuner):
        raise PluginError(f"tuner {spec.name!r} made a {type(tuner).__name__}, which has no ask(n) and tell(...)")
    return tuner


def make_cost_model(
    spec: str | CostModel,
    *,
    seed: int = 0,
    options: Mapping[str, object] | None = None,
    lookup: Lookup | None = None,
) -> CostModel:
    """Make the cost model that `spec` names; an object that is one already is handed back.

    Raises as `make_tuner` does.
    """
    if not isinstance(spec, str):
        return _given_model(spec, options)
    parsed = parse_nested(spec)
    factory = (lookup or registry_lookup)("cost_model", parsed.name)
    model = _make(f"cost model {parsed.name!r}", factory, (), seed, {**parsed.options, **(options or {})})
    if not isinstance(model, CostModel):
        raise PluginError(f"cost model {parsed.name!r} made a {type(model).__name__}, which has no fit and predict")
    return model


def _given_model(model: object, options: Mapping[str, object] | None) -> CostModel:
    if not isinstance(model, CostModel):
        raise ArgumentError(f"cost_model={model!r} is neither the name of a cost model nor has it fit and predict")
    if options:
        raise ArgumentError(
            f"options {dict(options)!r} cannot be given to a cost model that is made already: {model!r}"
        )
    return model


def _make(
    owner: str, factory: Callable[..., Any], args: tuple[object, ...], seed: int, given: Mapping[str, object]
) -> object:
    return factory(*args, seed=seed, **bind_options(owner, factory, given))


def registry_lookup(kind: str, name: str) -> Callable[..., Any]:
    """The factory that a plugin registered under `name`. Raises `UnknownName` with the near names."""
    # Late, so that whoever brings its own lookup (a test, a tool) loads no plugin manager.
    from pegbox.hooks import registry

    found: Callable[..., Any] = registry.get(kind, name)
    return found
