"""A configuration in any form that users have: an index, the values of knobs, or a trial, record or result with it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

from pegbox.checks import near_names
from pegbox.errors import ArgumentError, SpaceError
from pegbox.shown import value_text
from pegbox.space.config import Config, not_a_config
from pegbox.space.space import ConfigSpace

GivenConfig: TypeAlias = Config | int | Mapping[str, Any] | Any
"""A configuration, its index, its JSON form, the values of all knobs by name, or an object with one of these as
`config`, or as `best.config`: a trial, a record, a result."""


def given_config(space: ConfigSpace, given: GivenConfig) -> Config:
    """Find the given configuration of a space.

    Raises:
        SpaceError: the space has no such configuration.
        ArgumentError: it belongs to another space.
    """
    held = getattr(given, "best", given)
    found = held if isinstance(held, Config) else getattr(held, "config", given)
    if isinstance(found, Config):
        if found.space is not space and found.space.fingerprint != space.fingerprint:
            raise ArgumentError(f"config={found} belongs to another space; take one of task.space")
        return found
    if isinstance(found, Mapping):
        is_form = found.keys() & {"index", "entity"} and not found.keys() <= space.knobs.keys()
        return space.from_json(found if is_form else _of_values(space, found))
    if isinstance(found, bool) or not hasattr(found, "__index__"):
        raise not_a_config(given, "one of task.space, such as task.space.get(0), its index, or a result's best")
    return space.get(found)


def _of_values(space: ConfigSpace, values: Mapping[str, Any]) -> dict[str, Any]:
    """Write the values of knobs in the form of records."""
    for name in values:
        if name not in space.knobs:
            raise SpaceError(f"no knob {value_text(name)} in this space{near_names(name, space.knobs)}")
    return {"entity": [[name, space.knobs[name].entities[0].tag, value] for name, value in values.items()]}
