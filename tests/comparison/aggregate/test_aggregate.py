"""Aggregates: scores between random search and the optimum, targets, pairs, features, suspicions, and their output."""

from __future__ import annotations

import csv
import io
import itertools
import math
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest

from pegbox.comparison import BrokenRun, Comparison, Landscape, Run, Setup, TaskInfo
from pegbox.comparison.aggregate.aggregate import arrival_curve, performance_curve
from pegbox.comparison.aggregate.export import csv_lines, latex_table
from pegbox.comparison.aggregate.figures import FIGURES, save_figure
from pegbox.comparison.aggregate.performance import (
    cutoff_trials,
    normalized,
    performance,
    performance_in_time,
)
from pegbox.comparison.aggregate.suspicion import suspicion
from pegbox.comparison.aggregate.targets import TARGETS, expected_runtime, reached
from pegbox.errors import ArgumentError
from pegbox.report.page import PAGE

Curves = Mapping[str, Mapping[str, Sequence[Sequence[float]]]]


def landscape(random: Sequence[float] = (8.0, 6.0, 4.0, 3.0), **more: float) -> Landscape:
    fields = {"optimum": 1.0, "median": 8.0, "slowest": 20.0, "random_trials": 50.0, **more}
    return Landscape(knobs=3, failures=0.1, random=tuple(random), **fields)  # type: ignore[arg-type]


def report(curves: Curves, *, broken: tuple[BrokenRun, ...] = (), start: int = 0, size: int = 1000) -> Comparison:
    """A report of curves by space and tuner, one for each seed."""
    runs = [
        Run(task=space, tuner=tuner, seed=seed, curve=tuple(curve), final_cost=curve[-1])
        for space, tuners in curves.items()
        for tuner, some in tuners.items()
        for seed, curve in enumerate(some)
    ]
    trials = max(len(run.curve) for run in runs)
    tasks = tuple(
        TaskInfo(space, configurations=size, recorded_best=1.0, landscape=landscape(autocorrelation=place / 10))
        for place, space in enumerate(curves)
    )
    tuners = tuple(dict.fromkeys(run.tuner for run in runs))
    seeds = tuple(range(max(run.seed for run in runs) + 1))
    return Comparison(Setup(tasks, tuners, trials, seeds, start=start, planned=len(runs)), tuple(runs), broken)


GOOD, RANDOM, BAD = [2.0, 1.0, 1.0, 1.0], [8.0, 6.0, 4.0, 3.0], [20.0, 18.0, 18.0, 18.0]


def spaces(count: int, **tuners: Sequence[float]) -> Curves:
    return {f"space {place}": {name: [curve] * 4 for name, curve in tuners.items()} for place in range(count)}


def test_random_search_scores_0_the_optimum_1_and_worse_ones_less() -> None:
    found = report(spaces(3, bad=BAD, random=RANDOM, good=GOOD)).aggregate()
    assert found.tuners == ("good", "random", "bad")
    good, random, bad = found.scores
    assert random.score == 0.0
    assert good.score == pytest.approx(np.mean([6 / 7, 1.0, 1.0, 1.0]))
    assert bad.score == pytest.approx(np.mean([-12 / 7, -12 / 5, -14 / 3, -15 / 2]))
    assert [score.rank for score in found.scores] == [1.0, 2.0, 3.0]
    assert good.interval == pytest.approx((good.score, good.score))


def test_an_earlier_budget_looks_at_its_trials_alone() -> None:
    found = report(spaces(2, random=RANDOM, late=[8.0, 6.0, 1.0, 1.0]))
    assert found.aggregate(2).score_of("late").score == 0.0
    assert found.aggregate(4).score_of("late").score > 0.4
    with pytest.raises(ArgumentError, match="trials"):
        found.aggregate(5)


def test_the_cutoff_is_where_random_search_is_close_to_the_optimum() -> None:
    assert cutoff_trials(landscape((5.0, 1.3, 1.1)), 3) == 2  # 1 + 5% of 7 is 1.35
    assert cutoff_trials(landscape((5.0, 1.3, 1.1)), 1) == 1
    assert cutoff_trials(landscape(), 4) == 4
    late = Run("a", "b", 0, (5.0, 5.0, 1.0), 1.0)
    assert performance([late], landscape((5.0, 1.3, 1.1)), 3).shape == (1, 2)


