"""An aggregate as plain text: the tuners, the tests, the spaces, and the effect of their features."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from pegbox.comparison.aggregate.features import FEATURES
from pegbox.comparison.aggregate.ranks import cliques
from pegbox.comparison.sentences import joined, p_text
from pegbox.report.text_table import text_table

if TYPE_CHECKING:
    from pegbox.comparison.aggregate.aggregate import Aggregate, Pair, Score

HEADER = ("tuner", "score [95% interval]", "in time", "targets", "rank", "spaces", "broken", "overhead/trial")
"""The columns of the table of tuners."""


def score_cells(score: Score, spaces: int) -> list[str]:
    """Write the row of a tuner."""
    low, high = score.interval
    done = f"{len(score.spaces)}/{spaces}"
    return [
        score.tuner,
        f"{score.score:.3f} [{low:.3f}, {high:.3f}]",
        f"{score.in_time:.3f}",
        f"{score.reached:.1%}",
        f"{score.rank:.2f}",
        done,
        str(score.broken or "-"),
        f"{score.overhead * 1e3:.2f} ms",
    ]


def aggregate_text(found: Aggregate) -> str:
    """Write everything."""
    count = len(found.tasks)
    rows = [list(HEADER), *(score_cells(score, count) for score in found.scores)]
    parts = [
        [f"over {count} space{'s' if count != 1 else ''}, {found.trials} trials:", "", *text_table(rows)],
        test_sentences(found),
        text_table(space_rows(found)),
    ]
    if found.splits:
        parts.append(["scores on spaces with low / high values of a feature:", "", *text_table(_split_rows(found))])
    return "\n\n".join("\n".join(part) for part in parts if part)


def test_sentences(found: Aggregate) -> list[str]:
    """Describe the results of the tests over the spaces, and the tuners that may know the answers."""
    said = list(_rank_sentences(found)) + [_pair_sentence(pair, len(found.tasks)) for pair in found.pairs]
    return [*said, *(f"{each}." for each in found.suspicions)]


def space_rows(found: Aggregate) -> list[list[str]]:
    """Write the table of spaces: features, and the score of each tuner."""
    names = ["size", "knobs", "failures", "random to 95%", "autocorr.", "fit.-dist."]
    rows = [["space", *names, *found.tuners]]
    for task in found.tasks:
        values = [feature(task) for feature in FEATURES.values()]
        formats = ("{:.3g}", "{:.0f}", "{:.1%}", "{:.4g}", "{:+.2f}", "{:+.2f}")
        cells = [
            form.format(value) if math.isfinite(value) else "-" for form, value in zip(formats, values, strict=True)
        ]
        scores = [next((s.score for s in score.spaces if s.space == task.name), math.nan) for score in found.scores]
        rows.append([task.name, *cells, *(f"{score:.3f}" if math.isfinite(score) else "missing" for score in scores)])
    return rows


def _rank_sentences(found: Aggregate) -> Iterator[str]:
    ranked = found.ranking
    if math.isnan(ranked.p):
        return
    differ = "differ" if ranked.p < 0.05 else "cannot be told apart by their ranks"
    yield (
        f"The tuners {differ} (Friedman, {p_text(ranked.p)}); ranks that are {ranked.critical_difference:.2f} apart "
        "are different (Nemenyi, 0.05)."
    )
    if ranked.p < 0.05:
        order = sorted(range(len(found.tuners)), key=ranked.ranks.__getitem__)
        for first, last in cliques(ranked):
            yield f"Not told apart: {joined([found.tuners[order[place]] for place in range(first, last + 1)])}."


def _pair_sentence(pair: Pair, spaces: int) -> str:
    effect = "" if math.isnan(pair.effect) else f"; a run of it is the better one in {pair.effect:.0%} of all pairs"
    better, alike, worse = pair.ranks
    return (
        f"{pair.first} beats {pair.second} on {pair.wins} of {spaces} spaces and is beaten on {pair.losses}{effect}. "
        f"Better / alike / worse with a probability of {better:.0%} / {alike:.0%} / {worse:.0%}."
    )


def _split_rows(found: Aggregate) -> list[Sequence[str]]:
    rows: list[Sequence[str]] = [["feature", "bound", *found.tuners]]
    for split in found.splits:
        cells = [f"{split.low[tuner]:.3f} / {split.high[tuner]:.3f}" for tuner in found.tuners]
        rows.append([split.feature, f"{split.bound:.3g}", *cells])
    return rows
