"""The HTML report of a comparison, one self-contained file: curves, table, verdicts and setup.

Without matplotlib, which draws the curves, the page says how to get them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING

from pegbox.comparison.columns import columns
from pegbox.comparison.curves import arrivals, band_of
from pegbox.comparison.plot import arrivals_svg, best_svg
from pegbox.comparison.runs import Setup, TaskInfo
from pegbox.comparison.sentences import joined, p_text, question_text, sentences
from pegbox.comparison.table import WITHOUT, start_text, task_line
from pegbox.comparison.verdicts import TARGET, Verdict
from pegbox.report.figure import missing_curves
from pegbox.report.page import document, figure

if TYPE_CHECKING:
    from pegbox.comparison.report import Comparison


def page(report: Comparison) -> str:
    """The whole document."""
    title = f"{joined(report.setup.tuners)} on {joined([task.name for task in report.setup.tasks])}"
    note = report.setup.note
    warning = f'<p class="warning">Incomplete: {escape(note)}</p>' if note else ""
    tasks = [_task(report, task) for task in report.tasks]
    parts = [warning, *tasks, _spaces(report), _setup(report.setup), _footer()]
    return document(title, _subtitle(report.setup), parts)


def _task(report: Comparison, task: TaskInfo) -> str:
    name, _, rest = task_line(task, report.best_known(task.name)).partition(": ")
    return "\n".join(
        [
            f'<section><h2>{escape(name)}</h2><p class="soft">{escape(rest)}</p>',
            _verdicts(report, task.name),
            _charts(report, task.name),
            _table(report, task.name),
            _pairs([verdict for verdict in report.verdicts() if verdict.task == task.name]),
            "</section>",
        ]
    )


def _spaces(report: Comparison) -> str:
    said = "".join(f"<li>{escape(sentence)}</li>" for sentence in report.space_words())
    return f"<section><h2>Spaces of one computation</h2><ul>{said}</ul></section>" if said else ""


def _verdicts(report: Comparison, task: str) -> str:
    verdicts = [verdict for verdict in report.verdicts() if verdict.task == task]
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
    return "\n".join(
        [
            '<div class="charts">',
            figure(
                "Best so far",
                "share of the best known speed: median over seeds, the middle half shaded",
                f"{ends}.",
                best,
            ),
            figure(
                f"There yet: {TARGET:.0%} of the best known",
                f"share of the seeds whose best has come to {TARGET:.0%} of the best known speed",
                f"In the end: {arrived}.",
                reached,
            ),
            "</div>",
        ]
    )


def _table(report: Comparison, task: str) -> str:
    summaries = [summary for summary in report.summaries() if summary.task == task]
    shown = columns(summaries, trials=report.trials)
    header = "".join(f'<th scope="col" title="{escape(c.meaning)}">{escape(c.header)}</th>' for c in shown)
    rows = []
    for summary in summaries:
        first, *cells = (column.cell(summary) for column in shown)
        numbers = "".join(f"<td>{escape(cell)}</td>" for cell in cells)
        rows.append(f'<tr><th scope="row">{_breakable(first)}</th>{numbers}</tr>')
    meanings = "".join(f"<dt>{escape(c.header)}</dt><dd>{escape(c.meaning)}</dd>" for c in shown)
    return (
        f'<div class="scroll"><table><thead><tr>{header}</tr></thead><tbody>{"".join(rows)}</tbody></table></div>'
        f"<details><summary>What the columns mean</summary><dl>{meanings}</dl></details>"
    )


def _breakable(name: str) -> str:
    """The name of a tuner, whose lines may end between its options: they make it long."""
    return re.sub(r"([:,=])(?!$)", r"\1<wbr>", escape(name))


def _pairs(verdicts: Sequence[Verdict]) -> str:
    if not verdicts:
        return ""
    rows = "".join(
        f'<tr><td>{escape(question_text(v.question))}</td><td class="left">{_breakable(v.better)}</td>'
        f'<td class="left">{_breakable(v.worse)}</td><td>{v.superiority:.0%}</td><td>{escape(_ratio(v))}</td>'
        f"<td>{escape(p_text(v.p))}</td><td>{escape(p_text(v.corrected))}</td></tr>"
        for v in verdicts
    )
    heads = {"question": "", "ahead": "left", "behind": "left", "ahead in": "", "by": "", "p": "", "corrected": ""}
    header = "".join(f'<th scope="col" class="{side}">{head}</th>' for head, side in heads.items())
    return (
        '<details><summary>Every test</summary><div class="scroll"><table><caption>Mann-Whitney U, two-sided; "ahead '
        'in": share of pairs of runs; "by": ratio of the medians; corrected by Holm over the pairs of a question.'
        f"</caption><thead><tr>{header}</tr></thead><tbody>{rows}</tbody></table></div></details>"
    )


def _ratio(verdict: Verdict) -> str:
    return f"{verdict.ratio:.2f}x" if verdict.ratio < float("inf") else "only one got there"


def _setup(setup: Setup) -> str:
    rows = [("tuners", ", ".join(setup.tuners))]
    at_once = f", {setup.jobs} runs at a time" if setup.jobs > 1 else ""
    for task in setup.tasks:
        about = [
            f"target {task.target}" if task.target else "",
            f"{task.flop:.4g} operations a call" if task.flop else "",
            f"{task.bytes_moved:.4g} bytes a call" if task.bytes_moved and not task.flop else "",
        ]
        about += [
            f"simulated on {task.source}" if task.simulated else "measured",
            f"host {task.host}" if task.host else "",
        ]
        rows.append((task.name, "; ".join(filter(None, about))))
    rows += [
        ("trials", str(setup.trials)),
        ("seeds", ", ".join(map(str, setup.seeds))),
        ("start", f"{start_text(setup.start)}{'' if setup.experience else WITHOUT}"),
        ("made", f"{setup.started.replace('T', ' ').replace('+00:00', ' UTC')}, in {setup.seconds:.0f} s{at_once}"),
        ("with", f"pegbox {setup.version}"),
    ]
    listed = "".join(f"<dt>{escape(name)}</dt><dd>{escape(value)}</dd>" for name, value in rows)
    return f"<section><h2>Setup</h2><dl>{listed}</dl></section>"


def _footer() -> str:
    return (
        "<footer><p>Two tuners are said to differ where a two-sided Mann-Whitney U test over their seeds, corrected by "
        "Holm for all pairs of the question, gives p &lt; 0.05. A run that never reached the target counts as slower "
        "than all that did. Intervals are bootstrap intervals of the median, 95%.</p></footer>"
    )


def _subtitle(setup: Setup) -> str:
    simulated = any(task.simulated for task in setup.tasks)
    seeds = f"{len(setup.seeds)} seed{'s' if len(setup.seeds) != 1 else ''}"
    return f"{setup.trials} trials, {seeds}, {'simulated on recorded measurements' if simulated else 'measured'}"
