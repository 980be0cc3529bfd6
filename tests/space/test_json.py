"""The JSON form of a config: AutoTVM's shape, reads back equal, refuses what comes from elsewhere."""

import json

import pytest

from pegbox.errors import SpaceError
from pegbox.space import ConfigSpace


def make(extent=64, unroll=(0, 64)):
    space = ConfigSpace()
    space.define_split("tile", extent, num_outputs=3)
    space.define_knob("unroll", unroll)
    space.define_knob("kind", ["plain", (8, 32)])
    space.define_reorder("order", ["y", "x"], "identity")
    space.define_annotate("ann", ["y", "x"], "try_vec")
    space.define_knob("deep", [1.5, None], when={"kind": "plain"})
    return space


def test_shape_is_autotvms():
    assert make().get(31).to_json() == {
        "index": 31,
        "entity": [
            ["tile", "sp", [-1, 8, 1]],
            ["unroll", "ot", 64],
            ["kind", "ot", "plain"],
            ["order", "re", [0, 1]],
            ["ann", "an", ["none", "none"]],
            ["deep", "ot", 1.5],
        ],
    }


def test_every_config_reads_back_equal_through_text():
    space = make()
    for config in space.iterate():
        form = json.loads(json.dumps(config.to_json()))
        assert space.from_json(form) == config
        assert space.from_json({"index": form["index"]}) == config
        assert space.from_json({"entity": form["entity"]}) == config
        assert space.from_json({"index": None, "entity": form["entity"][::-1], "code_hash": None}) == config


def test_entities_may_name_the_outermost_extent_that_is_inferred():
    space = make()
    entity = space.get(0).to_json()["entity"]
    entity[0] = ["tile", "sp", [4, 4, 4]]
    assert space.from_json({"entity": entity})["tile"].size == [-1, 4, 4]


def changed(position, value):
    form = make().get(0).to_json()
    form["entity"][position] = value
    return {"entity": form["entity"]}


@pytest.mark.parametrize(
    ("form", "message"),
    [
        (None, "an object with 'index' or 'entity'"),
        ({}, "an object with 'index' or 'entity'"),
        ({"index": None}, "needs 'index' or 'entity'"),
        ({"index": 10**9}, "its index 1000000000 is not one of"),
        ({"index": -1}, "its index -1"),
        ({"index": True}, "its index True"),
        ({"index": "1"}, "its index '1'"),
        ({"entity": 5}, "not a list"),
        ({"entity": []}, "it lacks the knobs 'tile', 'unroll'"),
        ({"index": 1, "entity": make().get(0).to_json()["entity"]}, "its index names #1 .* its entities name #0"),
        ({"index": 10**9, "entity": make().get(0).to_json()["entity"]}, "its index 1000000000"),
        (changed(0, ["tile", "sp", [-1, 3, 1]]), "'tile' is \\[-1, 3, 1\\] there"),
        (changed(0, ["tile", "sp", [-1, 2]]), "'tile' is \\[-1, 2\\] there"),
        (changed(0, ["tile", "sp", [5, 4, 4]]), "'tile' is \\[5, 4, 4\\] there"),
        (changed(0, ["tile", "sp", [-1, 0, 1]]), "'tile' is \\[-1, 0, 1\\] there"),
        (changed(0, ["tile", "sp", "abc"]), "'tile' is 'abc' there"),
        (changed(0, ["tile", "sp", 3]), "'tile' is 3 there"),
        (changed(0, ["tile", "ot", [-1, 1, 1]]), "has tag 'ot' there, 'sp' here"),
        (changed(1, ["unroll", "ot", False]), "'unroll' is False there"),
        (changed(1, ["unroll", "ot", 64.0]), "'unroll' is 64.0 there"),
        (changed(1, ["unrolls", "ot", 64]), "does not have: 'unrolls'"),
        (changed(1, ["tile", "sp", [-1, 1, 1]]), "names the knob 'tile' twice"),
        (changed(1, ["unroll", 64]), "an entity is \\[name, tag, value\\]"),
        (changed(4, ["ann", "an", ["vec", "vec"]]), "'ann' is \\['vec', 'vec'\\] there"),
        (changed(3, ["order", "re", [1, 0]]), "'order' is \\[1, 0\\] there"),
    ],
)
def test_foreign_or_malformed_forms_are_refused(form, message):
    with pytest.raises(SpaceError, match=message):
        make().from_json(form)


def test_refusal_shows_the_config_and_the_space():
    other = make(extent=60).config([5, 0, 0, 0, 0, 0]).to_json()
    with pytest.raises(SpaceError) as caught:
        make().from_json(other)
    assert str(other["entity"][0][2]) in str(caught.value)
    assert "64 into 3, factors" in str(caught.value)
