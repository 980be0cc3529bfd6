"""`pegbox compare`: what it asks of the API, what it prints and writes, and what it keeps when a run breaks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from comparisons import made
from hypothesis import given, settings
from hypothesis import strategies as st

import pegbox as pb
from pegbox.errors import ArgumentError, ComparisonError, SpaceError
from pegbox.plugins.cli.compare import split_tuners
from pegbox.search import Comparison, ComparisonInterrupted

REPORT = made({"xgb": [[2.0, 1.0]] * 3, "ga": [[2.0, 2.0]] * 3})


@pytest.fixture
def compared(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Return the command's call of `compare`; `answer` is the result, or an exception to raise."""
    asked: dict[str, Any] = {"answer": REPORT}

    def compare(tasks: Any, tuners: Any, **options: Any) -> Comparison:
        asked.update(tasks=tasks, tuners=tuners, options=options)
        if isinstance(asked["answer"], BaseException):
            raise asked["answer"]
        report: Comparison = asked["answer"]
        return report

    def recorded_space(source: str, **options: Any) -> str:
        asked["recorded"] = options
        return f"recorded in {source}"

    monkeypatch.setattr(pb, "compare", compare, raising=False)
    monkeypatch.setattr(pb, "recorded_space", recorded_space, raising=False)
    return asked


def test_passes_only_what_was_given(pegbox: Any, api: Any, compared: dict[str, Any]) -> None:
    ran = pegbox("compare", "matmul", "64", "32", "dtype=float64")
    assert ran.code == 0
    assert api.calls["create_task"]["args"] == (64, 32)
    assert compared["tuners"] == ["bayes", "xgb", "ga", "random"]
    assert compared["options"] == {"save": None, "progress": True}
    assert ran.out == f"{REPORT}\n"


def test_passes_every_option(pegbox: Any, api: Any, compared: dict[str, Any]) -> None:
    words = (
        "compare matmul 64 --tuners xgb:plan_size=8,epsilon=0,ga --tuners my.py:Mine --trials 9 --seeds 3 --start 2 "
    )
    words += "--runner mine --timeout 2s --json r.json --quiet --jobs 2"
    assert pegbox(*words.split()).code == 0
    assert compared["tuners"] == ["xgb:plan_size=8,epsilon=0", "ga", "my.py:Mine"]
    assert compared["options"] == {
        "trials": 9,
        "seeds": 3,
        "start": 2,
        "runner": "mine",
        "timeout": 2.0,
        "jobs": 2,
        "save": Path("r.json"),
        "progress": False,
    }


def test_experience_is_left_out_on_request(pegbox: Any, api: Any, compared: dict[str, Any]) -> None:
    assert pegbox("compare", "matmul", "64", "32", "--no-experience").code == 0
    assert compared["options"]["experience"] is False


def test_the_batch_is_the_one_that_is_given(pegbox: Any, api: Any, compared: dict[str, Any]) -> None:
    assert pegbox("compare", "matmul", "64", "32", "--batch-size", "8").code == 0
    assert compared["options"]["batch_size"] == 8


@pytest.mark.parametrize("jobs", ["auto", "dask:scheduler=tcp://host:8786"])
def test_jobs_may_be_those_of_all_cores_or_of_a_cluster(
    pegbox: Any, api: Any, compared: dict[str, Any], jobs: str
) -> None:
    assert pegbox("compare", "--simulate", "a.jsonl", "--jobs", jobs).code == 0
    assert compared["options"]["jobs"] == jobs


def test_records_know_the_template_and_its_arguments(pegbox: Any, api: Any, compared: dict[str, Any]) -> None:
    assert pegbox("compare", "--simulate", "a.jsonl", "--simulate", "b", "--host", "vm").code == 0
    assert compared["tasks"] == ["recorded in a.jsonl", "recorded in b"]
    assert compared["recorded"]["task"] is None
    assert compared["recorded"]["host"] == "vm"
    assert "create_task" not in api.calls


