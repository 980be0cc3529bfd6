"""The HTML page and the plot: what stands in them, and that they load nothing."""

from __future__ import annotations

import builtins
import json
import math
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from comparisons import made
from hypothesis import given
from hypothesis import strategies as st

from pegbox.comparison import Comparison
from pegbox.comparison.svg import Axes, Series, step_chart, ticks
from pegbox.errors import ArgumentError

INF = math.inf
VOID = {"meta", "br", "link", "img", "input", "hr"}


class Page(HTMLParser):
    """Elements, texts, and whether everything that was opened was closed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.cells: list[list[str]] = []
        self.text: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag == "tr":
            self.cells.append([])
        if tag in ("td", "th"):
            self.cells[-1].append("")
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)
        if self.cells and {"td", "th"} & set(self.open):
            self.cells[-1][-1] += data

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.elements if name == tag]


def report(**more: Any) -> Comparison:
    return made({"xgb:<b>=1": [[4.0, 2.0, 1.0]] * 6, "ga & co": [[4.0, INF, 2.0]] * 6}, **more)


def page(of: Comparison, tmp_path: Path) -> tuple[str, Page]:
    of.to_html(tmp_path / "report.html")
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    parsed = Page(text)
    assert parsed.open == []
    return text, parsed


def test_the_page_is_one_file_that_loads_nothing(tmp_path: Path) -> None:
    text, parsed = page(report(), tmp_path)
    for _, attributes in parsed.elements:
        assert not {"src", "href", "srcset", "action"} & set(attributes)
    assert "@import" not in text
    assert "url(" not in text
    assert not re.search(r"https?://", text)
    assert "fetch(" not in text


def test_names_with_markup_in_them_are_only_text(tmp_path: Path) -> None:
    text, parsed = page(report(task="matmul<script>"), tmp_path)
    assert "<b>" not in text
    assert "matmul<script>" not in text
    assert len(parsed.all("script")) == 1
    assert "ga & co" in "".join(parsed.text)


def test_the_page_has_the_table_the_words_and_the_setup(tmp_path: Path) -> None:
    shown = report(recorded_best=1.0)
    _, parsed = page(shown, tmp_path)
    whole = "".join(parsed.text)
    for sentence in shown.words("job"):
        assert sentence in whole
    header = next(row for row in parsed.cells if row[0] == "tuner")
    rows = [row for row in parsed.cells if row[0] in ("xgb:<b>=1", "ga & co") and len(row) == len(header)]
    assert [row[header.index("to 95%")] for row in rows] == ["3", ">3 (0/6)"]
    assert "simulated on space.jsonl" in whole
    assert "pegbox 0.1.0" in whole
    assert "0, 1, 2, 3, 4, 5" in whole


def test_charts_have_names_a_keyboard_and_the_numbers_that_the_pointer_reads(tmp_path: Path) -> None:
    _, parsed = page(report(), tmp_path)
    best, reached = (svg for svg in parsed.all("svg") if svg.get("role") == "img")
    assert "xgb:<b>=1 ends at 100%" in str(best["aria-label"])
    assert best["tabindex"] == "0"
    data = json.loads(str(best["data-chart"]))
    assert data["names"] == ["xgb:<b>=1", "ga & co"]
    assert data["values"] == [[0.25, 0.5, 1.0], [0.25, 0.25, 0.5]]
    assert json.loads(str(reached["data-chart"]))["values"] == [[0.0, 0.0, 1.0], [0.0, 0.0, 0.0]]


def test_light_and_dark(tmp_path: Path) -> None:
    text, _ = page(report(), tmp_path)
    assert "prefers-color-scheme:dark" in text
    assert 'name="viewport"' in text


@pytest.mark.parametrize("costs", [[[INF]], [[1.0]], [[INF, INF]] * 3, [[1.0] * 400] * 2])
def test_extremes_can_be_shown(costs: list[list[float]], tmp_path: Path) -> None:
    text, _ = page(made({"a": costs, "b": costs}), tmp_path)
    assert not re.search(r"\bnan\b", text.lower())
    assert "Infinity" not in text


def test_an_incomplete_comparison_says_so_on_its_page(tmp_path: Path) -> None:
    whole = report()
    cut = replace(whole, setup=replace(whole.setup, note="1 of 2 runs are finished"))
    assert "Incomplete: 1 of 2 runs are finished" in "".join(page(cut, tmp_path)[1].text)


@given(st.lists(st.lists(st.floats(0.0, 1.2), min_size=1, max_size=30), min_size=1, max_size=12), st.floats(0.0, 0.8))
def test_any_chart_is_well_formed_and_stays_on_its_picture(values: list[list[float]], low: float) -> None:
    series = [Series(f"t{place}", tuple(some), (tuple(some), tuple(some))) for place, some in enumerate(values)]
    axes = Axes(max(map(len, values)), low, 1.2)
    chart = ElementTree.fromstring(step_chart(series, axes, title="t", description="d", y_label="y"))
    for path in chart.iter("path"):
        if "line" in path.get("class", ""):
            numbers = [float(number) for number in re.findall(r"-?[\d.]+", path.get("d", ""))]
            assert all(0 <= x <= 560 for x in numbers[::2])
            assert all(0 <= y <= 340 for y in numbers[1::2])


@given(st.floats(0, 1e4), st.floats(1e-3, 1e4))
def test_ticks_are_round_and_inside(low: float, width: float) -> None:
    found = ticks(low, low + width, about=6)
    assert 2 <= len(found) <= 13
    assert all(low - 1e-6 * width <= tick <= low + width * 1.000001 for tick in found)


def test_the_plot_is_a_picture(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    report().plot(tmp_path / "curves.png")
    assert (tmp_path / "curves.png").read_bytes().startswith(b"\x89PNG")
    report().plot(tmp_path / "curves.svg")
    assert "xgb" in (tmp_path / "curves.svg").read_text()


def test_a_plot_without_matplotlib_names_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without(name: str, *rest: Any, **more: Any) -> Any:
        if name.partition(".")[0] == "matplotlib":
            raise ModuleNotFoundError("No module named 'matplotlib'")
        return real(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ArgumentError, match=r"needs matplotlib .*pip install 'pegbox\[plot\]'.*to_html"):
        report().plot(tmp_path / "curves.png")


@pytest.mark.parametrize("name", ["curves", "curves.txt", "no/curves.png"])
def test_a_plot_that_cannot_be_written_is_refused(tmp_path: Path, name: str) -> None:
    pytest.importorskip("matplotlib")
    with pytest.raises(ArgumentError, match="curves"):
        report().plot(tmp_path / name)


def test_nothing_finished_is_nothing_to_plot(tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match="nothing to draw"):
        Comparison(report().setup, ()).plot(tmp_path / "curves.png")
