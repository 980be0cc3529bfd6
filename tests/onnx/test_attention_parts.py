"""ONNX's `Attention` as products around a softmax, and what stays one node."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pegbox.errors import GraphError

onnx = pytest.importorskip("onnx")
operators = pytest.importorskip("onnx_operators")
reader = pytest.importorskip("pegbox.plugins.onnx.reader")
passes = pytest.importorskip("pegbox.graph.passes")
floats = operators.floats

FLOAT16 = 10
HEADS = {"q": floats(2, 4, 5, 3), "k": floats(2, 4, 6, 3, seed=1), "v": floats(2, 4, 6, 2, seed=2)}
ROWS = {"q": floats(2, 5, 12), "k": floats(2, 6, 12, seed=1), "v": floats(2, 6, 8, seed=2)}
OF_ROWS = {"q_num_heads": 4, "kv_num_heads": 4}
MASK = np.arange(6) < np.arange(1, 6)[:, None]


def check(inputs: dict[str, Any], **options: Any) -> Any:
    return operators.check("Attention", inputs, opset=24, **options)[0]


def kinds(inputs: dict[str, Any], **options: Any) -> list[str]:
    """List the kinds of a model's nodes; that of an attention task is "joined"."""
    model = operators.one_operator("Attention", inputs, opset=24, **options)
    graph = passes.optimize(reader.read_model(model))
    parts = [part for node in graph.nodes for part in node.parts or (node,)]
    return ["joined" if "layout" in part.attributes else part.kind for part in parts]


@pytest.mark.parametrize(
    ("mask", "attributes"),
    [
        (None, {}),
        (None, {"scale": 0.5}),
        (None, {"is_causal": 1}),
        (MASK, {}),
        (MASK, {"is_causal": 1, "scale": 2.0}),
        (np.broadcast_to(MASK, (2, 1, 5, 6)), {}),
        (floats(1, 4, 5, 6), {}),
        (floats(5, 6), {"is_causal": 1}),
    ],
)
def test_attention_is_one_task(mask: Any, attributes: dict[str, Any]) -> None:
    for inputs, own in ((HEADS, {}), (ROWS, OF_ROWS)):
        given = inputs if mask is None else {**inputs, "mask": mask}
        assert "joined" in kinds(given, **own, **attributes)
        check(given, **own, **attributes)


def test_heads_of_keys_that_several_queries_share() -> None:
    shared = {"k": HEADS["k"][:, :2], "v": HEADS["v"][:, :2]}
    check({**HEADS, **shared})
    assert "Softmax" not in kinds({**HEADS, **shared})
    rows = {"k": ROWS["k"][..., :3], "v": ROWS["v"][..., :2]}
    check({**ROWS, **rows}, q_num_heads=4, kv_num_heads=1)
    assert "Softmax" not in kinds({**ROWS, **rows}, q_num_heads=4, kv_num_heads=1)


def test_queries_that_see_no_key_have_zeros() -> None:
    hidden = MASK & (np.arange(5) != 2)[:, None]
    for known in ([], ["mask"]):
        y = check({**HEADS, "mask": hidden}, weights=known)
        assert not y[:, :, 2].any()
        assert y[:, :, 3].all()


def test_a_mask_of_fewer_keys_stays() -> None:
    assert "Softmax" not in kinds({**HEADS, "mask": MASK[:, :4]})


@pytest.mark.parametrize("attributes", [{"softcap": 2.0}, {"softmax_precision": 11}])
def test_other_scores_stay(attributes: dict[str, Any]) -> None:
    assert kinds(HEADS, **attributes) == ["Attention"]
    check(HEADS, **attributes)


def test_short_floats_stay() -> None:
    assert kinds({name: x.astype("float16") for name, x in HEADS.items()}, types={"out": FLOAT16}) == ["Attention"]


def test_earlier_keys_stay() -> None:
    earlier = {"past_k": floats(2, 4, 3, 3), "past_v": floats(2, 4, 3, 2)}
    assert "Softmax" not in kinds({**HEADS, **earlier}, order="q k v _ past_k past_v")


def test_heads_that_do_not_divide_the_width_are_refused() -> None:
    model = operators.one_operator("Attention", ROWS, opset=24, **{**OF_ROWS, "kv_num_heads": 5, "q_num_heads": 5})
    with pytest.raises(GraphError, match=r"Attention .*q_num_heads=5 does not divide the width 12"):
        reader.read_model(model)
