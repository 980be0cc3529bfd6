"""A result that is read from records is the one that the search gave."""

from __future__ import annotations

import dataclasses
import html
import re
from pathlib import Path
from typing import Any

import pytest

import pegbox as pb
from pegbox.errors import ArgumentError, RecordError
from pegbox.measure.baselines.baseline import Baseline
from pegbox.measure.baselines.roofline import Roofline
from pegbox.measure.result import Failed, FailureKind, Ok, Result
from pegbox.plugins.cli import main
from pegbox.records import Journal, Record
from pegbox.records.runs import by_run, run_to_go_on
from pegbox.search import SearchOptions, Subject, TuneResult, make_tuner, run
from pegbox.search.charts.influence import influences
from pegbox.search.loop.recorder import Recorder, open_recording
from pegbox.search.testing import ArtificialMeasurer
from pegbox.space import Config, ConfigSpace

BASELINE = Baseline(cores=1, flop=8192.0, read=1.0, written=1.0, numpy=5e-3, roofline=Roofline(1, 10.0, 1.0, 1.0))


class Measuring(ArtificialMeasurer):
    compares = True

    def baseline(self, cost: float) -> Baseline:
        return BASELINE


@pytest.fixture(scope="module")
def task() -> pb.Task:
    return pb.create_task("matmul", args=(16, 16, 16), target="llvm -mcpu=x86-64-v3 -num-cores 1")


def tuned(task: pb.Task, file: Path, **options: Any) -> TuneResult:
    """20 trials, whose costs are a little less when they are measured again."""
    seen: set[Config] = set()

    def cost(config: Config) -> float:
        first = config not in seen
        seen.add(config)
        return 1e-3 * (1 + config.index % 13) * (1.0 if first else 0.99)

    tuner, recorder = make_tuner("random", task.space, seed=3), Recorder(Journal(file), task, "random", 3)
    return run(
        tuner,
        Measuring(cost),
        SearchOptions(trials=20, callbacks=[recorder], baseline=True, name="random", **options),
        subject=Subject(task.name, task, task.flop),
        space=task.space,
    )


def test_it_has_the_trials_and_the_best_of_the_search(task: pb.Task, tmp_path: Path) -> None:
    found = tuned(task, tmp_path / "r.jsonl")
    loaded = pb.load_result(tmp_path / "r.jsonl")
    assert [t.config.index for t in loaded.trials] == [t.config.index for t in found.trials]
    assert [t.cost for t in loaded.trials] == [t.cost for t in found.trials]
    assert [t.number for t in loaded.trials] == list(range(20))
    assert str(loaded).splitlines()[0] == "20 recorded trials with random"
    for line in (found.best.speed, found.best.origin, *found.best.quality):
        assert line in str(loaded)
    assert {t.config.index for t in loaded.finalists} == {t.config.index for t in found.finalists}
    assert loaded.stopped_because == "recorded"


