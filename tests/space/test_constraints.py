"""Constraints: what predicates see, how often they are asked, and where they do not apply."""

import itertools

import numpy as np
import pytest

from pegbox.errors import SpaceError
from pegbox.space import ConfigSpace


def two():
    space = ConfigSpace()
    space.define_split("y", 16)
    space.define_split("x", 16)
    space.define_knob("free", list(range(50)))
    return space


def small_tile(config):
    return config["y"].size[-1] * config["x"].size[-1] <= 16


def test_valid_configs_are_those_that_the_predicate_accepts():
    space = two()
    space.add_constraint(small_tile, reads=("y", "x"), message="tile of 16")
    expected = {i for i in range(space.size) if small_tile(space.get(i))}
    assert {config.index for config in space.iterate()} == expected
    assert space.num_valid() == len(expected) == 15 * 50
    every = np.array([space.get(i).digits for i in range(space.size)])
    assert set(np.flatnonzero(space.is_valid(every))) == expected


def test_predicate_is_asked_once_per_combination_of_what_it_reads():
    asked = []
    space = two()

    def predicate(config):
        asked.append((config["y"].size[-1], config["x"].size[-1]))
        return True

    space.add_constraint(predicate, reads=("y", "x"), message="any")
    rng = np.random.default_rng(0)
    for _ in range(5):
        rows = space.sample(500, rng)
        space.neighbors(rows, rng)
    assert len(asked) == len(set(asked)) <= 25


def test_wide_constraints_give_the_same_answers_as_narrow_ones():
    """Past 65536 combinations answers are kept by key, past 2**62 by row: all three must agree."""
    lengths = {"table": [7] * 3, "keys": [300] * 3, "rows": [10000] * 5}
    for count in lengths.values():
        space = ConfigSpace()
        for i, length in enumerate(count):
            space.define_knob(f"k{i}", range(length))
        names = tuple(space.knobs)
        space.add_constraint(lambda c, names=names: sum(c[n].val for n in names) % 3 == 0, reads=names, message="sum")
        rows = np.random.default_rng(0).integers(0, count, size=(400, len(count)))
        for _ in range(2):
            assert (space.is_valid(rows) == (rows.sum(axis=1) % 3 == 0)).all()


def test_predicate_may_read_only_what_it_declared():
    space = two()
    space.add_constraint(lambda c: c["x"].size[-1] > 1, reads=("y",), message="wide")
    with pytest.raises(SpaceError, match=r"'wide' uses knob 'x' but declares reads=\('y',\)"):
        space.sample(1, np.random.default_rng(0))


