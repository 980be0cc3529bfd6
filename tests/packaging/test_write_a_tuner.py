"""docs/write-a-tuner.md is true: its files are written, installed and used as the page says, without a network."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from pegbox.plugins.cli import main

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "write-a-tuner.md").read_text()
FILES = dict(re.findall(r"^`([\w.]+)`[^\n]*\n\n```\w+\n(.*?)^```$", PAGE, flags=re.M | re.S))
COMMANDS = re.findall(r"^```sh\n(.*?)^```$", PAGE, flags=re.M | re.S)[0].splitlines()


def run(command: str, where: Path, site: Path) -> str:
    words = shlex.split(command)
    if words[0] == "pegbox":
        words = ["python", "-m", *words]
    if words[0] == "python":
        words[0] = sys.executable
    env = {**os.environ, "PYTHONPATH": str(site)}
    ran = subprocess.run(words, capture_output=True, text=True, cwd=where, env=env, check=False, timeout=300)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The folder with the page's files, and the one where they are installed."""
    folder, site = tmp_path_factory.mktemp("climb"), tmp_path_factory.mktemp("site")
    for name, content in FILES.items():
        (folder / name).write_text(content)
    offline = f"--quiet --no-deps --no-build-isolation --no-index --target {site}"
    assert COMMANDS[0] == "pip install ."
    run(f"python -m pip install {offline} .", folder, site)
    (folder / "pegbox_climb.py").unlink()  # what is imported from here on is what was installed
    return folder, site


def test_the_page_keeps_its_word_about_its_length() -> None:
    assert set(FILES) == {"pegbox_climb.py", "pyproject.toml", "test_climb.py"}
    lines = [line for text in FILES.values() for line in text.splitlines() if line.strip()]
    assert len(lines) + len(COMMANDS) <= 60
    assert f"three files with {round(len(lines), -1)} lines in total" in PAGE


def test_the_tuner_keeps_the_contract(project: tuple[Path, Path]) -> None:
    assert COMMANDS[1].startswith("python -m pytest")
    assert " passed" in run(f"{COMMANDS[1]} -p no:cacheprovider", *project)


def test_the_tuner_is_listed(project: tuple[Path, Path]) -> None:
    assert COMMANDS[2] == "pegbox plugins"
    listed = run(COMMANDS[2], *project)
    assert "pegbox-climb 0.1" in listed
    assert "climb" in listed


def test_the_tuner_is_compared(project: tuple[Path, Path]) -> None:
    assert COMMANDS[3].startswith("pegbox compare --simulate")
    table = run(COMMANDS[3], *project)
    for words in ("climb:share=0.5", "random", "100 trials, 5 seeds", "simulated on recorded measurements"):
        assert words in table
    assert re.search(r"climb.*(beats|loses to|cannot be told apart)", table), table


def test_the_tuner_can_be_used_without_a_package(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "pegbox_climb.py").write_text(FILES["pegbox_climb.py"])
    monkeypatch.chdir(tmp_path)
    words = "--tuner pegbox_climb.py:ClimbTuner:parents=2 --trials 6 --quiet"
    assert main(f"tune matmul 32 32 32 {words}".split()) == 0
    assert "pegbox_climb.py:ClimbTuner" in capsys.readouterr().out
