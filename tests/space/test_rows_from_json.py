"""Many configs read back at once: what is read one by one, and refused alike."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from pegbox.errors import SpaceError
from pegbox.space import ConfigSpace


@pytest.fixture
def space() -> ConfigSpace:
    made = ConfigSpace()
    made.define_split("tile", 64, num_outputs=3)
    made.define_knob("layout", ["plain", "packed"])
    made.define_knob("panel", [8, 16, [3, 4], None], when={"layout": "packed"})
    made.define_reorder("order", ["a", "b", "c"], policy="all")
    made.define_annotate("ann", ["a", "b"], policy="try_unroll_vec")
    return made


def forms(space: ConfigSpace, **changes: Any) -> list[dict[str, Any]]:
    configs = map(space.config, space.sample(200, np.random.default_rng(0)).tolist())
    return [{**json.loads(json.dumps(config.to_json())), **changes} for config in configs]


def test_the_same_digits_as_one_by_one(space: ConfigSpace) -> None:
    written = forms(space)
    one_by_one = [list(space.from_json(form).digits) for form in written]
    assert space.rows_from_json(written).tolist() == one_by_one


@pytest.mark.parametrize("left", ["index", "entity"])
def test_half_a_form_is_enough(space: ConfigSpace, left: str) -> None:
    whole = forms(space)
    assert (space.rows_from_json([{left: form[left]} for form in whole]) == space.rows_from_json(whole)).all()


def test_none_at_all(space: ConfigSpace) -> None:
    assert space.rows_from_json([]).shape == (0, 5)


@pytest.mark.parametrize("index", [10**9, -1, "7", True, 3])
def test_an_index_that_says_something_else(space: ConfigSpace, index: object) -> None:
    broken = forms(space)[:3]
    broken[1]["index"] = index
    with pytest.raises(SpaceError, match="does not belong to this space"):
        space.rows_from_json(broken)
