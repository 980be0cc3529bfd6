"""What a result says of itself: in three lines, as a summary, as a picture and as a page."""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pegbox as pb
from pegbox.errors import ArgumentError
from pegbox.measure.result import Failed, FailureKind, Ok
from pegbox.measure.roofline import Roofline
from pegbox.measure.yardstick import Yardstick
from pegbox.records import Journal
from pegbox.search import Trial, TuneResult, make_tuner, run
from pegbox.search.charts.influence import influences
from pegbox.search.charts.picture import draw_search
from pegbox.search.loop.outcome import Gain
from pegbox.search.loop.recorder import Recorder
from pegbox.search.testing import ArtificialMeasurer
from pegbox.space import Config, ConfigSpace

TARGET = "llvm -mcpu=x86-64-v3 -num-cores 1"
YARDSTICK = Yardstick(
    cores=1, flop=8192.0, read=2048.0, written=1024.0, numpy=5e-3, roofline=Roofline(1, 10.0, 100.0, 100.0)
)


class Measuring(ArtificialMeasurer):
    """One that can say what its costs are compared with."""

    asked: Sequence[float] = ()

    def yardstick(self, cost: float) -> Yardstick:
        self.asked = [*self.asked, cost]
        return YARDSTICK


@pytest.fixture(scope="module")
def task() -> pb.Task:
    return pb.create_task("matmul", args=(16, 16, 16), target=TARGET)


def cost(config: Config) -> float:
    return 1e-3 * (1 + config.index % 7)


def tuned(task: pb.Task, trials: int = 30, **options: Any) -> TuneResult:
    tuner = make_tuner("random", task.space, seed=3)
    given: dict[str, Any] = {"yardstick": True, "task": task, "name": "random", "flop": task.flop, **options}
    return run(tuner, Measuring(cost), trials=trials, space=task.space, **given)


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
        assert "the best of the first 10 trials" in text


def test_without_a_yardstick_nothing_is_said_of_it(task: pb.Task) -> None:
    result = tuned(task, yardstick=False)
    assert "NumPy" not in str(result)
    assert result.best is not None
    assert result.best.yardstick is None


def test_the_measurer_is_asked_once_and_a_simulation_never(task: pb.Task) -> None:
    measurer = Measuring(cost)
    run(make_tuner("random", task.space, seed=3), measurer, trials=30, space=task.space, yardstick=True)
    assert measurer.asked == [1e-3]
    space = pb.recorded_space("matmul-512x512x512")
    assert "NumPy" not in str(pb.tune(space, tuner="random", trials=3, progress=False))


def test_a_yardstick_that_cannot_be_had_costs_no_result(task: pb.Task) -> None:
    class Broken(ArtificialMeasurer):
        def yardstick(self, cost: float) -> Yardstick:
            raise OSError("no such machine")

    with pytest.warns(RuntimeWarning, match="no such machine"):
        result = run(make_tuner("random", task.space), Broken(cost), trials=4, space=task.space, yardstick=True)
    assert result.best is not None


def test_records_keep_it_and_it_comes_back(task: pb.Task, tmp_path: Path) -> None:
    journal = Journal(tmp_path / "r.jsonl")
    tuned(task, callbacks=[Recorder(journal, task, "random", 3)])
    found = [record.yardstick for record in journal.read() if record.remeasured]
    assert found
    assert set(found) == {YARDSTICK}
    assert all(record.yardstick is None for record in journal.read() if not record.remeasured)


def test_gain_is_counted_from_the_first_trials() -> None:
    space = ConfigSpace()
    space.define_knob("a", list(range(40)))

    def gain(*costs: float) -> Gain | None:
        results = [Ok((cost,)) if cost else Failed(FailureKind.CRASH, "") for cost in costs]
        return Gain.of([Trial(n, space.get(n), result) for n, result in enumerate(results)])

    assert gain(4.0, 3.0, 2.0, 1.0) == (2, 3.0)
    assert str(gain(4.0, 1.0)) == "4.00x as fast as the first trial"
    assert str(gain(*[2.0] * 30)) == "no trial was faster than the best of the first 10 trials"
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
    from matplotlib.figure import Figure

    axes = Figure().subplots()
    draw_search(axes, tuned(task))
    lines = {line.get_label(): line.get_ydata() for line in axes.lines}
    assert list(lines["best, measured again"]) == [1e-3]
    assert min(lines["trial"]) == lines["best so far"][-1] == 1e-3
    assert set(lines["NumPy"]) == {5e-3}


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
