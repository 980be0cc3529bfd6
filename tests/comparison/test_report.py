"""The report: numbers of known curves, the text table, JSON there and back."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from comparisons import made
from hypothesis import given, settings
from hypothesis import strategies as st

from pegbox.comparison import Comparison, Run
from pegbox.comparison.html import page
from pegbox.comparison.table import format_costs
from pegbox.errors import ArgumentError, RecordError

INF = math.inf
COSTS = st.one_of(st.floats(1e-6, 1e3), st.just(INF))
RUNS = st.lists(st.lists(COSTS, min_size=1, max_size=6), min_size=1, max_size=4)


def example() -> Comparison:
    """Three tuners, eight seeds, ten trials: one learns, one is slower, one fails half of the time."""
    learns = [[8.0, 6.0, 4.0, 2.0 + 0.01 * seed, 1.02, 1.01, 1.0, 1.0, 1.0, 1.0] for seed in range(8)]
    slower = [[8.0, 7.0, 6.0, 5.0, 4.0, 3.0, 2.0, 1.5, 1.2, 1.03 + 0.01 * seed] for seed in range(8)]
    fails = [[INF, 9.0, INF, 8.0, INF, 7.0, INF, 6.0, INF, 5.0 if seed else INF] for seed in range(8)]
    return made({"learns": learns, "slower:by=2": slower, "fails": fails}, recorded_best=1.0, models={"learns": 0.875})


def test_table(golden: Callable[[object], None]) -> None:
    golden(example())


def test_the_library_of_an_adapter_is_named_with_its_version() -> None:
    report = made({"mine": [[2.0]], "theirs": [[2.0]]})
    mine, theirs = report.runs
    named = replace(report, runs=(mine, replace(theirs, library="optuna 5.0.0")))
    assert named.libraries == {"theirs": "optuna 5.0.0"}
    assert "\ntheirs: optuna 5.0.0" in str(named)
    assert "<dd>optuna 5.0.0</dd>" in page(named)
    assert "optuna" not in str(report)


def test_medians_shares_and_reach_of_known_curves() -> None:
    summary = made({"a": [[4.0, 1.0, 1.0, 1.0], [4.0, 4.0, 2.0, 1.0], [4.0, 4.0, 4.0, 4.0]]}).summaries()[0]
    assert (summary.cost, summary.share, summary.interval) == (1.0, 1.0, (1.0, 4.0))
    assert summary.gflops == pytest.approx(2.0)
    ninety = summary.reach[0]
    assert (ninety.share, ninety.trials, ninety.reached, ninety.runs) == (0.9, 4.0, 2, 3)
    # Shares of the best speed: .25 1 1 1, .25 .25 .5 1, .25 .25 .25 .25; the median of the three means.
    assert summary.area == pytest.approx(0.5)


def test_a_target_that_half_of_the_seeds_miss_has_no_median() -> None:
    reach = made({"a": [[1.0], [9.0]]}).summaries()[0].reach[0]
    assert (reach.trials, reach.reached) == (INF, 1)


def test_a_run_that_exhausted_its_space_keeps_its_best() -> None:
    report = made({"a": [[4.0, 2.0]], "b": [[4.0, 4.0, 4.0, 2.0]]})
    assert report.median_curve("job", "a") == [4.0, 2.0, 2.0, 2.0]
    assert report.summaries()[0].area == pytest.approx((0.5 + 1 + 1 + 1) / 4)


def test_shares_are_of_the_best_recorded_where_the_runs_are_simulated() -> None:
    assert made({"a": [[4.0]]}).summaries()[0].share == 1.0
    assert made({"a": [[4.0]]}, recorded_best=1.0).summaries()[0].share == 0.25


def test_what_was_not_recorded_is_counted_apart_from_what_is_invalid() -> None:
    report = made({"a": [[1.0] * 10]}, recorded_best=1.0)
    runs = (replace(report.runs[0], failures={"not recorded": 2, "timeout": 1}),)
    summary = replace(report, runs=runs).summaries()[0]
    assert (summary.invalid, summary.not_recorded) == (0.1, 0.2)
    assert made({"a": [[1.0]]}).summaries()[0].not_recorded is None


def test_columns_that_would_be_empty_are_left_out() -> None:
    live, simulated = made({"a": [[1.0]]}).table(), example().table()
    for header in ("not recorded", "model", "virtual"):
        assert header not in live
        assert header in simulated
    assert "wall clock" in live


def test_a_comparison_of_nothing_finished_still_prints(tmp_path: Path) -> None:
    whole = example()
    report = replace(whole, setup=replace(whole.setup, note="0 of 24 runs are finished: no luck"), runs=())
    assert "incomplete: 0 of 24 runs are finished: no luck" in str(report)
    report.to_html(tmp_path / "r.html")
    report.save(tmp_path / "r.json")
    assert Comparison.load(tmp_path / "r.json") == report


@settings(max_examples=25, deadline=None)
@given(first=RUNS, second=RUNS, best=st.one_of(st.none(), st.floats(1e-7, 1e-6)))
def test_any_costs_give_a_report_that_comes_back_from_json(
    tmp_path_factory: pytest.TempPathFactory, first: list[list[float]], second: list[list[float]], best: float | None
) -> None:
    report = made({"a": first, "b": second}, recorded_best=best)
    assert str(report)
    path = tmp_path_factory.mktemp("report") / "report.json"
    report.save(path)
    again = Comparison.load(path)
    assert again == report
    assert str(again) == str(report)


def test_json_is_plain_and_holds_what_follows_from_the_runs() -> None:
    plain = json.loads(json.dumps(example().to_json(), allow_nan=False))
    assert plain["best_known"] == {"job": 1.0}
    assert plain["runs"][-1]["curve"][0] is None
    assert [summary["tuner"] for summary in plain["summaries"]] == ["learns", "slower:by=2", "fails"]
    assert plain["words"]["job"] == example().words("job")
    assert {"better", "worse", "p", "corrected", "decided"} <= set(plain["verdicts"][0])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "is not JSON"),
        ("[1]", "is not a report of a comparison"),
        ('{"kind": "pegbox comparison", "version": 99}', "version 99, newer than this pegbox reads"),
        ('{"kind": "pegbox comparison", "version": 1}', "the field 'setup' is missing"),
        ('{"kind": "pegbox comparison", "version": 1, "setup": 3, "runs": []}', "a field has the wrong form"),
    ],
)
def test_what_is_no_report_is_refused_with_the_file_named(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "r.json"
    path.write_text(text)
    with pytest.raises(RecordError, match=said) as refused:
        Comparison.load(path)
    assert str(path) in str(refused.value)


def test_a_report_is_not_written_into_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match="there is no folder"):
        example().save(tmp_path / "no" / "r.json")


def test_trials_to_a_cost_counts_from_one() -> None:
    run = Run("job", "a", 0, (4.0, 2.0, 1.0), 1.0)
    assert [run.trials_to(cost) for cost in (9.0, 4.0, 2.0, 1.5, 0.5, INF)] == [1, 1, 2, 3, INF, INF]
    assert [run.best_after(count) for count in (0, 1, 3, 9)] == [INF, 4.0, 1.0, 1.0]


def test_costs_that_are_no_seconds_are_written_as_everywhere() -> None:
    assert format_costs([27660.0, 1e6, 0.5, math.inf], "bytes") == (["27,660", "1,000,000", "0.5", "none"], "bytes")
    assert format_costs([0.0012345, 0.001], "s") == (["1.234", "1.000"], "ms")
