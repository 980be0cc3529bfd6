"""Linear forms of addresses: a line's element that was cut into rows and columns has no division left."""

from __future__ import annotations

from pegbox.codegen.emitter.linear import Linear, linear
from pegbox.expr.build import variables
from pegbox.expr.nodes import Expr


def form_of(indices: list[Expr], scales: list[int]) -> Linear:
    return linear(indices, scales, lambda var: 0)


def test_an_element_cut_into_three_indices_is_the_element() -> None:
    (i,) = variables("i")
    e = i * 16 + 5
    form = form_of([e // 9, e // 3 % 3, e % 3], [9, 3, 1])
    assert (form.const, form.terms, form.atoms) == (5, ((i, 16),), ())
    form = form_of([e // 9, e // 3 % 3, e % 3], [90, 30, 10])
    assert (form.const, form.terms, form.atoms) == (50, ((i, 160),), ())


def test_indices_that_another_layout_puts_elsewhere_keep_their_divisions() -> None:
    (i,) = variables("i")
    for scales in ([3, 9, 1], [9, 4, 1], [1, 3, 9]):
        assert len(form_of([i // 9, i // 3 % 3, i % 3], scales).atoms) == 3
    assert len(form_of([i // 9, (i + 1) // 3 % 3], [9, 3]).atoms) == 2
    assert len(form_of([i // 6, i // 3 % 3], [9, 3]).atoms) == 2
