"""Neighbours and crossover."""

import numpy as np
import pytest

from pegbox.errors import SpaceError
from pegbox.space import ConfigSpace
from pegbox.space.variation import nearest


def tiled():
    space = ConfigSpace()
    space.define_split("y", 1024, num_outputs=3)
    space.define_split("x", 1024, num_outputs=3)
    space.define_knob("layout", ["plain", "packed"])
    space.define_knob("panel", [8, 16, 32], when={"layout": "packed"})
    space.add_constraint(lambda c: c["y"].size[-1] * c["x"].size[-1] <= 512, reads=("y", "x"), message="register tile")
    space.add_constraint(
        lambda c: c["panel"].val % c["x"].size[-1] == 0, reads=("panel", "x"), message="panel holds tiles"
    )
    return space


def test_neighbors_move_one_knob():
    space, rng = tiled(), np.random.default_rng(0)
    rows = space.sample(800, rng)
    moved = space.neighbors(rows, rng)
    assert space.is_valid(moved).all()
    assert (space.canonical(moved) == moved).all()
    changed = moved != rows
    changed[:, 3] &= rows[:, 2] == moved[:, 2]  # panel comes and goes with the layout
    assert (changed.sum(axis=1) == 1).all()
    assert changed.any(axis=0)[:3].all()


def test_split_neighbors_are_mostly_close():
    space, rng = ConfigSpace(), np.random.default_rng(0)
    space.define_split("t", 2**20, num_outputs=4)
    rows = space.sample(1000, rng)
    moved = space.neighbors(rows, rng)
    logs = space.encode(rows), space.encode(moved)
    distance = np.abs(logs[0] - logs[1]).sum(axis=1)
    # One factor of two that changes place is a distance of 2.
    assert np.mean(distance == 2) > 0.6
    assert distance.max() > 6


def test_large_knobs_have_close_neighbors_too():
    space, rng = ConfigSpace(), np.random.default_rng(0)
    space.define_knob("n", range(1, 20001))
    rows = space.sample(1000, rng)
    moved = space.neighbors(rows, rng)
    assert (rows != moved).all()
    assert np.median(np.abs(rows - moved)) < 1000


def test_numeric_neighbors_are_adjacent_values_not_adjacent_positions():
    space, rng = ConfigSpace(), np.random.default_rng(0)
    values = list(range(0, 1000, 10)) + list(range(5, 1000, 10))
    space.define_knob("n", values)
    rows = np.zeros((500, 1), dtype=int)
    moved = np.array(values)[space.neighbors(rows, rng)[:, 0]]
    assert np.mean(moved <= 40) > 0.6


def test_nearest_leaves_out_the_value_itself():
    table = nearest(np.zeros((20, 1)))
    assert table.shape == (20, 8)
    assert not (table == np.arange(20)[:, None]).any()
    assert len(np.unique(table)) == 20


def test_isolated_configs_have_neighbors_further_away():
    """a and b must be equal: no single move is valid."""
    space, rng = ConfigSpace(), np.random.default_rng(0)
    space.define_knob("a", range(40))
    space.define_knob("b", range(40))
    space.add_constraint(lambda c: c["a"].val == c["b"].val, reads=("a", "b"), message="equal")
    rows = space.sample(20, rng)
    moved = space.neighbors(rows, rng)
    assert (moved[:, 0] == moved[:, 1]).all()
    assert (moved != rows).all()


def test_a_hidden_single_move_is_found():
    """Finds the one valid move of 2,000 of a; tries at random would miss it."""
    space, rng = ConfigSpace(), np.random.default_rng(0)
    space.define_knob("a", range(2000))
    space.define_knob("b", [0, 1])
    space.add_constraint(lambda c: c["a"].val in (3, 1700) and c["b"].val == 0, reads=("a", "b"), message="two")
    assert (space.neighbors(np.array([[3, 0], [1700, 0]]), rng) == [[1700, 0], [3, 0]]).all()


def test_rare_valid_moves_are_equally_likely():
    """Count moves where 2 of 39 are valid, so that few rows find one at once."""
    space, rng = ConfigSpace(), np.random.default_rng(0)
    space.define_knob("a", [f"value {number}" for number in range(40)])
    space.add_constraint(lambda c: c["a"].val in ("value 0", "value 7", "value 23"), reads=("a",), message="three")
    moved = space.neighbors(np.zeros((2000, 1), dtype=int), rng)[:, 0]
    assert set(moved) == {7, 23}
    assert 900 < (moved == 7).sum() < 1100


def test_the_only_config_is_its_own_neighbor():
    space = ConfigSpace()
    space.define_knob("a", [1, 2])
    space.define_knob("b", [7])
    space.add_constraint(lambda c: c["a"].val == 2, reads=("a",), message="two")
    assert space.neighbors(np.array([[1, 0]]), np.random.default_rng(0)).tolist() == [[1, 0]]


def test_knobs_that_come_to_exist_start_anywhere():
    space, rng = ConfigSpace(), np.random.default_rng(0)
    space.define_knob("layout", ["plain", "packed"])
    space.define_knob("panel", range(50), when={"layout": "packed"})
    moved = space.neighbors(np.zeros((300, 2), dtype=int), rng)
    assert (moved[:, 0] == 1).all()
    assert len(np.unique(moved[:, 1])) > 40


def test_crossover_takes_every_knob_from_a_parent():
    space, rng = ConfigSpace(), np.random.default_rng(0)
    for i in range(8):
        space.define_knob(f"k{i}", range(10))
    a, b = np.zeros((400, 8), dtype=int), np.full((400, 8), 9)
    children = space.crossover(a, b, rng)
    assert set(np.unique(children)) == {0, 9}
    assert abs((children == 0).mean() - 0.5) < 0.05


def test_crossover_of_valid_parents_is_valid():
    space, rng = tiled(), np.random.default_rng(0)
    a, b = space.sample(900, rng), space.sample(900, rng)
    children = space.crossover(a, b, rng)
    assert space.is_valid(children).all()
    assert (space.canonical(children) == children).all()
    inherited = (children == a) | (children == b)
    assert inherited.all()


def test_crossover_inherits_a_knob_from_the_parent_that_has_it():
    space, rng = ConfigSpace(), np.random.default_rng(0)
    space.define_knob("layout", ["plain", "packed"])
    space.define_knob("panel", range(50), when={"layout": "packed"})
    children = space.crossover(np.tile([0, 0], (100, 1)), np.tile([1, 37], (100, 1)), rng)
    assert {tuple(row) for row in children.tolist()} == {(0, 0), (1, 37)}


def test_crossover_repairs_even_children_of_invalid_parents():
    space, rng = tiled(), np.random.default_rng(0)
    worst = np.tile([65, 65, 1, 0], (50, 1))
    assert not space.is_valid(worst).any()
    assert space.is_valid(space.crossover(worst, worst, rng)).all()


def test_crossover_needs_pairs():
    space, rng = tiled(), np.random.default_rng(0)
    rows = space.sample(4, rng)
    with pytest.raises(SpaceError, match="4 and 3"):
        space.crossover(rows, rows[:3], rng)
