"""Configs from and to JSON, with checks against their space."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from pegbox.checks import check_list
from pegbox.errors import SpaceError
from pegbox.shown import value_text
from pegbox.space.config import Config
from pegbox.space.digits import Digits, digits_of

if TYPE_CHECKING:
    from pegbox.space.space import ConfigSpace


def config_from_json(space: ConfigSpace, form: object) -> Config:
    """Return the config that `form` describes by its index, its entities (matched by name), or both.

    Raises:
        SpaceError: it is malformed, belongs to another space, or index and entities disagree.
    """
    if not isinstance(form, Mapping) or ("index" not in form and "entity" not in form):
        raise SpaceError(f"a config in JSON is an object with 'index' or 'entity' or both, got {value_text(form)}")
    index, entities = form.get("index"), form.get("entity")
    by_entity = None if entities is None else _by_entities(space, entities)
    if index is None:
        if by_entity is None:
            raise SpaceError(f"a config in JSON needs 'index' or 'entity' or both, got {form!r}")
        return by_entity
    if isinstance(index, bool) or not isinstance(index, int) or not 0 <= index < space.size:
        named = "" if by_entity is None else f" but its entities name {by_entity}"
        raise _foreign(space, f"its index {index!r} is not one of 0 to {space.size - 1:,}{named}")
    by_index = space.get(index)
    if by_entity is not None and by_index != by_entity:
        raise _foreign(space, f"its index names {by_index} but its entities name {by_entity}")
    return by_index


def rows_from_json(space: ConfigSpace, forms: Sequence[Mapping[str, Any]]) -> Digits:
    """Return the digits of many configs at once, of shape (len(forms), knobs); ten times faster than one by one.

    Raises:
        SpaceError: as in `config_from_json`, for the first one that is wrong.
    """
    wanted = "configs as config.to_json() gives them"
    forms = check_list("forms", forms, wanted, error=SpaceError, of=Mapping)
    lengths = [len(knob) for knob in space.knobs.values()]
    rows, size = np.zeros((len(forms), len(lengths)), dtype=np.int64), space.size
    for row, form in zip(rows, forms, strict=True):
        index = form.get("index")
        if type(index) is int and 0 <= index < size:
            row[:] = digits_of(index, lengths)
    exist = space.structure.active(rows).tolist() if len(forms) else []
    # The entities as JSON returns them; a range has too many, and its numbers return unchanged.
    known = [
        None
        if knob.line is not None
        else json.loads(json.dumps([[knob.name, entity.tag, entity.value()] for entity in knob.entities]))
        for knob in space.knobs.values()
    ]
    knobs = list(space.knobs.values())
    for row, form, digits, existing in zip(rows, forms, rows.tolist(), exist, strict=True):
        # The entities decide the meaning of an index, as for a single config.
        spelled = [
            [knob.name, knob.tag, knob.entities[digit].value()] if table is None else table[digit]
            for knob, table, digit, exists in zip(knobs, known, digits, existing, strict=True)
            if exists
        ]
        if form.get("entity") != spelled or digits != [d if e else 0 for d, e in zip(digits, existing, strict=True)]:
            row[:] = config_from_json(space, form).digits
    return rows


def _by_entities(space: ConfigSpace, entities: object) -> Config:
    named = _named(space, entities)
    unknown = [name for name in named if name not in space.knobs]
    if unknown:
        raise _foreign(space, f"it names knobs that the space does not have: {', '.join(map(repr, unknown))}")
    digits = []
    for name, knob in space.knobs.items():
        tag, value = named.get(name, (knob.tag, None))
        if tag != knob.tag:
            raise _foreign(space, f"knob {name!r} has tag {tag!r} there, {knob.tag!r} here")
        digit = knob.find(value) if name in named else 0
        if digit is None:
            raise _foreign(space, f"{name!r} is {value!r} there, which is not a value of {knob}")
        digits.append(digit)
    config = space.config(digits)
    missing = [name for name in space.knobs if name not in named and config.exists(name)]
    if missing:
        raise _foreign(space, f"it lacks the knobs {', '.join(map(repr, missing))}")
    return config


def _named(space: ConfigSpace, entities: object) -> dict[str, tuple[str, Any]]:
    """Map knob names to tags and values."""
    if not isinstance(entities, (list, tuple)):
        raise _foreign(space, f"its 'entity' is not a list: {entities!r}")
    named: dict[str, tuple[str, Any]] = {}
    for entity in entities:
        match entity:
            case [str(name), str(tag), value] if name not in named:
                named[name] = tag, value
            case [str(name), str(), _]:
                raise _foreign(space, f"it names the knob {name!r} twice")
            case _:
                raise _foreign(space, f"an entity is [name, tag, value], got {entity!r}")
    return named


def _foreign(space: ConfigSpace, why: str) -> SpaceError:
    return SpaceError(f"the config does not belong to this space: {why}\nthis space is\n{space}")
