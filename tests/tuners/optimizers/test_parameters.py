"""Knobs as numbers and categories of other libraries, and the repair of their points."""

import numpy as np
import pytest

from pegbox.search.testing import constrained_space, small_space
from pegbox.search.testing.tuner_contract import range_space
from pegbox.space import ConfigSpace, ListedSpace
from pegbox.tuners.optimizers.parameters import Parameter, SpaceParameters
from pegbox.tuners.optimizers.repair import Repair
from pegbox.tuners.visited_set import VisitedSet


def mixed_space() -> ConfigSpace:
    space = ConfigSpace()
    space.define_split("tile", 64, num_outputs=3)
    space.define_knob("unroll", [0, 16, 64])
    space.define_knob("layout", ["plain", "packed"])
    space.define_knob("panel", [8, 16, 32], when={"layout": "packed"})
    space.define_float("rate", 1e-4, 1.0, log=True)
    space.define_knob("only", [7])
    return space


def test_numbers_are_numbers_and_choices_are_categories() -> None:
    assert SpaceParameters(mixed_space()).parameters == (
        Parameter("tile.0", steps=7),
        Parameter("tile.1", steps=7),
        Parameter("unroll", steps=3),
        Parameter("layout", choices=2),
        Parameter("panel", steps=3),
        Parameter("rate"),
    )


@pytest.mark.parametrize("space", [mixed_space(), small_space(), range_space()])
def test_a_configuration_is_found_again_by_its_point(space: ConfigSpace) -> None:
    parameters = SpaceParameters(space)
    rest = {one.name: 0 for one in parameters.parameters}
    for row in space.sample(40, np.random.default_rng(0)):
        assert (parameters.row({**rest, **parameters.point(row)}) == row).all()


def test_a_knob_that_does_not_exist_has_no_parameter_in_a_point() -> None:
    space = mixed_space()
    parameters = SpaceParameters(space)
    plain, packed = (
        space.from_json({"entity": [["tile", "sp", [-1, 1, 1]], ["unroll", "ot", 16], ["layout", "ot", layout], *more,
                                    ["rate", "ot", 1.0], ["only", "ot", 7]]})
        for layout, more in (("plain", []), ("packed", [["panel", "ot", 32]]))
    )  # fmt: skip
    assert "panel" not in parameters.point(np.array(plain.digits))
    assert parameters.point(np.array(packed.digits))["panel"] == 2


def test_a_point_between_the_splits_gives_the_closest_one() -> None:
    space = ConfigSpace()
    space.define_split("tile", 6, num_outputs=3)  # factors of 6: not every pair of inner extents is a split
    parameters = SpaceParameters(space)
    row = parameters.row({"tile.0": 3, "tile.1": 3})  # 6 and 6
    sizes = space.config(row.tolist())["tile"].size
    assert sizes[1] * sizes[2] == 6


def test_a_new_valid_point_is_kept_and_an_old_one_moves_a_little() -> None:
    space = constrained_space()
    visited = VisitedSet(space)
    repair = Repair(visited, np.random.default_rng(0))
    row = space.sample(1, np.random.default_rng(1))[0]
    assert (repair(row) == row).all()
    visited.add(row[None, :])
    moved = repair(row)
    assert moved is not None
    assert space.is_valid(moved[None, :])[0]
    assert 1 <= (moved != row).sum() <= 2


def test_an_invalid_point_becomes_a_valid_one_that_is_like_it() -> None:
    space = constrained_space()
    rng = np.random.default_rng(0)
    rows = np.stack([rng.integers(0, len(knob), 50) for knob in space.knobs.values()], axis=1)
    broken = rows[~space.is_valid(rows)]
    repair = Repair(VisitedSet(space), rng)
    for row in broken:
        repaired = repair(row)
        assert repaired is not None
        assert space.is_valid(repaired[None, :])[0]
        assert (repaired == row).mean() >= 0.5


def test_in_a_list_the_closest_that_is_left_is_taken() -> None:
    space = ConfigSpace()
    space.define_knob("size", list(range(100)))
    listed = ListedSpace(space, np.array([[3], [10], [40]]))
    visited = VisitedSet(listed)
    repair = Repair(visited, np.random.default_rng(0))
    found = []
    while (row := repair(np.array([12]))) is not None:
        found.append(int(row[0]))
        visited.add(row[None, :])
    assert found == [10, 3, 40]
