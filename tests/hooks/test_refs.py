"""References written as text."""

from __future__ import annotations

import pytest

from pegbox.hooks import split_options


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("xgb", ("xgb", "")),
        ("xgb:plan_size=32", ("xgb", "plan_size=32")),
        ("xgb:plan_size=32,loss=rank", ("xgb", "plan_size=32,loss=rank")),
        ("xgb:cost_model=forest:trees=8", ("xgb", "cost_model=forest:trees=8")),
        ("dir/file.py:Tuner", ("dir/file.py:Tuner", "")),
        ("dir/file.py:Tuner:alpha=2", ("dir/file.py:Tuner", "alpha=2")),
        ("package.module:Tuner", ("package.module:Tuner", "")),
    ],
)
def test_options_are_parted_from_the_reference(text: str, parts: tuple[str, str]) -> None:
    assert split_options(text) == parts
