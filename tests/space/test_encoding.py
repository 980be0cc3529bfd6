"""Features for cost models."""

import numpy as np

from pegbox.space import ConfigSpace


def encoded(space, index):
    row = space.encode(np.array([space.get(index).digits]))[0]
    return dict(zip(space.feature_names, row.tolist(), strict=True))


def test_splits_are_log2_of_all_extents_with_the_inferred_one():
    space = ConfigSpace()
    space.define_split("t", 999, "candidate", candidate=[[-1, 4, 16], [-1, 1, 1]])
    assert encoded(space, 0) == {"t.log2[0]": 4.0, "t.log2[1]": 2.0, "t.log2[2]": 4.0}
    np.testing.assert_allclose(encoded(space, 1)["t.log2[0]"], np.log2(999), rtol=1e-6)


def test_one_output_is_the_whole_axis():
    space = ConfigSpace()
    space.define_split("t", 64, num_outputs=1)
    assert encoded(space, 0) == {"t.log2[0]": 6.0}


def test_numbers_stand_for_themselves_and_positive_ints_for_their_log2_too():
    space = ConfigSpace()
    space.define_knob("u", [16, 64])
    space.define_knob("zero", [0, 3])
    space.define_knob("f", [0.25, 0.5])
    space.define_knob("b", [False, True])
    assert encoded(space, 15) == {"u": 64.0, "u.log2": 6.0, "zero": 3.0, "f": 0.5, "b": 1.0}


def test_tuples_of_numbers_are_several_numbers():
    space = ConfigSpace()
    space.define_knob("tile", [(8, 32), (4, 64)])
    assert encoded(space, 1) == {"tile[0]": 4.0, "tile[0].log2": 2.0, "tile[1]": 64.0, "tile[1].log2": 6.0}


def test_numbers_past_float32_stay_finite():
    space = ConfigSpace()
    space.define_knob("big", [1, 10**400, 1e300])
    assert np.isfinite(space.encode(np.array([[0], [1], [2]]))).all()


def test_categories_are_one_hot():
    space = ConfigSpace()
    space.define_knob("layout", ["plain", None, 3])
    assert encoded(space, 1) == {"layout=plain": 0.0, "layout=None": 1.0, "layout=3": 0.0}


def test_orders_are_the_rank_of_every_axis():
    space = ConfigSpace()
    space.define_reorder("o", ["y", "x", "k"], "candidate", candidate=[["k", "y", "x"]])
    assert encoded(space, 0) == {"o.rank[y]": 1.0, "o.rank[x]": 2.0, "o.rank[k]": 0.0}


def test_annotations_are_one_hot_per_axis():
    space = ConfigSpace()
    space.define_annotate("a", ["y", "x"], "try_vec")
    assert encoded(space, 1) == {"a[y]=none": 1.0, "a[y]=vec": 0.0, "a[x]=none": 0.0, "a[x]=vec": 1.0}


def test_cache_locations_are_flags_per_axis():
    space = ConfigSpace()
    space.define_annotate("c", ["y", "x", "k"], "locate_cache", num_anchor=2)
    assert encoded(space, 2) == {"c.at[y]": 0.0, "c.at[x]": 1.0, "c.at[k]": 1.0}


def test_knobs_that_do_not_exist_are_marked():
    space = ConfigSpace()
    space.define_knob("layout", ["plain", "packed"])
    space.define_knob("panel", [8, 16], when={"layout": "packed"})
    assert encoded(space, 0) == {
        "layout=plain": 1.0,
        "layout=packed": 0.0,
        "panel": 0.0,
        "panel.log2": 0.0,
        "panel.exists": 0.0,
    }
    assert encoded(space, 3)["panel.exists"] == 1.0
    assert encoded(space, 3)["panel"] == 16.0


def test_shape_and_type():
    space = ConfigSpace()
    space.define_split("t", 64, num_outputs=3)
    space.define_knob("u", ["a", "b"])
    rows = space.sample(20, np.random.default_rng(0))
    features = space.encode(rows)
    assert features.dtype == np.float32
    assert features.shape == (20, len(space.feature_names)) == (20, 5)
    assert len(np.unique(features, axis=0)) == 20
    assert space.encode(rows[:0]).shape == (0, 5)
