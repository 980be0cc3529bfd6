"""Random spaces with conditions and constraints, held against brute force over all their points."""

import json
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pegbox.errors import SpaceError
from pegbox.space import ConfigSpace, enumeration, sampling
from pegbox.space.digits import digits_of, index_of


@st.composite
def spaces(draw, max_knobs=5):
    """A space of at most a few thousand points, with the predicates of its constraints."""
    space = ConfigSpace()
    for i in range(draw(st.integers(1, max_knobs))):
        when = None
        if i and draw(st.booleans()):
            parent = draw(st.sampled_from(list(space.knobs)))
            entities = space.knobs[parent].entities
            chosen = draw(st.lists(st.integers(0, len(entities) - 1), min_size=1, max_size=2, unique=True))
            when = {parent: [entities[digit].value() for digit in chosen]}
        match draw(st.sampled_from(["split", "option", "range", "reorder", "annotate"])):
            case "split":
                policy = draw(st.sampled_from(["factors", "power2", "verbose"]))
                space.define_split(f"k{i}", draw(st.integers(1, 20)), policy, when=when)
            case "option":
                values = st.one_of(st.integers(-3, 9), st.booleans(), st.text(max_size=2), st.none())
                space.define_knob(f"k{i}", draw(st.lists(values, min_size=1, max_size=5)), when=when)
            case "range":
                low, length, step = draw(st.tuples(st.integers(1, 9), st.integers(0, 12), st.integers(1, 4)))
                space.define_int(f"k{i}", low, low + length, step=step, log=draw(st.booleans()), when=when)
            case "reorder":
                space.define_reorder(f"k{i}", ["y", "x", "k"][: draw(st.integers(1, 3))], "all", when=when)
            case "annotate":
                policy = draw(st.sampled_from(["none", "vec", "try_unroll", "try_vec"]))
                space.define_annotate(f"k{i}", ["y", "x"], policy, when=when)
    names = list(space.knobs)
    for number in range(draw(st.integers(0, 3))):
        reads = tuple(draw(st.lists(st.sampled_from(names), min_size=1, max_size=3, unique=True)))
        salt, share = draw(st.integers(0, 99)), draw(st.sampled_from([2, 3, 50]))
        space.add_constraint(arbitrary(reads, salt, share), reads=reads, message=f"c{number}")
    return space


def arbitrary(reads, salt, share):
    """A predicate without structure that holds for about 1 - 1/share of the combinations, or 1/50 of them."""

    def predicate(config):
        text = f"{salt}:" + ";".join(str(config[name]) for name in reads)
        value = sum((i + 7) * ord(char) for i, char in enumerate(text)) % share
        return value == 0 if share == 50 else value != 0

    return predicate


def active(space, digits):
    """Tell for each knob whether it exists, straight from the definition."""
    found = {}
    for position, (name, knob) in enumerate(space.knobs.items()):
        parents = knob.when.parents if knob.when else ()
        found[name] = all(found[p] and digits[space.positions[p]] in allowed for p, allowed in parents)
        assert found[name] or position > 0
    return found


def meaning(space, digits):
    exists = active(space, digits)
    return tuple(digit if exists[name] else 0 for name, digit in zip(space.knobs, digits, strict=True))


def brute_force(space):
    """Digits of all valid canonical configs in index order."""
    lengths = [len(knob) for knob in space.knobs.values()]
    valid = []
    for point in np.ndindex(*reversed(lengths)):
        digits = tuple(reversed(point))
        if meaning(space, digits) == digits and all(accepts(space, digits, c) for c in space.constraints):
            valid.append(digits)
    return valid


def accepts(space, digits, constraint):
    exists = active(space, digits)
    if not all(exists[name] for name in constraint.reads):
        return True  # `arbitrary` asks for every knob that it reads
    return constraint.predicate(space.config(digits))


@settings(max_examples=150, deadline=None)
@given(space=spaces(), seed=st.integers(0, 2**32 - 1), n=st.integers(1, 40))
def test_enumeration_counting_sampling_and_walking_agree_with_brute_force(space, seed, n):
    expected = brute_force(space)
    assert [config.digits for config in space.iterate()] == expected
    assert enumeration.valid_rows(space.structure).tolist() == [list(digits) for digits in expected]
    assert space.num_valid() == len(expected)
    rng = np.random.default_rng(seed)
    if not expected:
        with pytest.raises(SpaceError, match="no valid config"):
            space.sample(n, rng)
        return
    valid = set(expected)
    rows = space.sample(n, rng)
    found = [tuple(row) for row in rows.tolist()]
    assert len(found) == len(set(found)) == min(n, len(expected))
    assert valid.issuperset(found)
    assert space.is_valid(rows).all()
    moved = space.neighbors(rows, rng)
    assert valid.issuperset(map(tuple, moved.tolist()))
    if len(expected) > 1:
        assert (moved != rows).any(axis=1).all()
    assert valid.issuperset(map(tuple, space.crossover(rows, moved, rng).tolist()))


