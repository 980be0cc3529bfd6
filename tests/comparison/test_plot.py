"""The curves of a comparison: legends that hide nothing, lines that differ in print, no shades over shades."""

from __future__ import annotations

from typing import Any

import pytest
from comparisons import made

from pegbox.comparison import Comparison
from pegbox.comparison.plot import best_svg, spread_word

figure = pytest.importorskip("pegbox.report.figure")
pytest.importorskip("matplotlib")


def report(tuners: int) -> Comparison:
    return made({f"tuner {place}": [[4.0, 2.0, 1.0]] * 6 for place in range(tuners)})


def drawn(labels: list[str], *, title: str | None = None) -> Any:
    """The box of the axes and that of the legend, in pixels."""
    made, (axes,) = figure.make_figure(1)
    lines = [axes.plot([0, 1], [0, 1], label=label)[0] for label in labels]
    figure.legend_below(axes, lines, labels, title=title)
    made.canvas.draw()
    return axes.get_window_extent(), axes.get_legend().get_window_extent(), made.bbox


@pytest.mark.parametrize("labels", [["a"], [f"tuner {n}" for n in range(7)], ["xgb:plan_size=32,epsilon=0.05"] * 7])
def test_a_legend_is_below_the_axes_and_within_the_figure(labels: list[str]) -> None:
    axes, legend, whole = drawn(labels, title="median of 6 seeds; bars: the middle half")
    assert legend.y1 < axes.y0
    assert legend.y0 >= whole.y0
    assert whole.x0 <= legend.x0 <= legend.x1 <= whole.x1


def test_lines_differ_without_colours() -> None:
    styles = [figure.line_style(place) for place in range(24)]
    assert len({(str(style["linestyle"]), style["marker"]) for style in styles}) == len(styles)


def test_shades_of_few_tuners_and_bars_of_many() -> None:
    few, many = report(3), report(7)
    task = few.tasks[0].name
    assert (spread_word(few, task), spread_word(many, task)) == ("shaded", "bars")
    assert best_svg(few, task).count("opacity: 0.15") == 3
    assert "opacity: 0.15" not in best_svg(many, task)
    assert "bars: the middle half" in best_svg(many, task)
