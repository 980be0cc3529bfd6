"""What the README promises is what continuous integration runs."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text()
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]


def test_ci_runs_the_test_command_of_the_readme() -> None:
    commands = re.findall(r"^```\n(python3 -m pip install .+)\n```$", README, flags=re.MULTILINE)
    assert len(commands) == 2
    assert "pegbox tune" in commands[0]
    assert commands[1].endswith("python3 -m pytest")
    assert f"\n{commands[1]} " in (ROOT / ".ci" / "run").read_text()


def test_the_example_runs(tmp_path: Path) -> None:
    """As printed, but for a smaller matrix, fewer trials, and a check of the answer."""
    (program,) = re.findall(r"^```python\n(.+?)^```$", README, flags=re.MULTILINE | re.DOTALL)
    program = program.replace("512", "32").replace("trials=64", "trials=3")
    (tmp_path / "example.py").write_text(f"{program}np.testing.assert_allclose(c, a @ b, rtol=1e-4)\n")
    ran = subprocess.run([sys.executable, "example.py"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    assert "GFLOP/s" in ran.stdout


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    links = [link for link in re.findall(r"\]\(([^)#]+)", page.read_text()) if "://" not in link]
    assert [link for link in links if not (page.parent / link).exists()] == []


def test_license_is_the_whole_apache_2() -> None:
    text = (ROOT / "LICENSE").read_text()
    assert "Apache License" in text
    assert "END OF TERMS AND CONDITIONS" in text
