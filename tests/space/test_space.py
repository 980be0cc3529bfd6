"""The space as a whole: index, size, redefinition, conditions, printing, fingerprint, pickling."""

import copy
import pickle
import subprocess
import sys

import numpy as np
import pytest

from pegbox.errors import SpaceError
from pegbox.space import ConfigSpace


def small():
    space = ConfigSpace()
    space.define_split("tile", 8)
    space.define_knob("unroll", [0, 64, 512])
    space.define_reorder("order", ["y", "x"], "all")
    return space


def huge():
    space = ConfigSpace()
    for i in range(12):
        space.define_split(f"t{i}", 2**20, num_outputs=4)
    return space


def packed():
    """Two layouts; panel and align exist only under "packed", align only with the wide panel."""
    space = ConfigSpace()
    space.define_knob("layout", ["plain", "packed", "blocked"])
    space.define_knob("panel", [8, 16], when={"layout": "packed"})
    space.define_knob("align", [16, 32, 64], when={"panel": 16})
    space.define_knob("unroll", [1, 2], when={"layout": ("plain", "packed")})
    return space


def by_name(space, **values):
    return space.from_json({"entity": [[name, "ot", value] for name, value in values.items()]})


def test_first_knob_varies_fastest():
    space = small()
    assert [space.get(i).digits for i in (0, 1, 4, 12)] == [(0, 0, 0), (1, 0, 0), (0, 1, 0), (0, 0, 1)]
    assert [space.get(i).index for i in range(len(space))] == list(range(24))


def test_size_follows_knobs_that_are_added_later():
    space = small()
    assert len(space) == 24
    early = space.get(23)
    space.define_knob("late", [1, 2])
    assert len(space) == space.size == 48
    assert early.index == 23
    assert "late" not in early
    with pytest.raises(SpaceError, match="no knob 'late' in this config"):
        early["late"]


def test_an_empty_space_has_one_config():
    space = ConfigSpace()
    assert space.size == space.num_valid() == 1
    assert space.get(0).digits == ()
    assert space.sample(5, np.random.default_rng(0)).shape == (1, 0)
    assert space.encode(np.zeros((1, 0), dtype=int)).shape == (1, 0)
    assert [config.index for config in space.iterate()] == [0]
    assert space


def test_spaces_beyond_64_bits_have_an_exact_size():
    space = huge()
    assert space.size == 1771**12 > 2**64
    assert space.num_valid() == space.size
    last = space.get(space.size - 1)
    assert last.index == space.size - 1
    assert last.digits == (1770,) * 12
    assert space.from_json(last.to_json()) == last


def test_len_of_a_space_beyond_63_bits_says_what_to_use():
    with pytest.raises(OverflowError, match=r"use space\.size"):
        len(huge())
    assert huge()


def test_array_operations_work_beyond_64_bits():
    space, rng = huge(), np.random.default_rng(1)
    rows = space.sample(300, rng)
    assert len({tuple(row) for row in rows.tolist()}) == 300
    moved = space.neighbors(rows, rng)
    assert ((moved != rows).sum(axis=1) == 1).all()
    assert space.crossover(rows, moved, rng).shape == rows.shape
    assert next(iter(space.iterate())).index == 0


@pytest.mark.parametrize("index", [-1, 24, 1.0, "3", True, None])
def test_index_outside_the_space_is_refused(index):
    with pytest.raises(SpaceError, match="24 points"):
        small().get(index)


@pytest.mark.parametrize("digits", [(0, 0), (0, 0, 0, 0), (4, 0, 0), (0, -1, 0)])
def test_digits_outside_the_space_are_refused(digits):
    with pytest.raises(SpaceError, match="digit"):
        small().config(digits)


def test_unknown_knob_of_a_config_lists_the_known_ones():
    with pytest.raises(SpaceError, match=r"no knob 'unrol'.*did you mean 'unroll'.*tile, unroll, order"):
        small().get(0)["unrol"]