def test_a_baseline_at_the_optimum_divides_nothing_by_zero() -> None:
    got = normalized(np.array([1.0, 2.0]), np.array([1.0, 1.0]), 1.0)
    assert got.tolist() == [1.0, 0.0]


def test_before_something_is_valid_the_slowest_stands_in() -> None:
    run = Run("a", "b", 0, (math.inf, 4.0), 4.0)
    assert performance([run], landscape(), 2).tolist() == [[-12 / 7, 2 / 5]]


def test_a_tuners_own_time_counts_in_time() -> None:
    curve, times = (8.0, 1.0, 1.0, 1.0), (1.0, 2.0, 3.0, 4.0)
    quick = Run("a", "quick", 0, curve, 1.0, times=times)
    slow = Run("a", "slow", 0, curve, 1.0, times=times, tuner_seconds=8.0)
    one, other = (performance_in_time([run], landscape(), 4).mean() for run in (quick, slow))
    assert one > other
    untimed = Run("a", "untimed", 0, curve, 1.0, tuner_seconds=8.0)
    assert performance_in_time([untimed], landscape(), 4).mean() == pytest.approx(one)


def test_an_exact_random_search_scores_0_on_average() -> None:
    costs = np.array([1.0, 2.0, 4.0, 7.0, 9.0, 15.0])
    from pegbox.comparison.landscape import expected_best

    random = expected_best(costs, 3)
    runs = [
        Run("a", "random", seed, tuple(np.minimum.accumulate(order).tolist()), 1.0)
        for seed, order in enumerate(itertools.permutations(costs.tolist(), 3))
    ]
    space = landscape(tuple(random.tolist()), median=5.5, slowest=15.0)
    assert performance(runs, space, 3).mean(axis=0) == pytest.approx([0.0] * 3, abs=1e-12)


def test_targets_are_counted_over_spaces_runs_and_targets() -> None:
    assert TARGETS[0] == 0.5
    assert TARGETS[-1] == pytest.approx(1 / 1.01)
    run = Run("a", "b", 0, (2.0, 1.5, 1.0), 1.0)
    got = reached([run], 1.0, 3)
    assert got[0] == pytest.approx(1 / 21)
    assert got[-1] == 1.0
    curve = arrival_curve(report({"x": {"a": [[2.0, 1.0]]}, "y": {"a": [[4.0, 4.0]]}}), "a", 2)
    assert curve[-1] == 0.5


def test_the_expected_runtime_counts_failures() -> None:
    runs = [Run("a", "b", seed, curve, 1.0) for seed, curve in enumerate([(1.0, 1.0), (9.0, 9.0), (9.0, 1.0)])]
    assert expected_runtime(runs, 1.0, 2) == (1 + 2 + 2) / 2
    assert expected_runtime(runs, 0.5, 2) == math.inf


def test_pairs_count_the_spaces_where_one_beats_the_other() -> None:
    curves = {
        f"space {place}": {
            "a": [[2.0 + seed / 10, 1.0 + seed / 100] for seed in range(6)],
            "b": [[2.0 + seed / 10, (3.0 if place else 0.5) + seed / 100] for seed in range(6)],
        }
        for place in range(3)
    }
    (pair,) = report(curves).aggregate().pairs
    assert {pair.first, pair.second} == {"a", "b"}
    wins = {pair.first: pair.wins, pair.second: pair.losses}
    assert wins == {"a": 2, "b": 1}
    effect = pair.effect if pair.first == "a" else 1 - pair.effect
    assert effect == pytest.approx(2 / 3)


def test_a_tuner_that_lacks_a_space_is_last_there_and_the_table_says_so() -> None:
    curves: dict[str, dict[str, list[list[float]]]] = {
        "x": {"good": [GOOD, GOOD], "random": [RANDOM, RANDOM]},
        "y": {"random": [RANDOM, RANDOM]},
    }
    broken = tuple(BrokenRun("y", "good", seed, "it fell over") for seed in (0, 1))
    made = report(curves, broken=broken)
    found = made.aggregate()
    good = found.score_of("good")
    assert (good.rank, good.broken, len(good.spaces)) == (1.5, 2, 1)
    text = str(made)
    assert "1/2" in text
    assert "missing: 2 runs of good on 1 task; the first is y, seed 0: it fell over" in text
    assert [row[-2:] for row in (line.split() for line in found.table().splitlines()) if row[:1] == ["y"]] == [
        ["missing", "0.000"]
    ]


