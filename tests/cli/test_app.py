"""Finding commands, help, and the way from errors to exit codes."""

from __future__ import annotations

import io
import re
import subprocess
import sys
import warnings
from collections.abc import Callable
from typing import Any

import pytest

import pegbox as pb
from pegbox.errors import PegboxError
from pegbox.hooks import registry
from pegbox.plugins.cli import main
from pegbox.plugins.cli.exits import NothingFound

COMMANDS = ("best", "build", "compare", "plugins", "show", "spaces", "templates", "tune")


@pytest.fixture
def command(request: pytest.FixtureRequest) -> Callable[[Callable[[Any], int]], str]:
    """Registers a command for the length of one test and gives its name."""

    def register(run: Callable[[Any], int]) -> str:
        def configure(parser: Any) -> None:
            """A command of the tests"""
            parser.add_argument("words", nargs="*")
            parser.set_defaults(run=run)

        registry.register("cli_command", "of-tests", configure, owner="tests")
        request.addfinalizer(lambda: registry.unregister("cli_command", "of-tests", owner="tests"))
        return "of-tests"

    return register


def test_help_lists_every_command_with_its_first_line(pegbox: Any) -> None:
    ran = pegbox("--help")
    assert ran.code == 0
    for name in COMMANDS:
        summary = registry.get("cli_command", name).__doc__.partition("\n")[0]
        assert f"{name:<12}{summary}" in ran.out
    assert "exit codes:" in ran.out


@pytest.mark.parametrize("name", COMMANDS)
def test_help_of_a_command_teaches_by_examples(pegbox: Any, name: str) -> None:
    ran = pegbox(name, "--help")
    assert ran.code == 0
    assert "examples:" in ran.out
    assert f"  pegbox {name}" in ran.out
    assert "exit codes:" in ran.out


def test_no_command_is_bad_usage_and_shows_the_help(pegbox: Any) -> None:
    ran = pegbox()
    assert ran.code == 2
    assert "commands:" in ran.err


def test_version(pegbox: Any) -> None:
    assert pegbox("--version").out == f"pegbox {pb.__version__}\n"


def test_unknown_command_shows_the_near_ones(pegbox: Any) -> None:
    ran = pegbox("tuen", "matmul")
    assert ran.code == 2
    assert "did you mean 'tune'?" in ran.err


@pytest.mark.parametrize("words", [["tune"], ["tune", "matmul", "--no-such-option"], ["show", "m", "--emit", "poem"]])
def test_bad_usage(pegbox: Any, words: list[str]) -> None:
    ran = pegbox(*words)
    assert ran.code == 2
    assert ran.err.startswith(f"pegbox {words[0]}: error: ")
    assert ran.err.endswith(f" (usage: pegbox {words[0]} --help)\n")
    assert ran.err.count("\n") == 1


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (PegboxError("tile 7 does not fit"), 2, "pegbox of-tests: error: tile 7 does not fit\n"),
        (PermissionError(13, "Permission denied", "a.jsonl"), 2, "Permission denied: 'a.jsonl'"),
        (NothingFound("no valid record"), 1, "pegbox of-tests: error: no valid record\n"),
        (KeyboardInterrupt(), 130, "pegbox: interrupted\n"),
        (ZeroDivisionError("oops"), 3, "ZeroDivisionError: oops"),
        (SystemExit(7), 7, ""),
    ],
)
def test_errors_become_messages_and_exit_codes(
    pegbox: Any, command: Any, error: BaseException, code: int, said: str
) -> None:
    def fail(_: object) -> int:
        raise error

    ran = pegbox(command(fail))
    assert ran.code == code
    assert said in ran.err
    assert ("Traceback" in ran.err) == (code == 3)


def test_warnings_are_messages_not_lines_of_source(pegbox: Any, command: Any) -> None:
    def warn(_: object) -> int:
        warnings.warn("line 3 is torn: skipped", stacklevel=1)
        return 0

    with warnings.catch_warnings():
        warnings.simplefilter("default")
        ran = pegbox(command(warn))
    assert ran.code == 0
    assert ran.err == "pegbox of-tests: warning: line 3 is torn: skipped\n"


