"""The site of the documentation: its pages, its pictures, its reference and its tutorial."""

from __future__ import annotations

import importlib
import re
from functools import reduce
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.rglob("*.md"))
PICTURES = DOCS / "pictures"


def test_every_page_is_in_the_navigation_once() -> None:
    """The build of the site says so too, but takes long."""
    navigation = (ROOT / "mkdocs.yml").read_text().partition("\nnav:\n")[2]
    listed = re.findall(r"[\w/.-]+\.md", navigation)
    assert sorted(listed) == sorted(str(page.relative_to(DOCS)) for page in PAGES)


@pytest.mark.parametrize("page", sorted((DOCS / "reference").glob("*.md")), ids=lambda page: page.name)
def test_what_the_reference_lists_has_a_docstring(page: Path) -> None:
    names = re.findall(r"^::: ([\w.]+)$", page.read_text(), flags=re.M)
    assert len(names) == len(set(names)) > 3
    for name in names:
        assert found(name).__doc__, name


def found(name: str) -> object:
    """The module, or what is in one, of a dotted name."""
    parts = name.split(".")
    for count in range(len(parts), 0, -1):
        try:
            module = importlib.import_module(".".join(parts[:count]))
        except ModuleNotFoundError:
            continue
        return reduce(getattr, parts[count:], module)
    raise AssertionError(f"there is no {name}")


@pytest.fixture
def gallery(monkeypatch: pytest.MonkeyPatch) -> object:
    monkeypatch.syspath_prepend(str(PICTURES))
    return importlib.import_module("gallery")


def test_pictures_are_what_the_script_draws(gallery: object) -> None:
    for name, draw in gallery.LOOPS.items():  # type: ignore[attr-defined]
        kept = (PICTURES / f"{name}.svg").read_text(encoding="utf-8")
        assert draw() == kept, f"run python3 docs/pictures/gallery.py {name}, and look at what it drew"


def test_every_picture_is_drawn_by_the_script_and_shown_by_a_page(gallery: object) -> None:
    kept = {path.stem for path in PICTURES.glob("*.svg")}
    assert kept == {*gallery.LOOPS, *gallery.MEASURED}  # type: ignore[attr-defined]
    shown = {name for page in PAGES for name in re.findall(r"pictures/(\w+)\.svg\)", page.read_text())}
    assert shown == kept
    for name in kept:
        path = PICTURES / f"{name}.svg"
        assert path.stat().st_size < 60_000
        assert ElementTree.parse(path).getroot().tag.endswith("svg")


def test_the_tutorial_runs_from_top_to_bottom(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Runs the pages on small matrices and with one trial; `show_speed` compares each kernel with NumPy."""
    page = (DOCS / "tutorial.md").read_text()
    program = "\n".join(re.findall(r"^```python\n(.+?)^```$", page, flags=re.M | re.S))
    shorter = program.replace("N = 1024", "N = 64").replace("trials=18", "trials=1, progress=False")
    assert shorter.count("N = 64") == shorter.count("trials=1,") == 1
    scope: dict[str, object] = {"__name__": "tutorial"}
    exec(compile(shorter, "tutorial.md", "exec"), scope)
    printed = capsys.readouterr().out
    steps = ["naive", "reordered", "vectorized", "in_registers", "packed", "tuned"]
    assert re.findall(r"^(\w+): [\d.]+ GFLOP/s$", printed, flags=re.M) == steps
    assert "for k in range(64)" in printed
    table = page.partition("## What came out")[2]
    assert [step.replace(" ", "_") for step in re.findall(r"^\| ([a-z ]+) \| \d", table, flags=re.M)] == steps
    with pytest.raises(AssertionError):
        scope["show_speed"](lambda a, b, c: c.fill(np.nan))  # type: ignore[operator]
