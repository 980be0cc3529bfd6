"""A result as three lines, as a summary, as a picture and as a page."""

from __future__ import annotations

import builtins
import dataclasses
import html
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from shipped_spaces import shipped_space

import pegbox as pb
from pegbox.errors import ArgumentError, RecordError
from pegbox.measure.baselines.baseline import Baseline
from pegbox.measure.baselines.roofline import Roofline
from pegbox.measure.result import Failed, FailureKind, Ok
from pegbox.records import Journal
from pegbox.report.figure import saved
from pegbox.search import PriorTrials, SearchOptions, Subject, Trial, TuneResult, make_tuner, run
from pegbox.search.charts.influence import influences, main_knobs
from pegbox.search.charts.picture import draw_search, search_svg
from pegbox.search.loop.best_trial import Gain
from pegbox.search.loop.recorder import Recorder, open_recording
from pegbox.search.testing import ArtificialMeasurer
from pegbox.space import Config, ConfigSpace

TARGET = "llvm -mcpu=x86-64-v3 -num-cores 1"
BASELINE = Baseline(
    cores=1, flop=8192.0, read=2048.0, written=1024.0, numpy=5e-3, roofline=Roofline(1, 10.0, 100.0, 100.0)
)


class Measuring(ArtificialMeasurer):
    """One that can say what its costs are compared with."""

    asked: Sequence[float] = ()

    compares = True

    def baseline(self, cost: float) -> Baseline:
        self.asked = [*self.asked, cost]
        return BASELINE


@pytest.fixture(scope="module")
def task() -> pb.Task:
    return pb.create_task("matmul", args=(16, 16, 16), target=TARGET)


def cost(config: Config) -> float:
    return 1e-3 * (1 + config.index % 7)


def tuned(task: pb.Task, trials: int = 30, **options: Any) -> TuneResult:
    tuner = make_tuner("random", task.space, seed=3)
    prior = PriorTrials(options.pop("history", ()), baseline=options.pop("recorded_baseline", None))
    subject = Subject(options.pop("subject", ""), task, task.flop)
    settings = SearchOptions(trials=trials, **{"baseline": True, "name": "random", **options})
    return run(tuner, Measuring(cost), settings, subject=subject, space=task.space, prior=prior)


def test_repr_has_three_lines_with_cost_quality_and_configuration(task: pb.Task) -> None:
    first, second, third = repr(tuned(task)).splitlines()
    assert "<TuneResult: 1 ms" in first
    assert "30 trials" in first
    assert "NumPy 5 ms: 5.00x" in second
    assert third.strip().startswith("config: ")


def test_the_summary_and_the_best_say_how_good_it_is(task: pb.Task) -> None:
    result = tuned(task)
    assert result.best is not None
    for text in (str(result), str(result.best), repr(result.best)):
        assert "NumPy 5 ms: 5.00x; 0.1% of the multiply-add peak, 10 GFLOP/s (1 core)" in text
        assert "the best was found within the first 10 trials; the other 20 did not improve on it" in text


def test_a_result_below_numpy_says_to_go_on(task: pb.Task) -> None:
    slower = dataclasses.replace(BASELINE, numpy=5e-4)
    result = tuned(task)
    assert not result.goes_on
    assert "slower than NumPy" not in str(result)
    result = dataclasses.replace(result, best=dataclasses.replace(result.best, baseline=slower))
    assert result.goes_on
    assert "slower than NumPy: go on with more trials, such as trials=60" in str(result)
    assert (len(result.notes), result.noise) == (1, [])  # the advice is not noise
    assert not dataclasses.replace(result, stopped_because="exhausted").goes_on
    noisy = dataclasses.replace(slower, numpy_costs=(5e-4, 9e-4, 9e-4))
    assert not dataclasses.replace(result, best=dataclasses.replace(result.best, baseline=noisy)).goes_on