def test_traceback_shows_where_an_error_was_raised(pegbox: Any, command: Any) -> None:
    def fail_here(_: object) -> int:
        raise PegboxError("bad")

    ran = pegbox(command(fail_here), "--traceback")
    assert ran.code == 2
    assert "in fail_here" in ran.err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("tune", "matmul", "8", "8", "8", "--trails", "4"), "there is no option --trails; did you mean --trials"),
        (("tune", "--budgt=5s", "matmul"), "there is no option --budgt; did you mean --budget?"),
        (("build", "matmul", "--ot", "x.so"), "there is no option --ot; did you mean --out?"),  # and --out is missing
        (("sweep", "matmul", "--sample", "9"), "there is no option --sample; did you mean --configs?"),
        (("tune", "matmul", "--sample", "9"), "there is no option --sample; did you mean --trials?"),
        (("tune", "matmul", "--samples=9"), "there is no option --samples; did you mean --trials?"),
        (("tune", "matmul", "--output", "a.jsonl"), "there is no option --output; did you mean --records?"),
        (("build", "matmul", "--output", "a.so"), "there is no option --output; did you mean --out?"),
        (("best", "--everything"), "there is no option --everything; it has --help, --json, --traceback"),
    ],
)
def test_a_misspelt_option_is_reported_with_the_near_ones(pegbox: Any, words: tuple[str, ...], said: str) -> None:
    ran = pegbox(*words)
    assert ran.code == 2
    assert ran.err.splitlines()[-1].startswith(f"pegbox {words[0]}: error: {said}")


@pytest.mark.parametrize("option", ["-num-cores 16", "-mcpu=znver4", "-mattr=+avx2", "-mtriple aarch64-linux-gnu"])
def test_an_option_of_targets_is_reported_where_it_goes(pegbox: Any, option: str) -> None:
    ran = pegbox("tune", "matmul", "8", *option.split(), "--trials", "4")
    assert ran.code == 2
    assert ran.err.startswith(
        f"pegbox tune: error: {re.split('[= ]', option)[0]} is an option of targets: --target 'llvm {option}' (usage: "
    )
    ran = pegbox("tune", "matmul", "8", "--target", "llvm", *option.split())
    assert f"--target 'llvm {option}'" in ran.err


def test_abbreviations_are_no_misspellings(pegbox: Any, command: Any) -> None:
    seen = []

    def note(namespace: Any) -> int:
        seen.append((namespace.words, namespace.traceback))
        return 0

    assert pegbox(command(note), "--trace", "word").code == 0
    assert seen == [(["word"], True)]


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_a_terminal_without_utf8_shows_question_marks(
    command: Any, monkeypatch: pytest.MonkeyPatch, encoding: str
) -> None:
    out = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    monkeypatch.setattr(sys, "stdout", out)
    assert main([command(lambda _: print("1 \u2026 9 \u00b5s") or 0)]) == 0
    assert out.buffer.getvalue().decode(encoding) == f"1 ? 9 {'?' if encoding == 'ascii' else chr(0xB5)}s\n"


def test_options_may_stand_between_arguments(pegbox: Any, command: Any) -> None:
    seen = []

    def note(namespace: Any) -> int:
        seen.append((namespace.words, namespace.traceback))
        return 0

    assert pegbox(command(note), "64", "--traceback", "dtype=float64").code == 0
    assert seen == [(["64", "dtype=float64"], True)]


def test_a_command_that_cannot_be_imported_leaves_the_help_of_the_others(pegbox: Any, request: Any) -> None:
    registry.register("cli_command", "broken", "no_such_module_at_all:configure", owner="tests")
    request.addfinalizer(lambda: registry.unregister("cli_command", "broken", owner="tests"))
    ran = pegbox("--help")
    assert ran.code == 0
    assert "(unusable: " in ran.out
    assert "tune        Search" in ran.out
    assert pegbox("broken").code == 2


def test_python_dash_m_is_the_same_command() -> None:
    ran = subprocess.run([sys.executable, "-m", "pegbox", "tuen"], capture_output=True, text=True, check=False)
    assert ran.returncode == 2
    assert "did you mean 'tune'?" in ran.stderr


def test_a_reader_that_goes_away_is_no_error() -> None:
    shell = f"{sys.executable} -m pegbox --help | true"
    ran = subprocess.run(["bash", "-c", shell], capture_output=True, text=True, check=True)
    assert ran.stderr == ""


def test_ctrl_c_is_one_line_also_while_the_commands_are_imported(monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    class Interrupted:
        def find_spec(self, name: str, *_: object) -> None:
            if name == "pegbox.plugins.cli.app":
                raise KeyboardInterrupt

    monkeypatch.delitem(sys.modules, "pegbox.plugins.cli.app", raising=False)
    monkeypatch.delattr("pegbox.plugins.cli.app", raising=False)
    monkeypatch.setattr(sys, "meta_path", [Interrupted(), *sys.meta_path])
    assert main(["--help"]) == 130
    assert capsys.readouterr() == ("", "pegbox: interrupted\n")


def test_what_comes_before_the_first_line_of_main_is_light() -> None:
    """Ctrl-C ends that with Python's traceback."""
    code = "import sys, pegbox.plugins.cli; print(*(m for m in sys.modules if m.startswith('pegbox')))"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert set(loaded) == {
        "pegbox",
        "pegbox.exports",
        "pegbox.plugins",
        "pegbox.plugins.cli",
        "pegbox.plugins.cli.exits",
    }
