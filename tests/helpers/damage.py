"""Damaged JSON for tests of readers: values put in the place of others, keys and items lost, bytes changed."""

from __future__ import annotations

import copy
import json
import math
import re
from typing import Any

from hypothesis import strategies as st

VALUES = (
    None, True, False, 0, -1, 1, 2**31, 2**63, 10**30, 10**400, -(10**400), 0.5, -0.0, 5e-324, 1e308, -1e308,
    math.nan, math.inf, -math.inf, "", "0", "nan", "1e999", "\ud800", "\x00", "é", [], {}, [[]], [{}], {"": None},
    [None, 1, "a"], [1e308, 1e308], [math.nan], ["sp", "sp", "sp"], {"index": 1}, {"a": {"b": []}},
)  # fmt: skip
NASTY = st.sampled_from(VALUES)
DEEP = "@deep@"
"""Stands for brackets that nest too deeply for Python objects."""


@st.composite
def damaged(draw: Any, form: Any) -> str:
    """The text of `form` after one or two accidents."""
    made = json.loads(json.dumps(form))
    for _ in range(draw(st.integers(1, 2))):
        made = _hurt(draw, made)
    text = json.dumps(made)
    depth = draw(st.sampled_from([50, 300, 990, 100_000]))
    text = re.sub(f'"{DEEP}"', "[" * depth + "]" * depth, text)
    match draw(st.integers(0, 9)):
        case 0:
            text = text[: draw(st.integers(0, len(text)))]
        case 1:
            place = draw(st.integers(0, len(text) - 1))
            text = text[:place] + draw(st.characters()) + text[place + 1 :]
    return text


def _hurt(draw: Any, form: Any) -> Any:
    """The form with another value somewhere, or with a part missing."""
    holders = list(_holders(form))
    if not holders:
        return copy.deepcopy(draw(NASTY))
    holder = draw(st.sampled_from(holders))
    key = draw(st.sampled_from(list(holder) if isinstance(holder, dict) else list(range(len(holder)))))
    match draw(st.integers(0, 5)):
        case 0:
            del holder[key]
        case 1:
            holder[key] = DEEP
        case 2 if isinstance(holder, list):
            holder.insert(key, holder[key])
        case _:
            holder[key] = copy.deepcopy(draw(NASTY))
    return form


def _holders(form: Any) -> Any:
    """The lists and objects that hold something."""
    if isinstance(form, list | dict) and form:
        yield form
        for inner in form.values() if isinstance(form, dict) else form:
            yield from _holders(inner)