def test_declaring_a_knob_again_with_equal_content_changes_nothing():
    space = small()
    before = space.fingerprint
    space.define_split("tile", 8, "verbose")  # the same four splits under another policy's name
    space.define_knob("unroll", (0, 64, 512))
    assert (space.size, space.fingerprint) == (24, before)


@pytest.mark.parametrize(
    "declare",
    [
        lambda space: space.define_split("tile", 16),
        lambda space: space.define_split("tile", 16, "candidate", candidate=[[-1, 1], [-1, 2], [-1, 4], [-1, 8]]),
        lambda space: space.define_knob("tile", [1, 2, 4, 8]),
        lambda space: space.define_knob("unroll", [0, 64]),
        lambda space: space.define_knob("unroll", [0, 64, 512], when={"tile": [-1, 2]}),
        lambda space: space.define_reorder("order", ["x", "y"], "all"),
    ],
)
def test_declaring_a_knob_again_with_other_content_shows_both(declare):
    with pytest.raises(SpaceError, match=r"declared twice with different content:\n.*\n.*"):
        declare(small())


def test_configs_are_equal_when_digits_and_fingerprints_are():
    assert small().get(5) == small().get(5)
    assert len({small().get(5), small().get(5), small().get(6)}) == 2
    other = ConfigSpace()
    other.define_split("tile", 8)
    other.define_knob("unroll", [0, 64, 500])
    other.define_reorder("order", ["y", "x"], "all")
    assert small().get(5) != other.get(5)
    assert small().get(5) != 5


def test_configs_print_their_choices():
    assert str(small().get(13)) == "#13 tile=[-1, 2], unroll=0, order=[1, 0]"


def test_condition_pins_digits_so_that_each_meaning_is_one_config():
    space = packed()
    assert space.size == 3 * 2 * 3 * 2
    canonical = {space.get(i) for i in range(space.size)}
    # plain: unroll; packed: unroll and panel, with align under the wide panel; blocked: nothing.
    assert len(canonical) == space.num_valid() == 2 + 2 * (1 + 3) + 1
    assert [config.index for config in space.iterate()] == sorted(config.index for config in canonical)
    assert all(space.get(config.index) == config for config in canonical)


def test_knobs_of_a_condition_that_does_not_hold_do_not_exist():
    space = packed()
    config = by_name(space, layout="plain", unroll=2)
    assert [name for name, _ in config.items()] == ["layout", "unroll"]
    assert (config.exists("panel"), config.exists("align")) == (False, False)
    assert config["align"].val == 16
    assert by_name(space, layout="packed", panel=16, align=64, unroll=1).exists("align")
    # The parent of align has the right digit only where the parent itself exists.
    assert not by_name(space, layout="blocked").exists("align")


def test_condition_on_a_value_that_is_a_tuple():
    space = ConfigSpace()
    space.define_knob("tile", [(8, 32), (4, 64)])
    space.define_knob("one", [1, 2], when={"tile": (8, 32)})
    space.define_knob("both", [1, 2], when={"tile": [(8, 32), (4, 64)]})
    assert space.num_valid() == 2 * 2 + 2


def test_conditions_on_several_knobs_must_all_hold():
    space = ConfigSpace()
    space.define_knob("a", [0, 1])
    space.define_split("b", 4)
    space.define_knob("c", [1, 2, 3], when={"a": 1, "b": [-1, 2]})
    assert space.num_valid() == 5 + 3


@pytest.mark.parametrize(
    ("when", "message"),
    [
        ({"lay": "packed"}, "depends on 'lay', which is not declared before it; did you mean 'layout'"),
        ({"layout": "paked"}, "being 'paked', which is not a value of option 'layout'"),
        ({"layout": ("packed", "x")}, "being 'x'"),
        ({"layout": ()}, "not a value"),
    ],
)
def test_bad_conditions_are_refused(when, message):
    with pytest.raises(SpaceError, match=message):
        packed().define_knob("new", [1, 2], when=when)


