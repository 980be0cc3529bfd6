"""The HTML page and the plot: what stands in them, that the page loads nothing, and what is said without matplotlib."""

from __future__ import annotations

import builtins
import itertools
import math
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from comparisons import made

from pegbox.comparison import Comparison
from pegbox.comparison.plot import arrivals, band_of, best_svg
from pegbox.errors import ArgumentError

INF = math.inf
VOID = {"meta", "br", "wbr", "link", "img", "input", "hr"}


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
        for name, value in attributes.items():
            assert name.startswith("xmlns") or "http" not in str(value)
            assert name != "xlink:href" or str(value).startswith("#")
    assert not parsed.all("script")
    assert "@import" not in text
    assert not re.search(r"url\((?!#)", text)
    assert "http" not in "".join(parsed.text)


def test_names_with_markup_in_them_are_only_text(tmp_path: Path) -> None:
    text, parsed = page(report(task="matmul<script>"), tmp_path)
    assert "<b>" not in text
    assert "matmul<script>" not in text
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


def test_curves_are_shares_of_the_best_and_of_the_seeds_that_got_there() -> None:
    shown = report()
    assert band_of(shown, "job", "xgb:<b>=1").middle == (0.25, 0.5, 1.0)
    assert band_of(shown, "job", "ga & co").middle == (0.25, 0.25, 0.5)
    assert arrivals(shown, "job", "xgb:<b>=1", 0.95) == (0.0, 0.0, 1.0)
    assert arrivals(shown, "job", "ga & co", 0.95) == (0.0, 0.0, 0.0)


def test_the_page_has_two_pictures_a_task_with_names_and_a_legend(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    _, parsed = page(report(), tmp_path)
    best, reached = (element for element in parsed.all("div") if element.get("role") == "img")
    assert "xgb:<b>=1 ends at 100%, ga & co ends at 50%" in str(best["aria-label"])
    assert "xgb:<b>=1 100%, ga & co 0%" in str(reached["aria-label"])
    assert len(parsed.all("svg")) == 2
    legends = [text for text in parsed.text if text in ("xgb:<b>=1", "ga & co")]
    assert legends.count("ga & co") >= 2


def test_no_two_elements_of_a_page_have_one_id(tmp_path: Path) -> None:
    one, other = report(), report(task="other")
    setup = replace(one.setup, tasks=(*one.setup.tasks, *other.setup.tasks))
    _, parsed = page(Comparison(setup, (*one.runs, *other.runs)), tmp_path)
    ids = [attributes["id"] for _, attributes in parsed.elements if "id" in attributes]
    assert len(set(ids)) == len(ids)


def test_the_same_report_gives_the_same_page(tmp_path: Path) -> None:
    assert page(report(), tmp_path)[0] == page(report(), tmp_path)[0]


@pytest.mark.parametrize("name", ["_hidden", "a$b$", r"$\frac$"])
def test_any_name_of_a_tuner_stands_in_the_pictures_as_it_is(tmp_path: Path, name: str) -> None:
    pytest.importorskip("matplotlib")
    shown = made({name: [[2.0, 1.0]] * 2, "ga": [[2.0, 2.0]] * 2}, task="$x")
    assert page(shown, tmp_path)[1].text.count(name) >= 2
    shown.plot(tmp_path / "curves.png")


def test_light_and_dark(tmp_path: Path) -> None:
    text, _ = page(report(), tmp_path)
    assert "color-scheme:light dark" in text
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


def test_the_plot_is_a_picture(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    report().plot(tmp_path / "curves.png")
    assert (tmp_path / "curves.png").read_bytes().startswith(b"\x89PNG")
    report().plot(tmp_path / "curves.svg")
    assert "xgb" in (tmp_path / "curves.svg").read_text()


def test_ticks_are_whole_percentages_and_the_legend_says_what_is_shaded() -> None:
    pytest.importorskip("matplotlib")
    # From 80% to 100%, where steps of 2.5 would fit best.
    svg = best_svg(made({"a": [[1.25, 1.2, 1.0]] * 3, "b": [[1.25, 1.25, 1.1]] * 3}), "job")
    ticks = [int(tick) for tick in re.findall(r">([^<>]+)%<", svg)]
    (step,) = {after - before for before, after in itertools.pairwise(ticks)}
    assert len(ticks) > 3
    assert step in (1, 2, 5, 10)
    assert "median of 3 seeds; shaded: the middle half" in svg


def test_a_line_may_end_between_the_options_of_a_tuner(tmp_path: Path) -> None:
    text, _ = page(made({"xgb:a=1,b=2": [[1.0]] * 2, "ga": [[1.0]] * 2}), tmp_path)
    assert "xgb:<wbr>a=<wbr>1,<wbr>b=<wbr>2</th>" in text


@pytest.fixture
def no_matplotlib(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without(name: str, *rest: Any, **more: Any) -> Any:
        if name.partition(".")[0] == "matplotlib":
            raise ModuleNotFoundError("No module named 'matplotlib'")
        return real(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", without)


@pytest.mark.usefixtures("no_matplotlib")
def test_a_plot_without_matplotlib_names_the_extra(tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match=r"needs matplotlib .*pip install 'pegbox\[plot\]'"):
        report().plot(tmp_path / "curves.png")


@pytest.mark.usefixtures("no_matplotlib")
def test_a_page_without_matplotlib_has_all_but_the_curves_and_names_the_extra(tmp_path: Path) -> None:
    shown = report()
    _, parsed = page(shown, tmp_path)
    whole = "".join(parsed.text)
    assert "The curves are missing: they need matplotlib" in whole
    assert "pip install 'pegbox[plot]'" in whole
    assert not parsed.all("svg")
    assert any(row[0] == "ga & co" for row in parsed.cells)
    assert shown.words("job")[0] in whole


@pytest.mark.parametrize("name", ["curves", "curves.txt", "no/curves.png"])
def test_a_plot_that_cannot_be_written_is_refused(tmp_path: Path, name: str) -> None:
    pytest.importorskip("matplotlib")
    with pytest.raises(ArgumentError, match="curves"):
        report().plot(tmp_path / name)


def test_nothing_finished_is_nothing_to_plot(tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match="nothing to draw"):
        Comparison(report().setup, ()).plot(tmp_path / "curves.png")
