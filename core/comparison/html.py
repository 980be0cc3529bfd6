"""A comparison as one HTML page that opens anywhere: curves, table, verdicts and setup, nothing to load."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING

from pegbox.comparison.assets import SCRIPT, style
from pegbox.comparison.columns import columns
from pegbox.comparison.curves import arrivals, band_of, lowest_shown
from pegbox.comparison.runs import Setup, TaskInfo
from pegbox.comparison.svg import Axes, Series, step_chart, swatch
from pegbox.comparison.table import start_text, task_line
from pegbox.comparison.verdicts import TARGET, Verdict
from pegbox.comparison.words import joined, p_text, question_text, sentences

if TYPE_CHECKING:
    from pegbox.comparison.report import Comparison


def page(report: Comparison) -> str:
    """The whole document."""
    title = f"{joined(report.setup.tuners)} on {joined([task.name for task in report.setup.tasks])}"
    note = report.setup.note
    parts = [
        "<!doctype html>",
        '<html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width,initial-scale=1">',
        f"<title>{escape(title)}</title><style>{style()}</style></head><body><main>",
        f'<header><h1>{escape(title)}</h1><p class="soft">{escape(_subtitle(report.setup))}</p></header>',
        f'<p class="warning">Incomplete: {escape(note)}</p>' if note else "",
        *(_task(report, task) for task in report.tasks),
        _setup(report.setup),
        _footer(),
        f"</main><script>{SCRIPT}</script></body></html>",
    ]
    return "\n".join(filter(None, parts)) + "\n"


def _task(report: Comparison, task: TaskInfo) -> str:
    name, _, rest = task_line(task, report.best_known(task.name)).partition(": ")
    return "\n".join(
        [
            f'<section><h2>{escape(name)}</h2><p class="soft">{escape(rest)}</p>',
            _verdicts(report, task.name),
            _legend(report, task.name),
            _charts(report, task.name),
            _table(report, task.name),
            _pairs([verdict for verdict in report.verdicts() if verdict.task == task.name]),
            "</section>",
        ]
    )


def _verdicts(report: Comparison, task: str) -> str:
    verdicts = [verdict for verdict in report.verdicts() if verdict.task == task]
    labels = [question_text(question) for question in dict.fromkeys(verdict.question for verdict in verdicts)]
    said = sentences(verdicts, report.setup.tuners)
    items = [
        f'<li><span class="soft">{escape(label)}</span><span>{escape(sentence)}</span></li>'
        for label, sentence in zip(labels, said, strict=True)
    ]
    items += [f'<li class="whole">{escape(remark)}</li>' for remark in report.words(task)[len(said) :]]
    return f'<ul class="verdicts">{"".join(items)}</ul>' if items else ""


def _legend(report: Comparison, task: str) -> str:
    items = [f"<li>{swatch(place)}{escape(tuner)}</li>" for place, tuner in enumerate(report.runs_of(task))]
    return f'<ul class="legend">{"".join(items)}</ul>'


def _charts(report: Comparison, task: str) -> str:
    bands = {tuner: band_of(report, task, tuner) for tuner in report.runs_of(task)}
    best = [Series(tuner, band.middle, (band.low, band.high)) for tuner, band in bands.items()]
    reached = [Series(tuner, arrivals(report, task, tuner, TARGET)) for tuner in bands]
    highest = max((max(band.high) for band in bands.values()), default=1.0)
    shares = Axes(report.trials, lowest_shown(bands.values()), max(1.0, highest))
    ends = ", ".join(f"{tuner} ends at {band.middle[-1]:.0%}" for tuner, band in bands.items())
    arrived = ", ".join(f"{one.name} {one.values[-1]:.0%}" for one in reached)
    return "\n".join(
        [
            '<div class="charts">',
            _figure(
                "Best so far",
                "share of the best known speed: median over seeds, the middle half shaded",
                step_chart(
                    best, shares, title="Best so far", description=f"{ends}.", y_label="of the best known speed"
                ),
            ),
            _figure(
                f"There yet: {TARGET:.0%} of the best known",
                f"share of the seeds whose best has come to {TARGET:.0%} of the best known speed",
                step_chart(
                    reached,
                    Axes(report.trials, 0.0, 1.0),
                    title=f"Runs at {TARGET:.0%} of the best known",
                    description=f"In the end: {arrived}.",
                    y_label="of the seeds",
                ),
            ),
            "</div>",
        ]
    )


def _figure(title: str, caption: str, chart: str) -> str:
    return (
        f"<figure><h3>{escape(title)}</h3>{chart}"
        f'<div class="tip" role="status"></div><figcaption>{escape(caption)}</figcaption></figure>'
    )


def _table(report: Comparison, task: str) -> str:
    summaries = [summary for summary in report.summaries() if summary.task == task]
    shown = columns(summaries, trials=report.trials)
    header = "".join(f'<th scope="col" title="{escape(c.meaning)}">{escape(c.header)}</th>' for c in shown)
    rows = []
    for place, summary in enumerate(summaries):
        first, *cells = (escape(column.cell(summary)) for column in shown)
        numbers = "".join(f"<td>{cell}</td>" for cell in cells)
        rows.append(f'<tr><th scope="row">{swatch(place)}{first}</th>{numbers}</tr>')
    meanings = "".join(f"<dt>{escape(c.header)}</dt><dd>{escape(c.meaning)}</dd>" for c in shown)
    return (
        f'<div class="scroll"><table><thead><tr>{header}</tr></thead><tbody>{"".join(rows)}</tbody></table></div>'
        f"<details><summary>What the columns mean</summary><dl>{meanings}</dl></details>"
    )


def _pairs(verdicts: Sequence[Verdict]) -> str:
    if not verdicts:
        return ""
    rows = "".join(
        f'<tr><td>{escape(question_text(v.question))}</td><td class="left">{escape(v.better)}</td>'
        f'<td class="left">{escape(v.worse)}</td><td>{v.superiority:.0%}</td><td>{escape(_ratio(v))}</td>'
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
        ("start", start_text(setup.start)),
        ("made", f"{setup.started.replace('T', ' ').replace('+00:00', ' UTC')}, in {setup.seconds:.0f} s"),
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