def test_printing_shows_knobs_sizes_totals_conditions_and_constraints():
    space = packed()
    space.define_split("tile", 1024, num_outputs=3)
    space.add_constraint(lambda c: c["tile"].size[-1] <= 64, reads=("tile",), message="tile fits in L1")
    text = str(space)
    assert text.splitlines()[0] == "ConfigSpace: 5 knobs, 2,376 points, 616 of them valid"
    assert "tile    split     66  1024 into 3, factors: [-1, 1, 1]" in text
    assert "when layout is plain or packed" in text
    assert text.splitlines()[-1] == "  tile fits in L1 (reads tile)"


def test_printing_a_huge_space_is_no_error():
    assert "about 10^38" in str(huge())


def test_fingerprint_is_stable_across_processes():
    code = (
        "from pegbox.space import ConfigSpace; s = ConfigSpace(); s.define_split('t', 224, 'verbose', num_outputs=3);"
        "s.define_knob('u', [0, 'a', None], when={'t': [-1, 7, 16]}); print(s.fingerprint)"
    )
    prints = {
        subprocess.run(
            [sys.executable, "-c", code], env={"PYTHONHASHSEED": seed}, capture_output=True, text=True, check=True
        ).stdout
        for seed in ("1", "2")
    }
    assert len(prints) == 1
    assert len(prints.pop().strip()) == 64


def test_fingerprint_tells_spaces_apart():
    def space(*, name="t", extent=16, second=(1, 2), when=None, order=1):
        made = ConfigSpace()
        declare = [
            lambda: made.define_split(name, extent),
            lambda: made.define_knob("u", second, when=when and {name: when}),
        ]
        for step in declare[::order]:
            step()
        return made.fingerprint

    prints = [
        space(),
        space(name="s"),
        space(extent=17),
        space(second=(2, 1)),
        space(second=(1, True)),
        space(when=[-1, 2]),
        space(order=-1),
    ]
    assert len(set(prints)) == len(prints)


def fits(config):
    return config["tile"].size[-1] <= 2


def test_spaces_and_configs_pickle_and_copy():
    space = small()
    space.add_constraint(fits, reads=("tile",), message="small tile")
    for again in (pickle.loads(pickle.dumps(space)), copy.deepcopy(space)):
        assert again.get(5) == space.get(5)
        assert again.num_valid() == space.num_valid() == 12
    assert pickle.loads(pickle.dumps(space.get(5))) == space.get(5)


class _Rules:
    """A usual part of a template: an object that knows the space, and asks its methods."""

    def __init__(self, space):
        self.space = space
        for number in range(12):
            space.add_constraint(self.holds, reads=["a"], message=f"rule {number}")

    def holds(self, config):
        return config["a"].val < 3


def test_predicates_that_lead_back_to_their_space_stay_behind():
    space = ConfigSpace()
    space.define_knob("a", [1, 2, 3])
    _Rules(space)
    config = pickle.loads(pickle.dumps(space.get(1)))
    assert config == space.get(1)
    assert config["a"].val == 2
    with pytest.raises(SpaceError, match=r"rule 0.*does not pickle"):
        config.space.num_valid()


def test_a_predicate_that_does_not_pickle_stays_behind_and_says_so():
    space = small()
    space.add_constraint(lambda c: c["tile"].size[-1] <= 2, reads=("tile",), message="small tile")
    config = pickle.loads(pickle.dumps(space.get(5)))
    assert config == space.get(5)
    with pytest.raises(SpaceError, match="'small tile' cannot be checked in this process"):
        config.space.num_valid()
    assert copy.deepcopy(space).num_valid() == 12


@pytest.mark.parametrize(
    "digits", [np.zeros((2, 2), int), np.zeros(3, int), np.zeros((2, 3)), [[0, 0, 9]], [["a"] * 3]]
)
def test_malformed_arrays_are_refused(digits):
    with pytest.raises(SpaceError, match="digits"):
        small().encode(digits)


def test_importing_the_room_needs_only_numpy():
    code = (
        "import sys; import pegbox.space; "
        "print([m for m in ('llvmlite', 'xgboost', 'scipy', 'rich', 'pluggy') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