def test_features_split_the_spaces() -> None:
    curves = {
        f"space {place}": {"smooth": [GOOD if place > 1 else RANDOM] * 2, "random": [RANDOM] * 2} for place in range(4)
    }
    found = report(curves).aggregate()
    (split,) = found.splits
    assert (split.feature, split.bound) == ("autocorrelation", pytest.approx(0.15))
    assert split.low["smooth"] == 0.0
    assert split.high["smooth"] > 0.9
    assert report(spaces(3, random=RANDOM)).aggregate().splits == ()


def test_a_tuner_that_knows_the_answers_is_named() -> None:
    knows = [9.0, 1.0, 1.0, 1.0]
    found = report(spaces(4, knows=knows, random=RANDOM, good=[9.0, 8.0, 7.0, 2.0]), start=1).aggregate()
    (suspect,) = found.suspicions
    assert (suspect.tuner, suspect.hits, suspect.runs) == ("knows", 16, 16)
    assert suspect.p < 1e-30
    assert "knows is at the optimum within its first 3 trials in 16 of 16 runs" in found.table()


def test_luck_on_small_spaces_is_not_suspect() -> None:
    knows = [9.0, 1.0, 1.0, 1.0]
    assert report(spaces(4, knows=knows), start=1, size=10).aggregate().suspicions == ()
    task = TaskInfo("a", configurations=1000, landscape=landscape())
    lucky = [(task, Run("a", "t", seed, (1.0,) if seed < 2 else (9.0,), 1.0)) for seed in range(20)]
    assert suspicion("t", lucky, 0) is None


def test_without_known_costs_there_is_nothing_to_aggregate() -> None:
    run = Run("a", "b", 0, (1.0,), 1.0)
    made = Comparison(Setup((TaskInfo("a"),), ("b",), 1, (0,)), (run,))
    with pytest.raises(ArgumentError, match="compare on recorded spaces"):
        made.aggregate()


def test_the_latex_table_escapes_names() -> None:
    text = latex_table(report(spaces(2, **{"ga:a_b=50%": GOOD, "random": RANDOM})).aggregate())
    assert r"\textbf{ga:a\_b=50\%} & " in text
    assert text.startswith(r"\begin{tabular}{lrrrr}")
    assert text.count(r"\\") == 3


def test_csv_has_a_line_for_each_tuner_and_space() -> None:
    rows = list(csv.DictReader(io.StringIO(csv_lines(report(spaces(3, good=GOOD, random=RANDOM)).aggregate()))))
    assert len(rows) == 6
    assert rows[0]["tuner"] == "good"
    assert float(rows[-1]["score"]) == 0.0
    assert rows[-1]["expected runtime"] == ""
    assert rows[0]["knobs"] == "3"


def test_a_paper_has_every_file(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    made = report(spaces(3, good=GOOD, random=RANDOM))
    files = made.write_paper(tmp_path / "paper")
    assert {file.name for file in files} == {
        "report.json", "report.txt", "table.tex", "scores.csv", "setup.txt",
        *(f"{name}.{suffix}" for name in FIGURES for suffix in ("svg", "pdf")),
    }  # fmt: skip
    assert all(file.stat().st_size for file in files)
    assert Comparison.load(tmp_path / "paper" / "report.json") == made
    with pytest.raises(ArgumentError, match="no figure is called"):
        save_figure(made, "pie", tmp_path / "pie.svg")


def test_the_page_has_the_aggregate(tmp_path: Path) -> None:
    made = report(spaces(3, good=GOOD, random=RANDOM))
    made.to_html(tmp_path / "page.html")
    text = (tmp_path / "page.html").read_text()
    assert PAGE.begins.match(text.encode())
    assert "Over 3 spaces" in text
    assert "The tuners" in text


def test_performance_curves_end_at_the_cutoff() -> None:
    made = report(spaces(2, good=GOOD))
    curve = performance_curve(made, "good", 4)
    assert len(curve) == 101
    assert curve[-1] == 1.0
    assert np.isnan(performance_curve(made, "other", 4)).all()
