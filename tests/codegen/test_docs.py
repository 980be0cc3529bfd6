"""The examples of the pages on code generation and kernels run and print what the pages show."""

import doctest
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.parametrize(("page", "examples"), [("codegen.md", 10), ("kernels.md", 4)])
def test_examples_of_the_page_are_true(page: str, examples: int) -> None:
    result = doctest.testfile(str(DOCS / page), module_relative=False)
    assert result.attempted >= examples
    assert result.failed == 0
