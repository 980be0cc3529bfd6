"""An aggregate for papers: a LaTeX table, and comma-separated values."""

from __future__ import annotations

import csv
import io
import math
from typing import TYPE_CHECKING

from pegbox.comparison.aggregate.features import FEATURES

if TYPE_CHECKING:
    from pegbox.comparison.aggregate.aggregate import Aggregate

_SPECIAL = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"\textless{}", ">": r"\textgreater{}",
}  # fmt: skip


def latex_table(found: Aggregate) -> str:
    """Write the table of tuners, the best one bold. It needs the package booktabs."""
    lines = [
        r"\begin{tabular}{lrrrr}",
        r"\toprule",
        r"tuner & score (95\% interval) & in time & targets & rank \\",
        r"\midrule",
    ]
    for place, score in enumerate(found.scores):
        low, high = score.interval
        name = f"\\textbf{{{_escaped(score.tuner)}}}" if place == 0 else _escaped(score.tuner)
        cells = [f"{score.score:.3f} ({low:.3f}, {high:.3f})", f"{score.in_time:.3f}", f"{100 * score.reached:.1f}\\%"]
        lines.append(f"{name} & {' & '.join(cells)} & {score.rank:.2f} \\\\")
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}"]) + "\n"


def csv_lines(found: Aggregate) -> str:
    """Write a line for each tuner and space: features, scores, and the expected trials to 95% of the best speed."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["space", "tuner", "trials", "score", "score in time", "expected runtime", "seeds", *FEATURES])
    tasks = {task.name: task for task in found.tasks}
    for score in found.scores:
        for space in score.spaces:
            features = [feature(tasks[space.space]) for feature in FEATURES.values()]
            values = [space.score, space.in_time, space.expected_runtime, len(space.runs), *features]
            cells = ["" if not math.isfinite(value) else f"{value:.6g}" for value in values]
            writer.writerow([space.space, score.tuner, found.trials, *cells])
    return out.getvalue()


def _escaped(text: str) -> str:
    return "".join(_SPECIAL.get(character, character) for character in text)
