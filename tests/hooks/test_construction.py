"""Errors of a plugin's factory name the plugin and the line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import pegbox as pb
from pegbox import te
from pegbox.errors import ArgumentError, PluginError
from pegbox.hooks.options import construct
from pegbox.search import make_cost_model, make_tuner
from pegbox.search.testing import small_space

BROKEN = """
class Tuner:
    def __init__(self, space, *, seed=0):
        {line}

class Model:
    def __init__(self, *, seed=0):
        {line}

class Generator:
    def __init__(self):
        {line}

    def __call__(self, tensors, target):
        return None
"""


def doubled(n: int) -> list[Any]:
    A = te.placeholder((n,), name="A")
    return [A, te.compute((n,), lambda i: A[i] * 2.0, name="B")]


MAKERS = {
    "Tuner": (4, lambda ref: make_tuner(ref, small_space())),
    "Model": (8, make_cost_model),
    "Generator": (12, lambda ref: pb.create_task(doubled, args=(8,), space=ref)),
}


@pytest.mark.parametrize("name", MAKERS)
def test_what_its_init_raises_names_the_plugin_and_the_line(name: str, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mine.py").write_text(BROKEN.format(line="raise ValueError('no luck')"))
    line, make = MAKERS[name]
    kind = {"Tuner": "tuner", "Model": "cost model", "Generator": "space generator"}[name]
    message = rf"^mine.py:{line}: {kind} 'mine.py:{name}' raised ValueError when it was made: no luck$"
    with pytest.raises(PluginError, match=message):
        make(f"mine.py:{name}")


@pytest.mark.parametrize("line", ["assert False", "raise SystemExit"])
def test_what_has_no_text_is_named_by_its_kind(line: str, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mine.py").write_text(BROKEN.format(line=line))
    with pytest.raises(PluginError, match=r"^mine.py:4: .* raised (AssertionError|SystemExit) when it was made$"):
        make_tuner("mine.py:Tuner", small_space())


def test_an_error_of_pegbox_stays_what_it_is() -> None:
    def refuse() -> None:
        raise ArgumentError("alpha=0 is out of range")

    with pytest.raises(ArgumentError, match="alpha=0 is out of range"):
        construct("tuner 'mine'", refuse)


def test_the_line_of_a_nested_part_is_kept(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    Path("cm.py").write_text("""
from pegbox.errors import ArgumentError

class M:
    def __init__(self, *, alpha=0, seed=0):
        raise ArgumentError(f"{alpha=} is bad")
""")
    with pytest.raises(ArgumentError, match=r"^cm\.py:6: .*alpha=3 is bad$"):
        make_tuner("xgb:cost_model=cm.py:M:alpha=3", small_space())
