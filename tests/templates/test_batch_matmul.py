"""The batched matmul template."""

from __future__ import annotations

import pegbox as pb


def test_its_arguments_are_those_of_a_batch_of_products() -> None:
    task = pb.create_task("batch_matmul", args=(2, 3, 4, 5))
    assert [a.shape for a in task.arguments()] == [(2, 3, 4), (2, 4, 5), (2, 3, 5)]
    assert task.flop == 2 * (2 * 3 * 4 * 5)