def test_a_template_chooses_among_records_of_several(pegbox: Any, api: Any, compared: dict[str, Any]) -> None:
    assert pegbox("compare", "matmul", "64", "--simulate", "all.jsonl").code == 0
    assert compared["tasks"] == ["recorded in all.jsonl"]
    assert compared["recorded"]["task"].name == "fake"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("", "name a TEMPLATE"),
        ("matmul --simulate a --simulate b", "leave TEMPLATE out"),
        ("matmul --simulate a --runner local", "excludes --runner"),
        ("matmul --host vm", "it needs --simulate"),
        ("matmul --seeds 0", "'0' is not a whole number of at least 1"),
        ("matmul --jobs 0", "'0' is not a whole number of at least 1"),
        ("matmul --tuners epsilon=0", "comes after no tuner"),
        ("matmul --tuners xgb,epsilon=0", "comes after 'xgb': write xgb:epsilon=0"),
        (
            "matmul 64 --tuners bayes randm",
            "'randm' comes after --tuners bayes: join tuners by commas, --tuners bayes,ran",
        ),
        ("matmul --json no/r.json", "there is no folder 'no'"),
        ("matmul --html no/r.html", "there is no folder 'no'"),
    ],
)
def test_bad_usage_is_reported_before_anything_is_measured(
    pegbox: Any, api: Any, compared: dict[str, Any], words: str, said: str
) -> None:
    ran = pegbox("compare", *words.split())
    assert ran.code == 2
    assert said in ran.err
    assert "options" not in compared


def test_a_plot_that_cannot_be_drawn_is_reported_before_anything_is_measured(
    pegbox: Any, api: Any, compared: dict[str, Any]
) -> None:
    pytest.importorskip("matplotlib")
    ran = pegbox("compare", "matmul", "--plot", "curves.txt")
    assert ran.code == 2
    assert "must be one of" in ran.err
    assert "options" not in compared


def test_writes_and_names_what_was_asked_for(pegbox: Any, api: Any, compared: dict[str, Any]) -> None:
    pytest.importorskip("matplotlib")
    ran = pegbox("compare", "matmul", "--html", "r.html", "--json", "r.json", "--plot", "r.png")
    assert ran.out.endswith("wrote r.html\nwrote r.png\nwrote r.json\n")
    assert Path("r.html").read_text().startswith("<!doctype html>")
    assert Path("r.png").read_bytes().startswith(b"\x89PNG")
    assert Comparison.load("r.json") == REPORT


def test_a_run_that_breaks_costs_neither_the_report_nor_the_files(
    pegbox: Any, api: Any, compared: dict[str, Any]
) -> None:
    compared["answer"] = ComparisonError("the tuner raised", REPORT)
    ran = pegbox("compare", "matmul", "--html", "r.html")
    assert ran.code == 2
    assert ran.out == f"{REPORT}\nwrote r.html\n"
    assert "the tuner raised" in ran.err
    assert Path("r.html").exists()


def test_ctrl_c_prints_the_finished_runs(pegbox: Any, api: Any, compared: dict[str, Any]) -> None:
    compared["answer"] = ComparisonInterrupted("interrupted", REPORT)
    ran = pegbox("compare", "matmul")
    assert (ran.code, ran.out) == (130, f"{REPORT}\n")


def test_nothing_valid_exits_with_one(pegbox: Any, api: Any, compared: dict[str, Any]) -> None:
    compared["answer"] = made({"xgb": [[float("inf")]]})
    ran = pegbox("compare", "matmul")
    assert ran.code == 1
    assert "nothing valid" in ran.out
    compared["answer"] = SpaceError("no valid configuration")
    assert pegbox("compare", "matmul").code == 1


@pytest.mark.parametrize(
    ("texts", "tuners"),
    [
        (["a,b,c"], ["a", "b", "c"]),
        (["a:x=1,y=2,b"], ["a:x=1,y=2", "b"]),
        (
            ["xgb:cost_model=forest:trees=8;depth=3,epsilon=0, ga"],
            ["xgb:cost_model=forest:trees=8;depth=3,epsilon=0", "ga"],
        ),
        (["a:x=1", "b"], ["a:x=1", "b"]),
        (["my.py:Mine:x=1,y=2,pack.mod:Theirs"], ["my.py:Mine:x=1,y=2", "pack.mod:Theirs"]),
        (["a,,b,"], ["a", "b"]),
    ],
)
def test_a_comma_parts_tuners_before_a_name_and_options_before_a_value(texts: list[str], tuners: list[str]) -> None:
    assert split_tuners(texts) == tuners


WORDS = st.from_regex(r"[a-z][a-z_0-9]{0,5}", fullmatch=True)
OPTIONS = st.dictionaries(WORDS, st.from_regex(r"[a-z0-9.]{1,5}", fullmatch=True), max_size=3)