def test_predicate_that_raises_is_shown_with_its_values():
    space = two()
    space.add_constraint(lambda c: 1 // (c["y"].size[-1] - 4) >= 0, reads=("y",), message="broken")
    with pytest.raises(SpaceError, match=r"'broken' raised ZeroDivisionError at y=\[-1, 4\]"):
        list(space.iterate())


def test_constraint_demands_nothing_of_knobs_that_do_not_exist():
    space = ConfigSpace()
    space.define_knob("layout", ["plain", "packed"])
    space.define_knob("panel", [4, 8, 16], when={"layout": "packed"})
    space.add_constraint(lambda c: c["panel"].val >= 8, reads=("panel",), message="wide panel")
    assert [str(c) for c in space.iterate()] == [
        "#0 layout=plain",
        "#3 layout=packed, panel=8",
        "#5 layout=packed, panel=16",
    ]


def test_predicate_that_asks_what_exists_applies_everywhere():
    space = ConfigSpace()
    space.define_knob("layout", ["plain", "packed"])
    space.define_knob("tile", [4, 8, 16])
    space.define_knob("panel", [2, 4], when={"layout": "packed"})

    def fits(config):
        return config["tile"].val * (config["panel"].val if config.exists("panel") else 1) <= 16

    space.add_constraint(fits, reads=("tile", "panel"), message="fits")
    assert space.num_valid() == 3 + 2 + 1
    assert {config["tile"].val for config in space.iterate() if not config.exists("panel")} == {4, 8, 16}


def test_predicate_that_does_not_ask_for_the_missing_knob_applies():
    space = ConfigSpace()
    space.define_knob("layout", ["plain", "packed"])
    space.define_knob("tile", [4, 8, 16])
    space.define_knob("panel", [2, 4], when={"layout": "packed"})
    space.add_constraint(
        lambda c: c["tile"].val * (c["panel"].val if c["layout"].val == "packed" else 1) <= 8,
        reads=("layout", "tile", "panel"),
        message="fits",
    )
    assert sorted(str(c).partition(" ")[2] for c in space.iterate()) == [
        "layout=packed, tile=4, panel=2",
        "layout=plain, tile=4",
        "layout=plain, tile=8",
    ]


def test_violated_names_the_broken_constraints():
    space = two()
    space.add_constraint(small_tile, reads=("y", "x"), message="tile of 16")
    space.add_constraint(lambda c: c["free"].val < 10, reads="free", message="few")
    assert space.violated(space.config([4, 4, 20])) == ("tile of 16", "few")
    assert space.violated(space.config([0, 0, 0])) == ()


@pytest.mark.parametrize(
    ("reads", "message"), [((), "reads no knob"), (("z",), "reads 'z', no such knob"), ("z", "no such knob")]
)
def test_constraints_need_known_knobs(reads, message):
    with pytest.raises(SpaceError, match=message):
        two().add_constraint(lambda c: True, reads=reads, message="m")


def test_the_same_constraint_twice_is_one():
    space = two()
    for _ in range(2):
        space.add_constraint(small_tile, reads=("y", "x"), message="tile of 16")
    assert len(space.constraints) == 1


def test_counting_factors_over_independent_knobs():
    space = ConfigSpace()
    for i in range(30):
        space.define_knob(f"a{i}", range(20))
        space.define_knob(f"b{i}", range(20))
        space.add_constraint(
            lambda c, i=i: c[f"a{i}"].val < c[f"b{i}"].val, reads=(f"a{i}", f"b{i}"), message=f"order {i}"
        )
    assert space.num_valid() == 190**30


def test_counting_branches_over_knobs_that_decide_about_others():
    space = ConfigSpace()
    space.define_knob("layout", ["plain", "packed"])
    for i in range(8):
        space.define_knob(f"p{i}", range(100), when={"layout": "packed"})
    space.add_constraint(lambda c: c["p0"].val < c["p1"].val, reads=("p0", "p1"), message="order")
    space.define_knob("only_plain", range(7), when={"layout": "plain"})
    assert space.num_valid() == 7 + 4950 * 100**6


def test_counting_what_is_too_much_to_count_is_none(monkeypatch):
    monkeypatch.setattr("pegbox.space.space.COUNT_BUDGET", 1000)
    space = ConfigSpace()
    for i in range(6):
        space.define_knob(f"k{i}", range(50))
    names = tuple(space.knobs)
    space.add_constraint(lambda c: sum(c[n].val for n in names) % 2 == 0, reads=names, message="even")
    assert space.num_valid() is None
    first = [config.digits for config in itertools.islice(space.iterate(), 3)]
    assert first == [(0,) * 6, (2, 0, 0, 0, 0, 0), (4, 0, 0, 0, 0, 0)]


@pytest.mark.parametrize("values", [20, 2000])
def test_questions_are_asked_in_order_and_answered_as_one_by_one(values):
    """Ask with tables of answers for all constraints (20 values), and with none for the last one (2,000)."""
    asked = []
    space = ConfigSpace()
    space.define_knob("a", list(range(12)))
    space.define_knob("b", list(range(12)), when={"a": tuple(range(0, 12, 2))})
    space.define_knob("c", list(range(values)))
    space.define_knob("d", list(range(values)))

    def later(config):
        asked.append((config["a"].val, config["b"].val))
        assert config["a"].val != 6, "the first constraint fails: this must not be asked"
        return config["b"].val < 9

    space.add_constraint(lambda config: config["a"].val != 6, reads=("a",), message="not 6")
    space.add_constraint(later, reads=("a", "b"), message="b below 9")
    space.add_constraint(lambda config: (config["c"].val + config["d"].val) % 3 > 0, reads=("c", "d"), message="rest")
    rng = np.random.default_rng(0)
    for _ in range(6):
        rows = space.canonical(rng.integers(0, [12, 12, values, values], (200, 4)))
        expected = [a != 6 and (a % 2 == 1 or b < 9) and (c + d) % 3 > 0 for a, b, c, d in rows.tolist()]
        assert space.is_valid(rows).tolist() == expected
    assert len(asked) == len(set(asked))
