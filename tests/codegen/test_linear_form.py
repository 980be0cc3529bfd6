"""Linear forms of addresses: a line's element that was cut into rows and columns has no division left."""

from __future__ import annotations

from pegbox.codegen.emitter.linear_form import Form, address_form
from pegbox.expr.build import as_expr, variables
from pegbox.expr.nodes import Buffer, Load


def form_of(indices: list[object], shape: tuple[int, ...]) -> Form:
    return address_form(Load(Buffer("a", shape), tuple(map(as_expr, indices))), lambda var: 0)


def test_an_element_cut_into_three_indices_is_the_element() -> None:
    (i,) = variables("i")
    e = i * 16 + 5
    form = form_of([e // 9, e // 3 % 3, e % 3], (8, 3, 3))
    assert (form.const, form.terms, form.atoms) == (5, ((i, 16),), ())
    form = form_of([e // 9, e // 3 % 3, e % 3, 0], (8, 3, 3, 10))
    assert (form.const, form.terms, form.atoms) == (50, ((i, 160),), ())


def test_an_element_is_found_however_its_sum_is_written() -> None:
    (i,) = variables("i")
    form = form_of([(48 + i) // 7, (i + 48) % 7], (8, 7))
    assert (form.const, form.terms, form.atoms) == (48, ((i, 1),), ())


def test_an_element_whose_place_has_a_quotient_itself_loses_the_others() -> None:
    i, k = variables("i k")
    e = i * 16 + k // 2
    form = form_of([e // 9, e % 9], (8, 9))
    assert (form.const, form.terms) == (0, ((i, 16),))
    ((atom, coefficient),) = form.atoms
    assert (atom.op, atom.divisor, coefficient) == ("floordiv", 2, 1)


def test_indices_that_another_layout_puts_elsewhere_keep_their_divisions() -> None:
    (i,) = variables("i")
    assert len(form_of([i // 3 % 3, i // 9, i % 3], (3, 8, 3)).atoms) == 3
    assert len(form_of([i // 9, i // 3 % 3, i % 3], (8, 4, 3)).atoms) == 3
    assert len(form_of([i % 3, i // 3 % 3, i // 9], (3, 3, 8)).atoms) == 3
    assert len(form_of([i // 9, (i + 1) // 3 % 3, 0], (8, 3, 3)).atoms) == 2
    assert len(form_of([i // 6, i // 3 % 3, 0], (8, 3, 3)).atoms) == 2
