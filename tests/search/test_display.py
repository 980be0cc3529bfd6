"""The display of a running search."""

import io
import math
import subprocess
import sys

import pytest

from pegbox.search import (
    Limits,
    LineProgress,
    LiveProgress,
    ModelReport,
    SearchOptions,
    SearchState,
    Subject,
    make_tuner,
    progress,
    run,
)
from pegbox.search.loop.display import status_line
from pegbox.search.testing import FLOP, ArtificialMeasurer, matmul_space, small_space


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_gets_a_live_line_and_anything_else_plain_lines() -> None:
    assert isinstance(progress(Terminal()), LiveProgress)
    assert isinstance(progress(io.StringIO()), LineProgress)


def test_without_a_standard_error_nothing_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", None)  # as of a program that began with it closed
    assert run(
        make_tuner("random", small_space()),
        ArtificialMeasurer(lambda config: 1.0),
        SearchOptions(trials=2, callbacks=[progress()]),
    )


def test_one_line_a_batch_with_what_matters() -> None:
    stream = io.StringIO()
    run(
        make_tuner("random", matmul_space()),
        ArtificialMeasurer(),
        SearchOptions(trials=20, batch_size=10, name="random", callbacks=[progress(stream)]),
        subject=Subject(flop=FLOP),
    )
    lines = [line for line in stream.getvalue().splitlines() if not line.endswith("...")]
    assert len(lines) == 2
    assert "random: 20/20 trials" in lines[1]
    assert "GFLOP/s" in lines[1]
    assert "trials/s" in lines[1]
    assert "compile error" in lines[1]


def test_phases_are_named_once_each_in_their_order() -> None:
    stream = io.StringIO()
    run(
        make_tuner("random", matmul_space()),
        ArtificialMeasurer(),
        SearchOptions(trials=30, batch_size=10, name="random", callbacks=[progress(stream)]),
    )
    said = [line for line in stream.getvalue().splitlines() if line.endswith("...")]
    assert said == [f"random: {what} ..." for what in ("choosing what to try", "measuring", "measuring the best again")]


def test_a_tuner_says_what_it_does() -> None:
    stream = io.StringIO()
    tuner = make_tuner("grid", small_space())
    tuner.activity = "learning from experience"  # type: ignore[attr-defined]
    run(tuner, ArtificialMeasurer(lambda config: 1.0), SearchOptions(trials=2, callbacks=[progress(stream)]))
    assert stream.getvalue().splitlines()[0].endswith("learning from experience ...")


def test_a_model_is_spoken_of_when_that_means_something() -> None:
    state = SearchState("t", Limits(trials=9))
    for report, words in [
        (None, None),
        (ModelReport(4, 6, 1.0), None),
        (ModelReport(40, 400, 0.5), "predictions no better than chance"),
        (ModelReport(40, 400, 0.9), "predictions good"),
    ]:
        state.model = report
        assert (words or "predictions") in status_line(state) if words else "predictions" not in status_line(state)
        assert "pairs" not in status_line(state)


def test_lines_without_any_success_or_known_work() -> None:
    stream = io.StringIO()
    tuner = make_tuner("grid", small_space())
    run(
        tuner,
        ArtificialMeasurer(lambda config: math.inf),
        SearchOptions(budget_seconds=60, callbacks=[LineProgress(stream)]),
    )
    assert "best: none yet" in stream.getvalue()
    assert "/60 s" in stream.getvalue()
    stream = io.StringIO()
    run(
        make_tuner("grid", small_space()),
        ArtificialMeasurer(lambda c: 2e-3),
        SearchOptions(trials=4, callbacks=[LineProgress(stream)]),
    )
    assert "best 2 ms" in stream.getvalue()


def test_the_live_line_ends_with_the_last_state() -> None:
    stream = Terminal()
    run(
        make_tuner("grid", small_space()),
        ArtificialMeasurer(lambda c: 1.0),
        SearchOptions(trials=4, callbacks=[LiveProgress(stream)]),
    )
    assert "4/4 trials" in stream.getvalue()


def test_importing_the_search_loads_nothing_slow() -> None:
    code = "import sys, pegbox.search, pegbox.tuners.xgb; print({'xgboost', 'scipy', 'rich'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


def test_the_machines_of_a_cluster_are_reported_once_and_again_when_there_are_others() -> None:
    places = iter(["on 2 machines (http://host/status)"] * 5 + ["on 3 machines (http://host/status)"] * 5)

    class Cluster(ArtificialMeasurer):
        @property
        def where(self) -> str:
            return next(places)

    stream = io.StringIO()
    tuner, measurer = make_tuner("grid", small_space()), Cluster(lambda config: 1e-3)
    run(tuner, measurer, SearchOptions(trials=8, batch_size=8, name="x", callbacks=[LineProgress(stream)]))
    lines = [line for line in stream.getvalue().splitlines() if "measuring on" in line]
    assert lines == [f"x: measuring on {count} machines (http://host/status) ..." for count in (2, 3)]
