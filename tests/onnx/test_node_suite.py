"""The node tests of the ONNX project, with pegbox as the backend.

All are evaluated by the reference evaluator. Of each operator one is compiled; all with PEGBOX_ONNX_SUITE=1.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import pytest

onnx = pytest.importorskip("onnx")
suite = pytest.importorskip("onnx_suite")
backend = pytest.importorskip("pegbox.plugins.onnx.backend")

PAGE = Path(__file__).resolve().parents[2] / "docs/onnx-operators.md"
SHARE = 0.85
SHARDS = 4


@pytest.fixture(scope="module")
def outcomes() -> Sequence[object]:
    """The outcomes of all tests, evaluated by the reference evaluator."""
    return suite.run_suite(suite.evaluated, suite.node_tests())


def test_no_values_are_wrong(outcomes) -> None:
    assert [(each.name, each.wrong) for each in outcomes if each.wrong] == []


def test_most_tests_pass(outcomes) -> None:
    passed = sum(each.passed for each in outcomes)
    assert passed >= SHARE * len(outcomes)


def test_models_are_refused_before_anything_is_compiled(outcomes) -> None:
    assert [each.name for each in outcomes if each.reasons and each.built] == []


def test_the_page_of_operators_is_up_to_date(outcomes) -> None:
    text = suite.table(outcomes)
    if os.environ.get("PEGBOX_UPDATE_GOLDEN"):
        PAGE.write_text(text)
    if f"onnx {onnx.__version__}," not in PAGE.read_text():
        pytest.skip("the page was written with the tests of another version of onnx")
    assert PAGE.read_text() == text


@pytest.mark.parametrize("shard", range(SHARDS))
def test_compiled_kernels_have_the_same_values(outcomes, shard: int) -> None:
    everything = os.environ.get("PEGBOX_ONNX_SUITE") == "1"
    passed = {each.name for each in outcomes if each.passed}
    tests = [test for test in suite.node_tests() if test.name in passed] if everything else list(suite.sample(outcomes))
    found = suite.run_suite(backend.compiled, tests[shard::SHARDS])
    assert [(each.name, each.wrong or each.reasons) for each in found if not each.passed] == []