@settings(max_examples=100, deadline=None)
@given(space=spaces(), seed=st.integers(0, 2**32 - 1), listing=st.booleans())
def test_large_draws_agree_with_brute_force(space, seed, listing):
    """The ways in which large spaces are sampled, on spaces small enough to know the answer."""
    expected = set(brute_force(space))
    rng = np.random.default_rng(seed)
    # Without listing, rare configs must be constructed by backtracking.
    with patch.object(sampling, "LIST_BUDGET", sampling.LIST_BUDGET if listing else 0):
        if not expected:
            with pytest.raises(SpaceError, match="no valid config"):
                sampling.draw(space.structure, 64, rng)
            return
        rows = sampling.draw(space.structure, 64, rng)
        anew = rows.copy()
        for component in space.structure.components:
            if component.constraints:
                sampling.redraw(space.structure, component, anew, np.arange(64), rng)
    assert rows.shape == (64, len(space.knobs))
    assert expected.issuperset(map(tuple, rows.tolist()))
    assert expected.issuperset(map(tuple, anew.tolist()))


@settings(max_examples=100, deadline=None)
@given(space=spaces(), seed=st.integers(0, 2**32 - 1))
def test_construction_by_backtracking_is_valid_and_complete(space, seed):
    expected = set(brute_force(space))
    structure = space.structure
    for component in structure.components:
        columns = list(component.columns)
        possible = {tuple(np.array(row)[columns]) for row in expected}
        base = np.zeros(len(space.knobs), dtype=np.int64)
        order = enumeration.search_order(structure, component)
        rng = np.random.default_rng(seed)
        search = enumeration.Search(structure, order, component.checks, base, rng=rng, block=4, width=2)
        found = [tuple(row[columns]) for block in search.blocks() for row in block]
        assert len(found) == len(set(found))
        assert possible <= set(found)
        assert not expected or possible == set(found)


@settings(max_examples=100, deadline=None)
@given(space=spaces(), budget=st.sampled_from([3, 30, 300]))
def test_counts_under_any_budget_are_right_or_missing(space, budget):
    assert enumeration.count_valid(space.structure, budget) in (None, len(brute_force(space)))


@settings(max_examples=150, deadline=None)
@given(space=spaces(), data=st.data())
def test_index_digits_and_json_read_back_equal(space, data):
    index = data.draw(st.integers(0, space.size - 1))
    config = space.get(index)
    lengths = [len(knob) for knob in space.knobs.values()]
    raw = tuple(int(d) for d in np.unravel_index(index, lengths, order="F"))
    assert config.digits == meaning(space, raw)
    assert (config.index == index) == (config.digits == raw)
    assert space.get(config.index) == space.config(config.digits) == config
    form = json.loads(json.dumps(config.to_json()))
    assert space.from_json(form) == config
    assert space.from_json({"entity": form["entity"]}) == config
    assert (space.canonical(np.array([raw])) == [config.digits]).all()


@settings(max_examples=60, deadline=None)
@given(space=spaces())
def test_encoding_tells_configs_apart_and_is_finite(space):
    rows = np.array([config.digits for config in space.iterate()]).reshape(-1, len(space.knobs))
    features = space.encode(rows)
    assert features.shape == (len(rows), len(space.feature_names))
    assert np.isfinite(features).all()
    mixed = any(k.kind == "option" and any(type(e.raw) is bool for e in k.entities) for k in space.knobs.values())
    if not mixed:  # 1 and True are different values with one number
        assert len(np.unique(features, axis=0)) == len(rows)


@settings(deadline=None)
@given(lengths=st.lists(st.integers(1, 10**6), max_size=30), data=st.data())
def test_mixed_radix_has_no_upper_bound(lengths, data):
    digits = tuple(data.draw(st.integers(0, length - 1)) for length in lengths)
    index = index_of(digits, lengths)
    assert digits_of(index, lengths) == digits
    expected, stride = 0, 1
    for digit, length in zip(digits, lengths, strict=True):
        expected, stride = expected + digit * stride, stride * length
    assert index == expected
