"""The examples of docs/spaces.md run and print what the page shows."""

import doctest
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "spaces.md"


def test_examples_of_the_page_are_true():
    result = doctest.testfile(str(PAGE), module_relative=False)
    assert result.attempted > 20
    assert result.failed == 0
