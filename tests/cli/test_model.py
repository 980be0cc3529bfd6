"""`pegbox model`: show, tune, build and run a model that a plugin reads."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tuned_models import Machine, layers, trials_in

from pegbox.errors import UnknownShape
from pegbox.graph import Graph
from pegbox.hooks import registry
from pegbox.search import problem


@pytest.fixture(autouse=True)
def reader(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[list[Any]]:
    """Files that end in .layers: a model of two layers, whatever they hold."""
    asked: list[Any] = []

    def read(path: Path, *, shapes: Any) -> Graph:
        asked.append(shapes)
        if unknown := [name for name in shapes or () if name.startswith("no") or (path.stem, name) == ("net", "far")]:
            raise UnknownShape(f"no dimension {unknown[0]}; there are x and y", unknown)
        return layers(name=path.stem).graph

    monkeypatch.setattr(problem, "LocalMeasurer", Machine)
    (tmp_path / "net.layers").write_text("")
    registry.register("model_reader", ".layers", read, owner="tests")
    yield asked
    registry.unregister("model_reader", ".layers", owner="tests")


def test_show_lists_the_tasks_of_the_shapes_given(pegbox: Any, reader: list[Any]) -> None:
    ran = pegbox("model", "show", "net.layers", "--shape", "x=4,8", "--shape", "y=2x3")
    assert ran.code == 0
    assert "2  MatMul 4x8, 8x8" in ran.out
    assert reader == [{"x": (4, 8), "y": (2, 3)}]


def test_a_shape_of_one_of_several_models_is_enough(pegbox: Any, reader: list[Any]) -> None:
    Path("other.layers").write_text("")
    words = ("model", "tune", "net.layers", "other.layers", "--trials", 4, "--threads", 1, "--tuner", "random")
    assert pegbox(*words, "--shape", "x=4,8", "--shape", "far=3").code == 0
    assert reader == [{"x": (4, 8), "far": (3,)}, {"x": (4, 8)}, {"x": (4, 8), "far": (3,)}]
    ran = pegbox(*words, "--shape", "far=3", "--shape", "none=3")
    assert ran.code == 2
    assert "no dimension none; there are x and y" in ran.err


def test_tune_writes_records_and_goes_on_with_the_same_command(pegbox: Any) -> None:
    words = ("model", "tune", "net.layers", "--trials", 8, "--threads", 1, "--tuner", "random", "--html", "net.html")
    ran = pegbox(*words)
    assert ran.code == 0
    assert "all calls" in ran.out
    assert "next:    pegbox model run net.layers --threads 1 --records net.jsonl --profile" in ran.out
    assert trials_in(Path("net.jsonl")) == 8
    assert "Where the time goes" in Path("net.html").read_text()
    assert pegbox(*words).code == 0
    assert trials_in(Path("net.jsonl")) == 8


def test_run_prints_the_time_of_a_call_and_build_writes_the_library(pegbox: Any) -> None:
    ran = pegbox("model", "run", "net.layers", "--threads", 1, "--calls", 3)
    assert "median of 3" in ran.out
    assert pegbox("model", "build", "net.layers", "--threads", 1, "--out", "net.so").code == 0
    assert Path("net.so").exists()
    assert Path("net.h").exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("model", "tune", "net.layers"), "give the search an end"),
        (("model", "run", "net.layers", "--trials", 3), "--trials is an option of 'pegbox model tune'"),
        (("model", "show", "net.layers", "more.layers"), "show takes one model"),
        (("model", "show", "net.layers", "--out", "net.so"), "not of show"),
        (("model", "build", "net.layers"), "name the library with --out"),
        (("model", "build", "net.layers", "--out", "net.o"), "does not end in .so"),
        (("model", "show", "net.layers", "--shape", "x=a"), "is not the shape of an input"),
        (("model", "show", "net.txt"), "no reader for '.txt'"),
        (("tune", "net.layers"), "'pegbox model tune net.layers' searches for its kernels"),
    ],
)
def test_mistakes_are_refused_with_a_remedy(pegbox: Any, words: tuple[object, ...], message: str) -> None:
    ran = pegbox(*words)
    assert ran.code == 2
    assert message in ran.err