def test_of_many_knobs_a_result_shows_those_that_matter(task: pb.Task) -> None:
    space = ConfigSpace()
    for knob in range(20):
        space.define_knob(f"knob{knob}", [1, 2])
    rows = space.sample(40, np.random.default_rng(0))
    trials = [Trial(n, c, Ok((10.0 ** c["knob7"].val,))) for n, c in enumerate(map(space.config, rows))]
    best = dataclasses.replace(tuned(task).best, config=trials[0].config)
    text = str(dataclasses.replace(tuned(task), best=best, trials=trials, finalists=()))
    assert f"config: #{trials[0].config.index}; the costs of the trials depend most on knob7=" in text
    assert "of 20 knobs" in text
    assert text.count("=") < 12
    few = str(dataclasses.replace(tuned(task), best=best, trials=trials[:2], finalists=()))
    assert all(f"knob{knob}=" in few for knob in range(20))


def test_without_a_baseline_nothing_is_said_of_it(task: pb.Task) -> None:
    result = tuned(task, baseline=False)
    assert "NumPy" not in str(result)
    assert result.best is not None
    assert result.best.baseline is None


def test_the_measurer_is_asked_on_both_sides_of_the_finalists_and_a_simulation_never(task: pb.Task) -> None:
    measurer = Measuring(cost)
    run(make_tuner("random", task.space, seed=3), measurer, SearchOptions(trials=30, baseline=True), space=task.space)
    assert measurer.asked == [1e-3, 1e-3]
    space = shipped_space("matmul-512x512x512")
    assert "NumPy" not in str(pb.tune(space, tuner="random", trials=3, progress=False))


def test_a_baseline_that_cannot_be_had_costs_no_result(task: pb.Task) -> None:
    class Broken(ArtificialMeasurer):
        compares = True

        def baseline(self, cost: float) -> Baseline:
            raise OSError("no such machine")

    with pytest.warns(RuntimeWarning, match="no such machine"):
        result = run(
            make_tuner("random", task.space), Broken(cost), SearchOptions(trials=4, baseline=True), space=task.space
        )
    assert result.best is not None


def test_records_keep_it_and_it_comes_back(task: pb.Task, tmp_path: Path) -> None:
    journal = Journal(tmp_path / "r.jsonl")
    tuned(task, callbacks=[Recorder(journal, task, "random", 3)])
    found = [record.baseline for record in journal.read() if record.remeasured]
    assert found
    assert set(found) == {BASELINE}
    assert all(record.baseline is None for record in journal.read() if not record.remeasured)


def test_gain_is_counted_from_the_first_trials() -> None:
    space = ConfigSpace()
    space.define_knob("a", list(range(40)))

    def gain(*costs: float, winner: int | None = None) -> Gain | None:
        results = [Ok((cost,)) if cost else Failed(FailureKind.CRASH, "") for cost in costs]
        trials = [Trial(n, space.get(n), result) for n, result in enumerate(results)]
        return Gain.of(trials, None if winner is None else trials[winner])

    assert gain(4.0, 3.0, 2.0, 1.0) == (2, 3.0, 2, True)
    assert str(gain(1.0, 4.0)) == "the best was the first trial; the other one did not improve on it"
    assert str(gain(4.0, 1.0)) == "4.00x as fast as the first trial"
    found = "the best was found within the first 10 trials; the other 20 did not improve on it"
    assert str(gain(*[2.0] * 30)) == str(gain(*[2.0] * 30, winner=9)) == found
    again = "by first timings, the first 10 trials had the best; finalists are timed again"
    assert str(gain(*[2.0] * 30, winner=10)) == again
    assert gain(0, 0, 1.0, 1.0) is None
    assert gain(1.0) is None


