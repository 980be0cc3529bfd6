"""The commands of the README are those that continuous integration runs."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text()


def test_ci_runs_the_test_command_of_the_readme() -> None:
    commands = re.findall(r"^```\n(python3 -m pip install .+)\n```$", README, flags=re.MULTILINE)
    assert len(commands) == 2
    assert "pegbox tune" in commands[0]
    assert commands[1].endswith("python3 -m pytest")
    assert f"\n{commands[1]} " in (ROOT / ".ci" / "run").read_text()


# The second and the last one are run as they stand, by tests/test_docs.py.
OPERATOR, _, TEMPLATE, _ = re.findall(r"^```python\n(.+?)^```$", README, flags=re.MULTILINE | re.DOTALL)


def run(program: str, where: Path) -> str:
    (where / "example.py").write_text(program)
    ran = subprocess.run([sys.executable, "example.py"], cwd=where, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def test_the_operator_runs(tmp_path: Path) -> None:
    """Runs the first program as printed, but for a smaller matrix and fewer trials; its last call uses the result."""
    program = OPERATOR.replace("1024", "32").replace("trials=64", "trials=2")
    check = "assert abs(y.mean(1)).max() < 1e-5 and abs(y.std(1) - 1).max() < 1e-3\nprint(layer_norm)\n"
    assert "float32[32, 32], float32[32], float32[32]  tuned" in run(f"{program}{check}", tmp_path)


def test_the_template_runs(tmp_path: Path) -> None:
    """Runs the template as printed, but for a smaller matrix, fewer trials, and a check of the answer."""
    program = TEMPLATE.replace("512", "32").replace("trials=64", "trials=3")
    assert "GFLOP/s" in run(f"{program}np.testing.assert_allclose(c, a @ b, rtol=1e-4)\n", tmp_path)


def test_license_is_the_whole_apache_2() -> None:
    text = (ROOT / "LICENSE").read_text()
    assert "Apache License" in text
    assert "END OF TERMS AND CONDITIONS" in text
