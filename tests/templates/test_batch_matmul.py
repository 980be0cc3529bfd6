"""The batched matmul template."""

from __future__ import annotations

from template_contract import TemplateContract

import pegbox as pb


class TestBatchMatmul(TemplateContract):
    template = "batch_matmul"
    cases = (
        (3, 8, 16, 32),
        (1, 7, 13, 17),
        (9, 2, 3, 5),
        (8, 1, 9, 11),
        (2, 5, 6, 7, "float64"),
        (2, 5, 6, 37, "float32", "packed"),
    )
    configs = 5


def test_its_arguments_are_those_of_a_batch_of_products() -> None:
    task = pb.create_task("batch_matmul", args=(2, 3, 4, 5))
    assert [a.shape for a in task.arguments()] == [(2, 3, 4), (2, 4, 5), (2, 3, 5)]
    assert task.flop == 2 * (2 * 3 * 4 * 5)