def test_the_knob_that_decides_has_all_the_influence() -> None:
    space = ConfigSpace()
    space.define_knob("decides", [1, 2, 3])
    space.define_knob("idle", [1, 2])
    space.define_split("tile", 16, num_outputs=2)
    rng = np.random.default_rng(0)
    configs = [space.get(int(index)) for index in rng.choice(space.size, 30, replace=False)]
    trials = [Trial(n, c, Ok((10.0 ** c["decides"].val,))) for n, c in enumerate(configs)]
    assert main_knobs(trials, 3)[0] == "decides"
    first, *others = influences(trials)
    assert (first.knob, first.values) == ("decides", 3)
    assert first.share == pytest.approx(1.0)
    assert first.best[0] == ("1", 10.0)
    assert {one.knob for one in others} == {"idle", "tile[1]"}
    assert all(one.share is not None and one.share < 0.3 for one in others)
    few = influences(trials[:4])
    assert any(one.share is None for one in few)


def test_plot_writes_a_picture(task: pb.Task, tmp_path: Path) -> None:
    tuned(task).plot(tmp_path / "search.png")
    assert (tmp_path / "search.png").read_bytes().startswith(b"\x89PNG")


def test_the_best_as_measured_at_the_end_lies_among_the_trials(task: pb.Task) -> None:
    lines = lines_of(tuned(task))
    assert lines["the result, measured again"][1] == [1e-3, 1e-3]
    assert min(lines["trial"][1]) == lines["best so far, as first timed"][1][-1] == 1e-3
    assert set(lines["NumPy"][1]) == {5e-3}


def lines_of(result: TuneResult) -> dict[str, tuple[list[float], list[float]]]:
    """Return the content of the picture by its label: places and costs."""
    from matplotlib.figure import Figure

    axes = Figure().subplots()
    draw_search(axes, result)
    return {str(line.get_label()): (list(line.get_xdata()), list(line.get_ydata())) for line in axes.lines}


def resumed(task: pb.Task, trials: int, costs: Sequence[float], **options: Any) -> TuneResult:
    history = [(task.space.get(n), Ok((cost,))) for n, cost in enumerate(costs)]
    return tuned(task, trials, history=history, **options)


def test_text_and_picture_count_trials_alike(task: pb.Task) -> None:
    result = tuned(task)
    place = result.best.number + 1
    assert f"(trial {place}, measured again at the end)" in str(result)
    assert lines_of(result)["the result, measured again"][0][0] == place


def test_a_resumed_search_shows_the_recorded_trials_too(task: pb.Task) -> None:
    result = resumed(task, 5, [4e-3, 0.5e-3, 6e-3], finalists=0)
    assert [trial.cost for trial in result.history] == [4e-3, 0.5e-3, 6e-3]
    assert str(result).startswith("3 recorded and 5 new trials in ")
    assert "0.5 ms" not in str(result)
    assert "500 us" in str(result)
    assert "(trial 2, from the records)" in str(result)
    lines = lines_of(result)
    assert lines["recorded trial"] == ([1, 2, 3], [4e-3, 0.5e-3, 6e-3])
    assert lines["new trial"][0] == [4, 5, 6, 7, 8]
    assert lines["best so far, as first timed"][1] == [4e-3] + [0.5e-3] * 8
    assert result.best_costs() == [0.5e-3] * 5


def test_a_resumed_search_with_nothing_left_shows_what_is_recorded(task: pb.Task, tmp_path: Path) -> None:
    result = resumed(task, 0, [4e-3, 0.5e-3, 6e-3], recorded_baseline=BASELINE, subject="matmul")
    assert str(result).startswith("3 recorded trials, none left\n")
    assert "NumPy 5 ms: 10.00x" in str(result)
    lines = lines_of(result)
    assert set(lines) == {"recorded trial", "best so far, as first timed", "NumPy"}
    result.plot(tmp_path / "search.svg")
    title = f"matmul({', '.join(map(str, task.args))}), 3 recorded trials"
    assert title in (tmp_path / "search.svg").read_text(encoding="utf-8")
    result.to_html(tmp_path / "search.html")
    text = (tmp_path / "search.html").read_text(encoding="utf-8")
    subject = title.partition("), ")[0] + ")"
    assert f'<h1>{subject}</h1><p class="soft">3 recorded trials, none left</p>' in text
    assert "by first timings (so partly luck), NumPy&#x27;s time for the same computation</figcaption>" in text


