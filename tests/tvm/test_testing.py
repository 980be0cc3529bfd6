"""`tvm.testing`: fixtures of values, as TVM's own tests declare them."""

from __future__ import annotations

import pytest

from pegbox.plugins import tvm

dtype = tvm.testing.parameter("int8", "float32")
size = tvm.testing.parameter(by_dict={"small": 2, "large": 3})
rows, columns = tvm.testing.parameters((1, 10), (2, 20))


def test_values_are_those_of_a_module(dtype: str, size: int, rows: int, columns: int) -> None:
    assert dtype in ("int8", "float32")
    assert size in (2, 3)
    assert columns in (10, 20)
    assert rows in (1, 2)


class TestOfAClass:
    width = tvm.testing.parameter(4, 8)

    def test_values_are_those_of_a_class(self, width: int) -> None:
        assert width in (4, 8)


def test_values_of_a_mapping_have_its_labels(request: pytest.FixtureRequest, size: int) -> None:
    assert {"small": 2, "large": 3}[request.node.callspec.id] == size