@settings(max_examples=15)
@given(st.lists(st.tuples(WORDS, OPTIONS), min_size=1, max_size=5))
def test_any_list_of_specs_is_split_as_it_was_joined(given_specs: list[tuple[str, dict[str, str]]]) -> None:
    from pegbox.search import Spec

    specs = [str(Spec(name, options)) for name, options in given_specs]
    assert split_tuners([",".join(specs)]) == specs
    assert split_tuners(specs) == specs


def test_options_of_an_earlier_word_do_not_take_those_of_a_later_one() -> None:
    with pytest.raises(ArgumentError, match="comes after no tuner"):
        split_tuners(["a:x=1", "y=2"])


def test_compares_on_a_recorded_space_from_end_to_end(pegbox: Any, tmp_path: Path) -> None:
    task = pb.create_task("matmul", args=(64, 64, 64))
    journal = pb.Journal(tmp_path / "space.jsonl")
    from pegbox.measure.result import Ok
    from pegbox.records import Record

    for place, config in enumerate(task.space.iterate()):
        if place == 30:
            break
        journal.append(Record.of(task, config, Ok((1e-3 / (1 + place),), total_seconds=0.5)))
    words = ("--tuners", "random,ga:population=4,elite=1", "--trials", "12", "--seeds", "4", "--json", "r.json")
    ran = pegbox("compare", "--simulate", "space.jsonl", *words)
    assert ran.code == 0, ran.err
    assert "ga:population=4,elite=1" in ran.out
    assert "cannot be told apart" in ran.out
    assert len(ran.err.splitlines()) == 8
    plain = json.loads(Path("r.json").read_text())
    assert plain["setup"]["tasks"][0]["source"] == "space.jsonl"
    again = pegbox("compare", "matmul", 64, 64, 64, "--simulate", "space.jsonl", *words, "-q")
    assert again.code == 0, again.err
    assert again.err == ""


@pytest.fixture
def suite_folder(tmp_path: Path) -> Path:
    """A suite of two functions, with a problem that is missing."""
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "functions.py").write_text(
        "import pegbox as pb\n"
        "def bowl(best=2):\n"
        "    space = pb.ConfigSpace()\n"
        "    space.define_knob('x', range(30))\n"
        "    return pb.Objective(lambda config: 1.0 + (config['x'].val - best) ** 2, space, pure=True)\n"
    )
    spaces = [
        {"name": "low", "objective": "functions.py:bowl"},
        {"name": "high", "objective": "functions.py:bowl", "options": {"best": 25}},
        {"name": "gone", "file": "gone.jsonl"},
    ]
    (folder / "suite.json").write_text(json.dumps({"suite": "mine", "spaces": spaces}))
    return folder


def test_compares_on_a_suite_from_end_to_end(pegbox: Any, suite_folder: Path) -> None:
    pytest.importorskip("matplotlib")
    words = ("compare", "--suite", suite_folder, "--tuners", "random,grid", "--trials", "6", "--seeds", "2")
    outputs = ("--log", "runs.jsonl", "--latex", "t.tex", "--csv", "s.csv", "--paper", "paper", "--html", "r.html")
    ran = pegbox(*words, *outputs, "-q")
    assert ran.code == 0, ran.err
    assert "over 2 spaces, 6 trials:" in ran.out
    assert "missing from the suite: gone: there is no file" in ran.out
    assert Path("t.tex").read_text().startswith(r"\begin{tabular}")
    assert len(Path("s.csv").read_text().splitlines()) == 5
    assert len(Path("runs.jsonl").read_text().splitlines()) == 8
    assert {path.name for path in Path("paper").iterdir()} >= {"report.json", "table.tex", "ranks.svg", "ranks.pdf"}
    assert "Over 2 spaces" in Path("r.html").read_text()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--suite", "hrad"), "neither a folder nor a suite that ships"),
        (("--suite", "hard", "--simulate", "matmul-512x512x512"), "leave TEMPLATE and --simulate out"),
        (("matmul", "8", "8", "8", "--suite", "hard"), "leave TEMPLATE and --simulate out"),
        (("--suite", "hard", "--run-timeout", "soon"), "soon"),
    ],
)
def test_wrong_words_about_suites_are_usage_errors(pegbox: Any, words: tuple[str, ...], said: str) -> None:
    ran = pegbox("compare", *words)
    assert ran.code == 2
    assert said in ran.err