def test_what_a_resumed_search_measured_goes_before_the_baseline_of_the_records(task: pb.Task) -> None:
    old = dataclasses.replace(BASELINE, numpy=7e-3)
    assert resumed(task, 3, [4e-3], recorded_baseline=old).best.baseline == BASELINE


def test_recordings_keep_the_latest_baseline_of_this_machine(task: pb.Task, tmp_path: Path) -> None:
    journal = Journal(tmp_path / "r.jsonl")
    tuned(task, callbacks=[Recorder(journal, task, "random", 3)])
    recording = open_recording(journal, task, resume=True, tuner="random", seed=0)
    assert recording.baseline("") == BASELINE
    elsewhere = [dataclasses.replace(record, host="another") for record in journal.read()]
    other = Journal(tmp_path / "other.jsonl")
    for record in elsewhere:
        other.append(record)
    found = open_recording(other, task, resume=True, tuner="random", seed=0)
    assert found.baseline("") is None
    assert found.baseline("another") == BASELINE


def test_a_cluster_goes_on_with_records_of_its_own_kind_only(task: pb.Task, tmp_path: Path) -> None:
    journal = Journal(tmp_path / "r.jsonl")
    tuned(task, callbacks=[Recorder(journal, task, "random", 3)])
    recorder = open_recording(journal, task, resume=True, tuner="random", seed=0).callbacks[0]
    recorder.check_host("")
    with pytest.raises(RecordError, match=r"but the cluster is 'EPYC, 16 cores'.*write into another file"):
        recorder.check_host("EPYC, 16 cores")


