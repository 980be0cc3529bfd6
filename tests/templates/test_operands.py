"""Arguments of the matrix products: what cannot be a shape or a dtype is refused in the user's words."""

from typing import Any

import pytest

import pegbox as pb
from pegbox.errors import ComputeError, ExprError, TemplateError


@pytest.mark.parametrize("extents", [(0, 8, 8), (8, 0, 8), (8, 8, -1), (True, 8, 8)])
@pytest.mark.parametrize(("name", "lead"), [("matmul", ()), ("batch_matmul", (2,))])
def test_extents_are_whole_numbers_from_one_up(name: str, lead: tuple[int, ...], extents: tuple[Any, ...]) -> None:
    with pytest.raises(ComputeError, match=r"^[AB]: .* extents are integers from 1 up"):
        pb.create_task(name, args=(*lead, *extents))


@pytest.mark.parametrize(("extents", "said"), [((8, "eight", 8), "K='eight'"), ((1.5, 8, 8), "M=1.5")])
@pytest.mark.parametrize(("name", "lead"), [("matmul", ()), ("batch_matmul", (2,))])
def test_text_and_fractions_are_refused_by_the_name_of_the_argument(
    name: str, lead: tuple[int, ...], extents: tuple[Any, ...], said: str
) -> None:
    with pytest.raises(TemplateError, match=f"template {name}.*: {said} is not an integer"):
        pb.create_task(name, args=(*lead, *extents))


@pytest.mark.parametrize("columns", [4, 64])
def test_an_unknown_dtype_is_refused_with_the_known_ones(columns: int) -> None:
    with pytest.raises(ExprError, match="unknown dtype 'float65'; use one of float64, float32"):
        pb.create_task("matmul", args=(8, 64, columns, "float65"))
