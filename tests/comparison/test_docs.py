"""The code of docs/compare.md runs, on a small space in place of the one that it names."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import pegbox as pb
from pegbox.measure.result import Ok
from pegbox.search.testing import small_space

PAGE = Path(__file__).parents[2] / "docs" / "compare.md"


def test_the_programs_of_the_page_run_in_their_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("matplotlib")
    space = small_space()
    results = {config: Ok((1e-3 / (1 + config.index % 7),)) for config in space.iterate()}
    monkeypatch.setattr(pb, "recorded_space", lambda name: pb.RecordedSpace(name, space, results), raising=False)
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for block in re.findall(r"^```python\n(.+?)^```$", PAGE.read_text(), flags=re.M | re.S):
        exec(compile(block, "compare.md", "exec"), names)
    assert {path.name for path in tmp_path.iterdir()} == {"curves.png", "report.html", "report.json"}
    assert "cannot be told apart" in capsys.readouterr().out
