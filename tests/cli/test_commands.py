"""The calls, the output and the exit status of each command."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import pegbox as pb
from pegbox.errors import TuningError
from pegbox.hooks import registry
from pegbox.task.template import Template


@pytest.fixture
def register(request: pytest.FixtureRequest) -> Callable[[str, str, object], None]:
    """Registers a name for the length of one test."""

    def add(kind: str, name: str, target: object) -> None:
        registry.register(kind, name, target, owner="tests")
        request.addfinalizer(lambda: registry.unregister(kind, name, owner="tests"))

    return add


def test_tune_passes_only_what_was_given(pegbox: Any, api: Any) -> None:
    ran = pegbox("tune", "matmul", "64", "32", "dtype=float64")
    assert ran.code == 0
    assert api.calls["create_task"] == {
        "template": "matmul",
        "args": (64, 32),
        "kwargs": {"dtype": "float64"},
        "target": "llvm",
    }
    records = Path("matmul-64x32-dtype=float64.jsonl")
    assert api.calls["tune"] == {"records": records, "resume": False, "progress": True}
    assert "the table\n" in ran.out
    assert f"pegbox build matmul 64 32 dtype=float64 --records {records} --out kernel.so" in ran.out
    assert f"pegbox plot {records} matmul 64 32 dtype=float64 --html search.html" in ran.out


@pytest.mark.parametrize("emit", ["space", "ir"])
def test_a_configuration_that_is_not_there_is_one_line(pegbox: Any, emit: str) -> None:
    ran = pegbox("show", "matmul", "8", "8", "8", "--emit", emit, "--config", "99999999")
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith("pegbox show: error: --config 99999999: index 99999999 is outside the space: it has ")


@pytest.mark.parametrize("resume", [[], ["--resume"], ["--resume-edited"]])
def test_after_ctrl_c_the_next_line_goes_on_with_the_search(pegbox: Any, api: Any, resume: list[str]) -> None:
    api.stopped_because = "interrupted"
    ran = pegbox("tune", "matmul", "64", "dtype=float64", "--trials", "40", *resume)
    assert ran.code == 0
    again = " ".join(resume) or "--resume"
    assert f"next:    pegbox tune matmul 64 dtype=float64 --trials 40 {again}   (goes on)\n" in ran.out
    assert "next:    pegbox build matmul 64" in ran.out


@pytest.mark.parametrize(
    "limits", ["--trials 40 --budget 5s --early-stopping 5", "--trials=40 --budget=5s --early-stopping=5"]
)
@pytest.mark.parametrize("resume", [[], ["--resume"], ["--resume-edited"]])
def test_below_numpy_the_next_line_asks_for_more_trials(pegbox: Any, api: Any, resume: list[str], limits: str) -> None:
    api.goes_on = True
    ran = pegbox("tune", "matmul", "64", *limits.split(), *resume)
    again = f"{resume[0]} --trials 6" if resume else "--trials 6 --resume"
    assert f"next:    pegbox tune matmul 64 {again}   (slower than NumPy: more trials)\n" in ran.out


def test_the_next_lines_after_an_emulated_search_ask_for_nothing_of_its_times(pegbox: Any, api: Any) -> None:
    api.stopped_because, api.emulated = "interrupted", True
    api.best = SimpleNamespace(config=SimpleNamespace(index=17))
    ran = pegbox("tune", "matmul", "64", "--records", "r.jsonl")
    assert "next:    pegbox build matmul 64 --config 17 --out kernel.so\n" in ran.out
    assert "next:    pegbox plot r.jsonl" in ran.out
    assert "--resume" not in ran.out


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--trials", "40", "--resume"], "--trials 40 --target 'llvm -num-cores 1'"),
        (["--target", "llvm -mcpu=znver4 -num-cores 2", "-q"], None),
        (["--target", "llvm -mcpu=znver4 -num-cores=2"], "--target 'llvm -mcpu=znver4 -num-cores 1'"),
        (["--target=llvm -num-cores 2", "--seed", "3"], "--seed 3 --target 'llvm -num-cores 1'"),
    ],
)
def test_on_a_busy_machine_the_next_line_is_the_search_for_one_core(
    pegbox: Any, api: Any, words: list[str], expected: str | None
) -> None:
    api.noise, api.best = ("other programs used this machine's cores",), None
    out = pegbox("tune", "matmul", "64", *words).out
    if expected is None:
        assert "next:" not in out
    else:
        assert f"next:    pegbox tune matmul 64 {expected}   (no thread waits for another)\n" in out


def test_the_next_line_shows_the_program_of_what_failed_first(pegbox: Any, api: Any) -> None:
    api.first_failed = SimpleNamespace(config=SimpleNamespace(index=17))
    for words in (["matmul", "64"], ["matmul", "64", "--no-records"]):
        assert "next:    pegbox show matmul 64 --config 17 --emit ir --traceback   (" in pegbox("tune", *words).out
    assert "next:" not in pegbox("tune", "matmul", "64", "--quiet").out


@pytest.mark.parametrize(("words", "resume"), [([], False), (["--resume"], True), (["--resume-edited"], "edited")])
def test_resume_is_passed_on(pegbox: Any, api: Any, words: list[str], resume: object) -> None:
    assert pegbox("tune", "matmul", "64", *words).code == 0
    assert api.calls["tune"]["resume"] == resume


def test_spaces_lists_what_is_recorded(pegbox: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pb, "recorded_spaces", lambda: ("matmul-512x512x512",), raising=False)
    ran = pegbox("spaces")
    assert ran.out.startswith("matmul-512x512x512\n    matmul-512x512x512: 1,800 configurations, 1,800 of them ran, ")
    (space,) = json.loads(pegbox("spaces", "--json").out)
    assert (space["name"], space["configurations"], space["ran"]) == ("matmul-512x512x512", 1800, 1800)
    assert pegbox("spaces", "nothing.jsonl").code == 2


def test_spaces_describes_the_named_one_only(pegbox: Any) -> None:
    (space,) = json.loads(pegbox("spaces", "matmul-512x512x512", "--json").out)
    assert space["name"] == "matmul-512x512x512"


def test_a_space_generator_is_passed_on(pegbox: Any, api: Any) -> None:
    assert pegbox("tune", "mine.py:norm", "64", "--space", "sketch", "--no-records").code == 0
    assert api.calls["create_task"]["space"] == "sketch"


def test_a_workload_without_a_generator_says_what_to_add(pegbox: Any) -> None:
    Path("mine.py").write_text("def norm(n, m):\n    return []\n")
    for words in (
        ("row_sum", "8", "8"),
        ("mine.py:norm", "8", "8"),
        ("pegbox.templates.workloads.reductions:norm", "8"),
    ):
        ran = pegbox("show", *words)
        assert ran.code == 2
        assert "--space sketch" in ran.err


def test_sketch_says_how_to_tune_what_it_wrote(pegbox: Any) -> None:
    ran = pegbox("sketch", "row_sum", "8", "m=16", "--target", "llvm -num-cores 1", "--out", "mine.py")
    assert ran.code == 0
    assert ran.out.endswith("next: pegbox tune mine.py:row_sum --target 'llvm -num-cores 1'\n")
    ran = pegbox("sketch", "row_sum", "8", "16", "--out", "mine.py", "--force")
    assert ran.out.endswith("next: pegbox tune mine.py:row_sum 8 16\n")


def test_sketch_writes_python_files_only(pegbox: Any) -> None:
    ran = pegbox("sketch", "row_sum", "8", "16", "--out", "mine.txt")
    assert (ran.code, Path("mine.txt").exists()) == (2, False)
    assert "give mine.txt.py" in ran.err


def test_sketch_renames_a_parameter_that_the_code_of_a_template_has(pegbox: Any) -> None:
    text = "from pegbox import te\ndef up(n, cfg):\n    x = te.placeholder((n, cfg), name='X')\n"
    Path("ops.py").write_text(text + "    return [x, te.compute((n, cfg), lambda i, j: x[i, j] + 1, name='Y')]\n")
    assert pegbox("sketch", "ops.py:up", "8", "16", "--out", "mine.py").code == 0
    assert "def up(cfg: pb.TemplateConfig, n=8, cfg_1=16)" in Path("mine.py").read_text()


def test_tune_passes_every_option(pegbox: Any, api: Any) -> None:
    words = "tune t.py:f --target llvm --tuner xgb:plan_size=32 --trials 9 --budget 1m --records a/b.jsonl --resume "
    words += "--early-stopping 5 --batch-size 4 --seed 3 --runner local --timeout 2s --quiet"
    ran = pegbox(*words.split())
    assert ran.code == 0
    assert api.calls["create_task"]["template"] == "t.py:f"
    assert api.calls["tune"] == {
        "tuner": "xgb:plan_size=32",
        "trials": 9,
        "budget": 60.0,
        "records": Path("a/b.jsonl"),
        "resume": True,
        "early_stopping": 5,
        "batch_size": 4,
        "seed": 3,
        "runner": "local",
        "timeout": 2.0,
        "progress": False,
    }


def test_a_budget_alone_leaves_the_trials_unbounded(pegbox: Any, api: Any) -> None:
    pegbox("tune", "matmul", "--budget", "60s")
    assert api.calls["tune"]["trials"] is None


def test_tune_without_records(pegbox: Any, api: Any) -> None:
    ran = pegbox("tune", "matmul", "--no-records")
    assert api.calls["tune"]["records"] is None
    assert "records" not in ran.out
    for contradiction in (["--resume"], ["--records", "a.jsonl"]):
        assert pegbox("tune", "matmul", "--no-records", *contradiction).code == 2


def test_tune_that_finds_nothing_valid_exits_with_one(pegbox: Any, api: Any) -> None:
    api.best = None
    ran = pegbox("tune", "matmul")
    assert ran.code == 1
    assert "the table" in ran.out
    assert "none of the 3 trials gave a valid kernel; the records give the reasons" in ran.err
    assert "records" not in pegbox("tune", "matmul", "--no-records").err


def test_tune_that_is_interrupted_before_the_first_trial_says_so(
    pegbox: Any, api: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    nothing = SimpleNamespace(best=None, all_trials=(), stopped_because="interrupted", first_failed=None, noise=[])
    monkeypatch.setattr(pb, "tune", lambda task, **options: nothing)
    ran = pegbox("tune", "matmul")
    assert ran.code == 130
    assert "none of the" not in ran.err


def test_tune_that_breaks_prints_what_it_has_first(pegbox: Any, api: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def breaks(task: Any, **options: Any) -> None:
        raise TuningError("the tuner raised", result="the table so far")

    monkeypatch.setattr(pb, "tune", breaks)
    ran = pegbox("tune", "matmul")
    assert ran.code == 2
    assert ran.out == "the table so far\nrecords: matmul.jsonl\n"
    assert "the tuner raised" in ran.err


def test_show_prints_the_space(pegbox: Any, api: Any) -> None:
    assert pegbox("show", "matmul", "64").out == "the space\n"
    assert pegbox("show", "matmul", "64", "--config", "2").out == "the space\nconfig 2\n"


@pytest.mark.parametrize(
    ("emit", "printed"),
    [
        ("schedule", "schedule of config 1"),
        ("ir", "loops of config 1"),
        ("ll", "ll of config 1"),
        ("asm", "asm of config 1"),
    ],
)
def test_show_takes_the_first_valid_config_unless_one_is_named(pegbox: Any, api: Any, emit: str, printed: str) -> None:
    assert pegbox("show", "matmul", "--emit", emit).out == f"{printed}\n"
    assert pegbox("show", "matmul", "--emit", emit, "--config", "4").out == f"{printed[:-1]}4\n"


def test_a_config_outside_the_space_is_bad_input(pegbox: Any, api: Any) -> None:
    ran = pegbox("show", "matmul", "--emit", "ir", "--config", "6")
    assert ran.code == 2
    assert "index 6 is outside" in ran.err


def test_a_space_without_a_valid_config_exits_with_one(pegbox: Any, api: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api.space, "iterate", lambda: iter(()), raising=False)
    ran = pegbox("show", "matmul", "--emit", "ir")
    assert ran.code == 1
    assert "no valid configuration" in ran.err


def test_build_names_what_it_wrote(pegbox: Any, api: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    ran = pegbox("build", "matmul", "64", "--config", "3", "--out", "k.so")
    assert ran.code == 0
    assert api.calls["export"] == {"config": "config 3", "path": Path("k.so"), "header": True}
    assert ran.out == "wrote k.so and k.h\n"
    assert "warning" not in ran.err
    monkeypatch.setattr("pegbox.search.predicted_configs", lambda task: iter(["config 7"]))
    monkeypatch.setattr("pegbox.store.best_config", lambda task: None)
    untuned = pegbox("build", "matmul", "64", "--out", "k.o", "--no-header")
    assert untuned.out == "wrote k.o\n"
    assert "note: predicted, not tuned; 'pegbox tune' searches for a faster kernel" in untuned.err
    assert api.calls["export"] == {"config": "config 7", "path": Path("k.o"), "header": False}
    monkeypatch.setattr("pegbox.store.best_config", lambda task: "config 5")
    stored = pegbox("build", "matmul", "64", "--out", "k.o", "--no-header")
    assert "note" not in stored.err
    assert api.calls["export"]["config"] == "config 5"


def test_build_refuses_other_suffixes(pegbox: Any, api: Any) -> None:
    ran = pegbox("build", "matmul", "--out", "kernel.exe")
    assert ran.code == 2
    assert "'kernel.exe' ends in neither .so" in ran.err
    assert api.calls == {}


def test_config_and_records_exclude_each_other(pegbox: Any, api: Any) -> None:
    ran = pegbox("build", "matmul", "--out", "k.so", "--config", "3", "--records", "a.jsonl")
    assert ran.code == 2
    assert "--config" in ran.err
    assert "--records" in ran.err


@pytest.mark.parametrize("wrap", [lambda function: function, lambda function: Template("of-tests", function)])
def test_templates_shows_arguments_description_and_owner(pegbox: Any, register: Any, wrap: Any) -> None:
    def scale(cfg: Any, N: int, dtype: str = "float32") -> None:
        """y = 2 x for a vector.

        And more.
        """

    register("template", "of-tests", wrap(scale))
    register("template", "of-tests-broken", "no_such_module_at_all:scale")
    ran = pegbox("templates")
    assert ran.code == 0
    assert "of-tests(N, dtype='float32')\n    y = 2 x for a vector.\n    from tests\n" in ran.out
    assert "ModuleNotFoundError" in ran.out
    found = {template["name"]: template for template in json.loads(pegbox("templates", "--json").out)}
    assert found["of-tests"]["summary"] == "y = 2 x for a vector."
    assert found["of-tests"]["error"] is None
    assert "ModuleNotFoundError" in found["of-tests-broken"]["error"]


def test_plugins_lists_the_built_ins(pegbox: Any) -> None:
    ran = pegbox("plugins")
    assert ran.code == 0
    assert "tuner: bayes, droplet, evolution" in ran.out
    (tuners,) = (plugin for plugin in json.loads(pegbox("plugins", "--json").out) if plugin["name"] == "pegbox.tuners")
    assert tuners["source"] == "built in"
    assert tuners["enabled"] is True
    assert tuners["problems"] == []
    assert "xgb" in tuners["provides"]["tuner"]


@pytest.mark.parametrize(
    ("words", "error"),
    [
        ("tune matmul 64 64 sixty", r"template matmul\(M: int, .*\): N='sixty' is not an integer"),
        ("tune matmul 64 64 0.5", r"N=0\.5 is not an integer"),
        ("tune softmax 8 b --space sketch", r"softmax@sketch\(.*\): m='b' is not an integer"),
        (
            "tune matmul 8 8 8 --tuner xgb:plan_size=-3",
            r"tuner 'xgb': plan_size=-3 is out of range; give an integer >= 1",
        ),
        ("tune model.onnx 1 3", "'model.onnx' is a model, not a template: 'pegbox model tune model.onnx'"),
        ("sketch model.onnx", "workload 'model.onnx' is a model, not one operator; 'pegbox model' "),
        ("show t.csv 1", "template 't.csv' is a file, not the name of a template or FILE.py:NAME"),
        ("best ops.py", "'ops.py' is a Python file: a file of records has a JSON object in each line"),
        ("best t.csv", "'t.csv' is a table: a file of records has"),
        ("best binary", "'binary' is not text: a file of records has a JSON object in each line"),
        ("best model.onnx", "'model.onnx' is a model: a file of records has"),
        ("best list.json", "'list.json', line 1: .*; a file of records has a JSON object in each line"),
        ("plot ops.py", "'ops.py' is a Python file"),
        ("spaces t.csv", "'t.csv' is a table"),
        ("compare --simulate ops.py", "'ops.py' is a Python file"),
        ("build matmul 8 8 8 --records t.csv --out a.so", "'t.csv' is a table"),
        ("tune matmul 8 8 8 --transfer t.csv", "'t.csv' is a table"),
    ],
)
def test_files_and_arguments_of_another_kind_are_named(pegbox: Any, words: str, error: str) -> None:
    Path("ops.py").write_text("import pegbox\n")
    Path("t.csv").write_text("a,b\n1,2\n")
    Path("list.json").write_text("[1, 2]\n")
    for name in ("binary", "model.onnx"):
        Path(name).write_bytes(bytes(range(9)))
    ran = pegbox(*words.split())
    assert ran.code == 2
    assert re.search(error, ran.err), ran.err


def test_an_empty_file_holds_no_records(pegbox: Any) -> None:
    Path("empty.jsonl").touch()
    ran = pegbox("best", "empty.jsonl")
    assert (ran.code, ran.err) == (
        1,
        "pegbox best: error: no valid record in empty.jsonl ('pegbox tune' writes records)\n",
    )