def test_records_of_an_emulator_say_so_in_text_page_and_picture(
    task: pb.Task, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = Recorder.append

    def append(self: Recorder, config: Config, result: Result, **options: Any) -> None:
        changed = dataclasses.replace(result, run_queue_wait=0.5, host="emulated by QEMU 9.2")
        original(self, config, changed, **options)

    monkeypatch.setattr(Recorder, "append", append)
    tuned(task, tmp_path / "r.jsonl")
    loaded = pb.load_result(tmp_path / "r.jsonl")
    note = "an emulator (emulated by QEMU 9.2) measured the times: they do not show the speed of a processor"
    assert f"note: {note}" in str(loaded)
    assert "other programs" not in str(loaded)
    loaded.to_html(tmp_path / "r.html")
    assert html.escape(note) in (tmp_path / "r.html").read_text()
    loaded.plot(tmp_path / "r.svg")
    drawn = " ".join(re.findall(r"<!-- (.*?) -->", (tmp_path / "r.svg").read_text()))
    assert note in html.unescape(drawn)
    assert "time of a call in an emulator" in drawn


def test_its_notes_are_those_of_the_search(
    task: pb.Task, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    original = Recorder.append

    def append(self: Recorder, config: Config, result: Result, **options: Any) -> None:
        original(self, config, dataclasses.replace(result, run_queue_wait=0.5), **options)

    monkeypatch.setattr(Recorder, "append", append)
    tuned(task, tmp_path / "r.jsonl")
    (note,) = pb.load_result(tmp_path / "r.jsonl", task).notes
    assert "50% of the time" in note
    assert main(["best", str(tmp_path / "r.jsonl")]) == 0
    assert f"note: {note}" in capsys.readouterr().out


def test_records_say_that_threads_lost_to_noise(
    task: pb.Task, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    original = Recorder.append

    def append(self: Recorder, config: Config, result: Result, **options: Any) -> None:
        slowed = result.cost > 2e-3
        changed = dataclasses.replace(result, threads=1 + slowed, run_queue_wait=0.5 * slowed)
        original(self, config, changed, **options)

    monkeypatch.setattr(Recorder, "append", append)
    tuned(task, tmp_path / "r.jsonl")
    (note,) = [line for line in pb.load_result(tmp_path / "r.jsonl", task).notes if "the best has 1 thread. " in line]
    assert main(["best", str(tmp_path / "r.jsonl")]) == 0
    assert f"note: {note}" in capsys.readouterr().out


def test_it_is_drawn_and_written_as_a_page(task: pb.Task, tmp_path: Path) -> None:
    tuned(task, tmp_path / "r.jsonl")
    loaded = pb.load_result(Journal(tmp_path / "r.jsonl"), task)
    loaded.plot(tmp_path / "r.svg")
    assert "matmul(16, 16, 16), 20 recorded trials with random" in (tmp_path / "r.svg").read_text(encoding="utf-8")
    loaded.to_html(tmp_path / "r.html")
    text = (tmp_path / "r.html").read_text(encoding="utf-8")
    for said in (
        "<svg",
        "NumPy 5 ms",
        "best by value",
        "sch.",
        "measured again with more care at the end",
        "; the result, measured again, has ",
    ):
        assert said in text, said


def test_two_runs_in_one_file_are_told_apart(task: pb.Task, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "r.jsonl"
    first = tuned(task, file)
    before = len(Journal(file).read())
    tuned(task, file)
    one, two = (group[0].run for group in by_run(Journal(file).read()))
    assert {len(one), len(two)} == {8}
    loaded = pb.load_result(file, task)
    assert loaded.runs == (20, 20)
    assert loaded.best_costs() == [*first.best_costs(), *first.best_costs()]
    assert str(loaded).startswith("40 recorded trials of 2 runs with random\n")
    loaded.to_html(tmp_path / "r.html")
    text = (tmp_path / "r.html").read_text(encoding="utf-8")
    for said in (
        "40 recorded trials of 2 runs",
        "another run in the records",
        "The trials are those of these 2 runs",
    ):
        assert said in text, said
    assert loaded.best.gain == first.best.gain
    assert main(["best", str(file)]) == 0
    assert ": 40 trials of 2 runs, 0 failed\n" in capsys.readouterr().out
    lines = file.read_text(encoding="utf-8").splitlines()
    mixed = [line for pair in zip(lines[:before], lines[before:], strict=True) for line in pair]
    file.write_text("\n".join(mixed) + "\n", encoding="utf-8")  # two searches at the same time
    assert [t.config for t in pb.load_result(file, task).trials] == [t.config for t in loaded.trials]


def test_a_resumed_search_is_one_run_and_records_of_unknown_runs_are_one(task: pb.Task, tmp_path: Path) -> None:
    file = tmp_path / "r.jsonl"
    tuned(task, file)
    (recorder,) = open_recording(file, task, resume=True, tuner="grid", seed=0).callbacks
    (again,) = open_recording(file, task, resume=False, tuner="grid", seed=0).callbacks
    assert recorder.run == Journal(file).read()[-1].run != again.run
    nameless = [dataclasses.replace(record, run="") for record in Journal(file).read()]
    assert len(by_run(nameless)) == 1
    assert len(run_to_go_on(nameless)) == 8
    assert '"run"' not in nameless[0].to_line()


def test_a_function_is_given_with_its_space(tmp_path: Path) -> None:
    space = ConfigSpace()
    space.define_knob("a", [3, 2, 1])
    objective = pb.Objective(lambda config: config["a"].val, space, name="size", unit="bytes")
    pb.minimize(objective, tuner="grid", trials=3, records=tmp_path / "r.jsonl", progress=False)
    loaded = pb.load_result(tmp_path / "r.jsonl", objective)
    assert str(loaded.best).startswith("1 bytes (trial 3)\n")
    assert loaded.subject.name == "size"


def test_the_search_of_a_function_is_read_from_its_records_alone(tmp_path: Path) -> None:
    space = ConfigSpace()
    space.define_knob("a", [3, 2, 1])
    space.define_split("tile", 8, when={"a": 2})
    space.define_reorder("order", ["x", "y"], "all")
    objective = pb.Objective(lambda c: c["a"].val + c["tile"].size[-1], space, name="size", unit="bytes")
    found = pb.minimize(objective, tuner="random", trials=9, records=tmp_path / "r.jsonl", progress=False)
    loaded = pb.load_result(tmp_path / "r.jsonl")
    assert [(str(t.config), t.cost) for t in loaded.trials] == [(str(t.config), t.cost) for t in found.trials]
    assert str(loaded.best) == str(pb.load_result(tmp_path / "r.jsonl", objective).best)
    assert str(loaded.best).startswith(found.best.speed)
    assert loaded.best.config.to_json() == found.best.config.to_json()
    assert objective.function(loaded.best.config) == loaded.best.cost
    assert loaded.unit == "bytes"
    assert influences(loaded.trials) == influences(found.trials)
    loaded.to_html(tmp_path / "r.html")
    text = (tmp_path / "r.html").read_text(encoding="utf-8")
    assert '<h1>size</h1><p class="soft">9 recorded trials with random</p>' in text


def test_the_command_draws_the_search_of_a_function(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from pegbox.plugins.cli import main

    monkeypatch.chdir(tmp_path)
    space = ConfigSpace()
    space.define_knob("a", [3, 2, 1])
    objective = pb.Objective(lambda config: config["a"].val, space, name="size", unit="bytes")
    pb.minimize(objective, tuner="grid", trials=3, records="r.jsonl", progress=False)
    assert main(["plot", "r.jsonl", "--html", "r.html", "--plot", "r.svg"]) == 0
    assert capsys.readouterr().out.startswith("3 recorded trials with grid\n1 bytes (trial 3)")
    assert "cost in bytes" in Path("r.svg").read_text(encoding="utf-8")
    with pytest.raises(RecordError, match=r"the function size .*pegbox.minimize.*pegbox plot"):
        pb.recorded_space("r.jsonl")


def test_a_knob_of_an_unknown_kind_is_a_clear_error(tmp_path: Path) -> None:
    space = ConfigSpace()
    space.define_knob("a", [1, 2])
    pb.minimize(lambda config: config["a"].val, space, trials=1, records=tmp_path / "r.jsonl", progress=False)
    journal = Journal(tmp_path / "r.jsonl")
    record = journal.read()[0]
    for entity, said in ((["a", "zz", 1], "kind 'zz'"), (["a", "sp", 1], "cannot be read")):
        other = Journal(tmp_path / f"{entity[1]}.jsonl")
        other.append(dataclasses.replace(record, config={"index": 0, "entity": [entity]}))
        with pytest.raises(RecordError, match=said):
            pb.load_result(other)


def test_trials_of_which_none_ran_have_no_best(task: pb.Task, tmp_path: Path) -> None:
    write(tmp_path / "r.jsonl", task, Failed(FailureKind.CRASH, "signal 11"))
    loaded = pb.load_result(tmp_path / "r.jsonl")
    assert loaded.best is None
    assert "nothing valid was found\n  failed: 1 crash; the first: signal 11" in str(loaded)


def test_what_cannot_be_read_is_a_clear_error(task: pb.Task, tmp_path: Path) -> None:
    with pytest.raises(RecordError, match=r"missing\.jsonl"):
        pb.load_result(tmp_path / "missing.jsonl")
    write(tmp_path / "r.jsonl", task, Ok((1e-3,)))
    with pytest.raises(ArgumentError, match=r"pegbox\.create_task"):
        pb.load_result(tmp_path / "r.jsonl", "matmul")  # type: ignore[arg-type]
    other = Journal(tmp_path / "r.jsonl")
    other.append(dataclasses.replace(other.read()[0], host="another"))
    with pytest.raises(RecordError, match="several hosts"):
        pb.load_result(tmp_path / "r.jsonl")
    assert len(pb.load_result(tmp_path / "r.jsonl", host="another").trials) == 1


def test_the_command_prints_and_draws_it(
    task: pb.Task, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from pegbox.plugins.cli import main

    monkeypatch.chdir(tmp_path)
    write(tmp_path / "r.jsonl", task, Ok((1e-3,)))
    words = ["matmul", "16", "16", "16", "--target", str(task.target)]
    assert main(["plot", "r.jsonl", *words, "--html", "r.html", "--plot", "r.svg"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("1 recorded trial with grid\n1 ms")
    assert out.endswith("wrote r.html\nwrote r.svg\n")
    write(tmp_path / "failed.jsonl", task, Failed(FailureKind.CRASH, "signal 11"))
    assert main(["plot", "failed.jsonl", "--plot", "failed.svg"]) == 1
    assert not Path("failed.svg").exists()
    assert main(["plot", "nothing.jsonl"]) == 2


def write(file: Path, task: pb.Task, result: Result) -> None:
    Journal(file).append(Record.of(task, task.space.get(0), result, tuner="grid"))


def variant_of(record: Record) -> Record:
    """Make a record of a model's variant, as `pb.tune_model` writes them."""
    key = ("model_variant", {"tasks": "0a1b"})
    return dataclasses.replace(record, name=key[0], args=("net",), kwargs={}, workload=key, code="", remeasured=True)


def test_a_file_of_variants_of_models_alone_has_no_trials(
    task: pb.Task, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tuned(task, tmp_path / "run.jsonl")
    Journal(tmp_path / "variants.jsonl").append(variant_of(Journal(tmp_path / "run.jsonl").read()[0]))
    held = r"variants\.jsonl' holds no trials of a task, only seconds of whole models: model_variant\(tasks='0a1b'\)"
    with pytest.raises(RecordError, match=held):
        pb.load_result(tmp_path / "variants.jsonl")
    assert main(["plot", str(tmp_path / "variants.jsonl")]) != 0
    assert "holds no trials of a task" in capsys.readouterr().err


def test_a_function_may_have_the_name_of_these_records(tmp_path: Path) -> None:
    space = pb.ConfigSpace()
    space.define_knob("x", [1, 2, 3])
    file = tmp_path / "run.jsonl"
    pb.minimize(lambda config: float(config["x"].val), space, trials=3, records=file, name="model_variant")
    assert len(pb.load_result(file).trials) == 3


def test_records_of_variants_of_models_are_no_trials_of_the_task_beside_them(task: pb.Task, tmp_path: Path) -> None:
    tuned(task, tmp_path / "run.jsonl")
    journal = Journal(tmp_path / "run.jsonl")
    alone = pb.load_result(journal.path)
    journal.append(variant_of(journal.read()[0]))
    assert pb.load_result(journal.path).trials == alone.trials