@pytest.mark.parametrize("resume", [False, True])
def test_a_search_adds_nothing_to_records_of_another_kind_of_machine(
    resume: bool, task: pb.Task, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "r.jsonl"
    for host in ("here (EPYC)", "there (EPYC)"):  # the same processor: one kind
        monkeypatch.setattr("pegbox.records.history.describe_host", lambda host=host: host)
        monkeypatch.setattr("pegbox.records.record.describe_host", lambda host=host: host)
        pb.tune(task, tuner="random", trials=1, records=path, progress=False)
    monkeypatch.setattr("pegbox.records.history.describe_host", lambda: "here (Xeon)")
    before = path.read_bytes()
    with pytest.raises(
        RecordError, match=r"from 'here \(EPYC\)' and 'there \(EPYC\)', but this machine is 'here \(Xeon\)'"
    ):
        pb.tune(task, tuner="random", trials=1, records=path, resume=resume, progress=False)
    assert path.read_bytes() == before


def test_a_resumed_search_shows_recorded_trials_as_they_ran_as_the_loaded_one_does(
    task: pb.Task, tmp_path: Path
) -> None:
    seen: set[Config] = set()

    def careful(config: Config) -> float:  # three times as fast when it is measured again
        again = config in seen
        seen.add(config)
        return cost(config) / (3 if again else 1)

    journal = Journal(tmp_path / "r.jsonl")

    def search(trials: int) -> TuneResult:
        recording = open_recording(journal, task, resume=True, tuner="random", seed=3)
        return run(
            make_tuner("random", task.space, seed=3),
            Measuring(careful),
            SearchOptions(trials=trials, callbacks=recording.callbacks),
            subject=Subject(task=task),
            space=task.space,
            prior=PriorTrials(recording.history, recording.trials),
        )

    search(12)
    for trials in (12, 0):
        found, loaded = search(trials), pb.load_result(journal, task)
        assert [trial.cost for trial in found.all_trials] == [cost(trial.config) for trial in found.all_trials]
        assert [trial.cost for trial in found.all_trials] == [trial.cost for trial in loaded.trials]
        assert (found.best.cost, found.best.gain) == (loaded.best.cost, loaded.best.gain)
        assert found.best.remeasured
        assert lines_of(found)["best so far, as first timed"] == lines_of(loaded)["best so far, as first timed"]
        assert lines_of(found)["the result, measured again"] == lines_of(loaded)["the result, measured again"]
        assert ("where the time went" in str(found)) == (trials > 0)


def test_failed_trials_of_the_records_are_counted_as_the_picture_shows_them(task: pb.Task) -> None:
    history = [(task.space.get(0), Failed(FailureKind.CRASH, "signal 11")), (task.space.get(1), Ok((1e-3,)))]
    result = tuned(task, 2, history=history)
    assert result.failures == {"crash": 1}
    assert lines_of(result)["failed"][0] == [1]


@pytest.mark.parametrize(("unit", "factor"), [("bytes", 1), ("floating-point operations", 10**12), ("s", 1)])
def test_no_number_and_no_label_of_the_picture_is_cut_off(tmp_path: Path, unit: str, factor: int) -> None:
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    space = ConfigSpace()
    space.define_knob("a", list(range(20)))

    def bytes_of_it(config: Config) -> int:
        return (27_660 + 900 * config["a"].val) * factor

    result = pb.minimize(bytes_of_it, space, tuner="random", trials=9, unit=unit, progress=False)
    with saved(tmp_path / "x.png", 1) as (axes,):
        draw_search(axes, result)
    figure = axes.figure
    renderer = FigureCanvasAgg(figure).get_renderer()
    assert axes.yaxis.get_tightbbox(renderer).x0 >= 0
    if unit != "s":
        assert unit in axes.get_ylabel()
    result.plot(tmp_path / "x.svg")
    assert "bytes_of_it, 9 trials with random" in (tmp_path / "x.svg").read_text(encoding="utf-8")


def test_the_caption_speaks_of_what_the_picture_has(task: pb.Task) -> None:
    once, again = (search_svg(tuned(task, baseline=False, finalists=finalists))[1] for finalists in (0, 3))
    best = "each trial, the best so far, by first timings (so partly luck)"
    assert once == f"costs on a logarithmic axis: {best}"
    end = "the result (star): the best, measured again with more care at the end"
    assert again == f"costs on a logarithmic axis: {best}, {end}"


def test_the_result_is_a_line_from_its_trial_to_the_end(task: pb.Task) -> None:
    result = tuned(task)
    places, costs = lines_of(result)["the result, measured again"]
    assert list(places) == [result.best.place, len(result.trials) + 0.5]
    assert list(costs) == [result.best.cost] * 2


@pytest.mark.parametrize(("noisy", "expected"), [("numpy", "0.25 to 2.2"), ("kernel", "0.44 to 4.0")])
def test_noise_makes_a_range_in_every_view_and_is_said_once(
    task: pb.Task, tmp_path: Path, noisy: str, expected: str
) -> None:
    result = tuned(task)
    spread, steady = (1e-3, 1e-3, 9e-3, 9e-3), (4e-3, 4e-3, 4e-3, 4e-3)
    baseline = dataclasses.replace(BASELINE, numpy_costs=spread if noisy == "numpy" else steady)
    measured = Ok(steady if noisy == "numpy" else spread)
    best = dataclasses.replace(result.best, baseline=baseline, result=measured)
    result = dataclasses.replace(
        result, best=best, finalists=[dataclasses.replace(result.finalists[0], result=measured)]
    )
    result.to_html(tmp_path / "r.html")
    page = (tmp_path / "r.html").read_text(encoding="utf-8").replace("&#x27;", "'")
    for text in (str(result), repr(result), page):
        assert f"about {expected} times NumPy's speed" in text
        assert text.count("differ by more than a factor of 1.5") == (not text.startswith("<TuneResult"))
    assert set(lines_of(result)["NumPy"][1]) == {5e-3}


def test_phases_that_take_no_time_are_left_out_of_the_page_as_of_the_text(task: pb.Task, tmp_path: Path) -> None:
    result = dataclasses.replace(tuned(task), phases={"measure": 2.0, "learn": 0.5, "callbacks": 0.001})
    result.to_html(tmp_path / "r.html")
    assert "measure 2.00 s, learn 0.50 s<" in (tmp_path / "r.html").read_text(encoding="utf-8")


def test_plot_of_nothing_and_without_matplotlib_is_a_clear_error(
    task: pb.Task, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ArgumentError, match="no trial ran"):
        tuned(task, trials=0).plot(tmp_path / "x.png")
    result = tuned(task, trials=4)
    without_matplotlib(monkeypatch)
    with pytest.raises(ArgumentError, match=r"pip install 'pegbox\[plot\]'"):
        result.plot(tmp_path / "x.png")


def test_the_page_has_the_result_the_knobs_and_the_program(task: pb.Task, tmp_path: Path) -> None:
    result = tuned(task)
    result.to_html(tmp_path / "search.html")
    text = (tmp_path / "search.html").read_text(encoding="utf-8")
    assert result.best is not None
    for said in ("NumPy 5 ms: 5.00x", "<svg", "te.compute", "sch.", "best by value", "<td>"):
        assert said in text, said
    assert all(line.split("\n")[0] in text for line in result.best.quality)
    assert "http" not in text.replace("http://www.w3.org", "").replace("https://matplotlib.org", "")


def test_the_page_does_without_matplotlib_and_without_a_best(
    task: pb.Task, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    result, nothing = tuned(task), tuned(task, trials=0)
    without_matplotlib(monkeypatch)
    result.to_html(tmp_path / "search.html")
    assert "they need matplotlib" in (tmp_path / "search.html").read_text(encoding="utf-8")
    nothing.to_html(tmp_path / "nothing.html")
    assert "Nothing valid was found" in (tmp_path / "nothing.html").read_text(encoding="utf-8")
    with pytest.raises(ArgumentError, match="no folder"):
        result.to_html(tmp_path / "missing" / "x.html")


def without_matplotlib(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def absent(name: str, *rest: Any) -> Any:
        if name.partition(".")[0] == "matplotlib":
            raise ImportError("No module named 'matplotlib'")
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", absent)


def test_the_legend_hides_no_trial(task: pb.Task) -> None:
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    from pegbox.report.figure import make_figure

    figure, (axes,) = make_figure(1)
    draw_search(axes, tuned(task))
    renderer: Any = FigureCanvasAgg(figure).get_renderer()
    legend = axes.get_legend().get_window_extent(renderer)
    assert legend.y1 <= axes.xaxis.get_tightbbox(renderer).y0
    assert legend.y0 >= 0


@pytest.mark.parametrize(("letter", "count"), [("i", 24), ("W", 8)])
def test_a_long_title_has_several_lines_and_each_fits(letter: str, count: int) -> None:
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    from pegbox.report.figure import make_figure
    from pegbox.search.charts.picture import draw_title

    figure, (axes,) = make_figure(1)
    words = [letter * 9] * count
    lines = draw_title(axes, [" ".join(words), "short"])
    box = axes.title.get_window_extent(FigureCanvasAgg(figure).get_renderer())
    left = axes._left_title.get_window_extent(FigureCanvasAgg(figure).get_renderer())
    assert max(box.x1, left.x1) <= figure.bbox.x1
    assert left.y1 <= figure.bbox.y1
    assert " ".join(lines[:-1]).split() == words
    assert lines[-1] == "short"
    assert len(lines) > 2


def test_the_title_names_shape_and_target_and_the_page_the_first_failure(tmp_path: Path) -> None:
    task = pb.create_task("matmul", args=(8, 8, 8), target="llvm -num-cores 1")
    history = [(task.space.get(0), Failed(FailureKind.CRASH, "signal 11"))]
    result = tuned(task, 2, history=history)
    result.plot(tmp_path / "x.svg")
    drawn = (tmp_path / "x.svg").read_text(encoding="utf-8")
    assert "matmul(8, 8, 8), " in drawn
    assert str(task.target) in drawn
    result.to_html(tmp_path / "x.html")
    text = (tmp_path / "x.html").read_text(encoding="utf-8")
    assert "1 crash; the first: signal 11" in text
    assert html.escape(task.show_ir(result.best.config)) in text
