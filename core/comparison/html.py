"""The HTML report of a comparison, one self-contained file: curves, table, verdicts and setup.

Without matplotlib, the page has advice on installing it in place of the curves.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING

from pegbox.comparison.aggregate.figures import figure_svg
from pegbox.comparison.aggregate.text import HEADER, score_cells, space_rows, test_sentences
from pegbox.comparison.plot import arrivals, arrivals_svg, band_of, best_svg, spread_word
from pegbox.comparison.runs import TaskInfo
from pegbox.comparison.sentences import joined, p_text, question_text, sentences
from pegbox.comparison.table import columns, missing_words, seeds_text, start_text, task_line
from pegbox.comparison.verdicts import TARGET, Verdict
from pegbox.report.figure import missing_curves
from pegbox.report.page import definitions, document, figure, table

if TYPE_CHECKING:
    from pegbox.comparison.report import Comparison

_TESTS = (
    'Mann-Whitney U, two-sided; "ahead in": share of pairs of runs; "by": ratio of the medians; corrected by Holm over '
    "the pairs of a question."
)

_FOOTER = (
    "<footer><p>Two tuners are said to differ where a two-sided Mann-Whitney U test over their seeds, corrected by "
    "Holm for all pairs of the question, gives p &lt; 0.05. A run that never reached the target counts as slower "
    "than all that did. Intervals are bootstrap intervals of the median, 95%.</p></footer>"
)


def page(report: Comparison) -> str:
    """Write the whole document."""
    setup = report.setup
    title = f"{joined(setup.tuners)} on {joined([task.name for task in setup.tasks])}"
    how = "simulated on recorded measurements" if setup.simulated else "measured"
    warning = f'<p class="warning">Incomplete: {escape(setup.note)}</p>' if setup.note else ""
    said = "".join(f"<li>{escape(sentence)}</li>" for sentence in report.space_words())
    spaces = f"<section><h2>Spaces of one computation</h2><ul>{said}</ul></section>" if said else ""
    tasks = [_task(report, task) for task in report.tasks]
    subtitle = f"{setup.trials} trials, {seeds_text(setup)}, {how}"
    return document(title, subtitle, [warning, _aggregate(report), *tasks, spaces, _setup(report), _FOOTER])


def _aggregate(report: Comparison) -> str:
    """Write the section over all spaces; nothing for a single one, or without known costs."""
    if sum(task.landscape is not None for task in report.tasks) < 2:
        return ""
    found = report.aggregate()
    said = [*missing_words(report), *test_sentences(found)]
    rows = space_rows(found)
    scores = [score_cells(score, len(found.tasks)) for score in found.scores]
    parts = [
        f"<section><h2>Over {len(found.tasks)} spaces</h2>",
        f"<ul>{''.join(f'<li>{escape(sentence)}</li>' for sentence in said)}</ul>",
        table(list(HEADER), scores, name=_breakable),
        _aggregate_charts(report),
        f"<details open><summary>Spaces</summary>{table(rows[0], rows[1:])}</details></section>",
    ]
    return "\n".join(parts)


def _aggregate_charts(report: Comparison) -> str:
    titles = {
        "performance": "Performance between random search (0) and the optimum (1)",
        "targets": "Share of the pairs of a space and a target that are reached",
        "ranks": "Mean ranks; bars join tuners that are not told apart",
    }
    try:
        drawn = [figure(title, title, "", figure_svg(report, name)) for name, title in titles.items()]
    except ImportError as error:
        return missing_curves(error)
    return f'<div class="charts">{"".join(drawn)}</div>'


def _task(report: Comparison, task: TaskInfo) -> str:
    name, _, rest = task_line(task, report.best_known(task.name)).partition(": ")
    verdicts = [verdict for verdict in report.verdicts() if verdict.task == task.name]
    parts = [
        f'<section><h2>{escape(name)}</h2><p class="soft">{escape(rest)}</p>',
        _sentences(report, task.name, verdicts),
        _charts(report, task.name),
        _table(report, task.name),
        _pairs(verdicts),
        "</section>",
    ]
    return "\n".join(parts)


def _sentences(report: Comparison, task: str, verdicts: Sequence[Verdict]) -> str:
    labels = [question_text(question) for question in dict.fromkeys(verdict.question for verdict in verdicts)]
    said = sentences(verdicts, report.setup.tuners)
    items = [
        f'<li><span class="soft">{escape(label)}:</span> {escape(sentence)}</li>'
        for label, sentence in zip(labels, said, strict=True)
    ]
    items += [f"<li>{escape(remark)}</li>" for remark in report.words(task)[len(said) :]]
    return f"<ul>{''.join(items)}</ul>" if items else ""


def _charts(report: Comparison, task: str) -> str:
    try:
        best, reached = best_svg(report, task), arrivals_svg(report, task)
    except ImportError as error:
        return missing_curves(error)
    tuners = list(report.runs_of(task))
    ends = ", ".join(f"{tuner} ends at {band_of(report, task, tuner).middle[-1]:.0%}" for tuner in tuners)
    arrived = ", ".join(f"{tuner} {arrivals(report, task, tuner, TARGET)[-1]:.0%}" for tuner in tuners)
    spread = {"shaded": "the middle half shaded", "bars": "bars over the middle half"}[spread_word(report, task)]
    median = f"share of the best known speed: median over seeds, {spread}"
    share = f"share of the seeds whose best has reached {TARGET:.0%} of the best known speed"
    left = figure("Best so far", median, f"{ends}.", best)
    title = f"Share of seeds that reached {TARGET:.0%} of the best known"
    right = figure(title, share, f"In the end: {arrived}.", reached)
    return f'<div class="charts">\n{left}\n{right}\n</div>'


def _table(report: Comparison, task: str) -> str:
    summaries = [summary for summary in report.summaries() if summary.task == task]
    shown = columns(summaries, trials=report.trials)
    rows = [[column.cell(summary) for column in shown] for summary in summaries]
    meanings = [(column.header, column.meaning) for column in shown]
    drawn = table([column.header for column in shown], rows, meanings=dict(meanings), name=_breakable)
    return f"{drawn}<details><summary>What the columns mean</summary>{definitions(meanings)}</details>"


def _breakable(name: str) -> str:
    """Write the name of a tuner with line breaks allowed between its options, which make it long."""
    return re.sub(r"([:,=])(?!$)", r"\1<wbr>", escape(name))


def _pairs(verdicts: Sequence[Verdict]) -> str:
    if not verdicts:
        return ""
    rows = [
        (
            question_text(v.question),
            v.better,
            v.worse,
            f"{v.superiority:.0%}",
            f"{v.ratio:.2f}x" if v.ratio < math.inf else "only one reached it",
            p_text(v.p),
            p_text(v.corrected),
        )
        for v in verdicts
    ]
    header = ["question", "ahead", "behind", "ahead in", "by", "p", "corrected"]
    drawn = table(header, rows, left=[1, 2], caption=_TESTS, name=_breakable)
    return f"<details><summary>Every test</summary>{drawn}</details>"


def _setup(report: Comparison) -> str:
    setup = report.setup
    rows = [("tuners", ", ".join(setup.tuners))]
    for task in setup.tasks:
        about = [
            f"target {task.target}" if task.target else "",
            f"{task.flop:.4g} operations a call" if task.flop else "",
            f"{task.bytes_moved:.4g} bytes a call" if task.bytes_moved and not task.flop else "",
            f"simulated on {task.source}" if task.simulated else "measured",
            f"host {task.host}" if task.host else "",
        ]
        rows.append((task.name, "; ".join(filter(None, about))))
    at_once = f", {setup.jobs} runs at a time" if setup.jobs > 1 else ""
    rows += [
        ("trials", str(setup.trials)),
        ("seeds", ", ".join(map(str, setup.seeds))),
        ("start", start_text(setup)),
        ("made", f"{setup.started.replace('T', ' ').replace('+00:00', ' UTC')}, in {setup.seconds:.0f} s{at_once}"),
        ("with", f"pegbox {setup.version}"),
        *report.libraries.items(),
    ]
    return f"<section><h2>Setup</h2>{definitions(rows)}</section>"
