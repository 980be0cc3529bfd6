"""Slips of a user's first hour: the message has the remedy."""

from __future__ import annotations

from typing import Any

import pytest

import pegbox as pb
from pegbox.errors import ArgumentError, PegboxError, TemplateError, UnknownName


@pytest.mark.parametrize(
    ("method", "args", "wrong", "near"),
    [
        ("define_split", ("tile", 8), "max_faktor", "max_factor"),
        ("define_knob", ("unroll", [1]), "wen", "when"),
        ("define_annotate", ("ann", ["i"], "try_unroll"), "polici", "policy"),
    ],
)
def test_a_misspelt_argument_of_a_knob_is_reported(method: str, args: Any, wrong: str, near: str) -> None:
    with pytest.raises(PegboxError, match=f"{method} has no argument '{wrong}'; did you mean '{near}'"):
        getattr(pb.ConfigSpace(), method)(*args, **{wrong: 4})


def test_arguments_of_a_template_are_one_tuple() -> None:
    with pytest.raises(ArgumentError, match=r"as one tuple: write args=\(8, 16, 32\)"):
        pb.create_task("matmul", 8, 16, 32)  # type: ignore[arg-type]


def test_a_template_in_a_file_is_named_with_it() -> None:
    with pytest.raises(UnknownName, match=r"no template 'my_op'.*named with its file: FILE\.py:my_op"):
        pb.create_task("my_op", (64,))


def test_cfg_in_another_place_is_not_written_twice() -> None:
    def late(n: int, cfg: Any) -> Any: ...

    with pytest.raises(TemplateError, match=r"write def late\(cfg, n\)"):
        pb.create_task(pb.template("test_slips_late")(late), (8, 8))


def test_the_best_of_a_function_has_its_unit(tmp_path: Any, capsys: pytest.CaptureFixture[str]) -> None:
    space = pb.ConfigSpace()
    space.define_knob("a", [3])
    file = tmp_path / "f.jsonl"
    pb.minimize(lambda c: c["a"].val, space, trials=1, tuner="random", unit="bytes", records=file, progress=False)
    from pegbox.plugins.cli import main

    capsys.readouterr()
    assert main(["best", str(file)]) == 0
    out = capsys.readouterr().out
    assert ", a function of Python: 1 trials" in out
    assert "best: 3 bytes" in out
