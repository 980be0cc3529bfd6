"""`pegbox COMMAND ...`: parses the arguments, runs the command, and turns errors into messages and exit codes.

Each command has a parser of its own instead of argparse's subparsers: only the named command is imported, and options
may come between template arguments (`tune matmul 64 64 --trials 8 64`).
"""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import re
import shlex
import sys
import traceback
import warnings
from collections.abc import Sequence
from typing import Any, NoReturn

import pegbox
from pegbox.checks import did_you_mean
from pegbox.errors import ComparisonError, PegboxError, TuningError
from pegbox.hooks import registry
from pegbox.plugins.cli import exits
from pegbox.report import EscapedStream

_EXAMPLES = """\
examples:
  pegbox tune matmul 1024 1024 1024 --trials 64     search; records go to matmul-1024x1024x1024.jsonl
  pegbox best matmul-1024x1024x1024.jsonl           the fastest configuration in a records file
  pegbox show matmul 64 64 64                       the choices that a template leaves open
  pegbox tune my_templates.py:conv 8 64 --budget 60s   a template of your own, for a minute
  pegbox COMMAND --help                             more about one command
"""


_SYNONYMS = {
    "--sample": ("--configs", "--trials"),
    "--iteration": ("--trials", "--configs"),
    "--number": ("--trials", "--configs"),
    "--log": ("--records",),
    "--output": ("--out", "--records"),
    "--model": ("--tuner", "--tuners"),
    "--parallel": ("--jobs",),
    "--worker": ("--jobs",),
    "--continue": ("--resume",),
    "--arch": ("--target",),
}
"""Names of options elsewhere, with the names here; a command uses the first one that it has."""


_COLOURLESS: dict[str, Any] = {"color": False} if sys.version_info >= (3, 14) else {}
"""Options for parsers without escape sequences, which would be visible."""


def run(argv: Sequence[str] | None = None) -> int:
    """Run the command line `argv` (default: the process's own), return its exit code; raise only KeyboardInterrupt."""
    words = list(sys.argv[1:] if argv is None else argv)
    _print_anything(sys.stdout, sys.stderr)
    with contextlib.ExitStack() as streams:  # content of files must not control the terminal
        for stream, redirected in ((sys.stdout, contextlib.redirect_stdout), (sys.stderr, contextlib.redirect_stderr)):
            if stream is not None:  # the program may have been started with it closed
                shown: Any = EscapedStream(stream)
                streams.enter_context(redirected(shown))
        return _run_reporting(words)


def _run_reporting(words: list[str]) -> int:
    """Run the command and turn its errors into messages and exit codes."""
    try:
        code = _run(words)
        sys.stdout.flush()
        return code
    except SystemExit as stop:  # argparse has printed its message
        return stop.code if isinstance(stop.code, int) else exits.DONE if stop.code is None else exits.BAD_USAGE
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # otherwise Python complains again at its exit
        return exits.BROKEN_PIPE
    except exits.NothingFound as error:
        return _report(words, error, exits.NOTHING_FOUND)
    except (TuningError, ComparisonError) as error:  # the command has printed its `result`
        return _report(words, error, exits.BAD_USAGE, reason=error.reason)
    except (PegboxError, OSError) as error:
        return _report(words, error, exits.BAD_USAGE)
    except Exception as error:
        traceback.print_exc()
        return _report(words, f"{type(error).__name__}: this is a bug in pegbox or in a plugin", exits.BUG)


class _Parser(argparse.ArgumentParser):
    """A parser whose errors name the command that prints the usage, instead of printing it."""

    def error(self, message: str) -> NoReturn:
        self.exit(exits.BAD_USAGE, f"{self.prog}: error: {message} (usage: {self.prog} --help)\n")


def _run(words: list[str]) -> int:
    top = argparse.ArgumentParser(
        prog="pegbox",
        usage="pegbox [-h] [--version] COMMAND ...",
        description="Find the fastest schedule of a tensor operator by compiling candidates and timing them.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        add_help=False,
        **_COLOURLESS,
    )
    top.add_argument("-h", "--help", action="store_true")
    top.add_argument("--version", action="version", version=f"pegbox {pegbox.__version__}")
    top.add_argument("command", nargs="?")
    top.add_argument("rest", nargs=argparse.REMAINDER)
    known = top.parse_args(words)
    if known.help or known.command is None:
        print(_overview(top), file=sys.stdout if known.help else sys.stderr)
        return exits.DONE if known.help else exits.BAD_USAGE
    return _run_command(known.command, known.rest)


def _run_command(name: str, words: list[str]) -> int:
    configure = registry.get("cli_command", name)
    parser = _Parser(
        prog=f"pegbox {name}",
        description=configure.__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        **_COLOURLESS,
    )
    configure(parser)
    parser.add_argument("--traceback", action="store_true", help="show where an error was raised")
    _check_options(parser, words)
    _check_target_options(parser, words)
    namespace = parser.parse_intermixed_args(words)
    namespace.command_line = ("pegbox", name, *words)
    with warnings.catch_warnings():
        # Python would show a line of source, which does not help.
        warnings.showwarning = lambda message, *_, **__: print(f"pegbox {name}: warning: {message}", file=sys.stderr)
        code: int = namespace.run(namespace)
    return code


def _check_options(parser: argparse.ArgumentParser, words: list[str]) -> None:
    """End with a usage error at a misspelt option, before argparse complains about a missing one."""
    known = [option for option in parser._option_string_actions if option.startswith("--")]
    for word in words:
        option = word.partition("=")[0]
        if option.startswith("--") and option != "--" and not any(name.startswith(option) for name in known):
            hint = _hint(option, known) or f"; it has {', '.join(sorted(known))}"
            parser.error(f"there is no option {option}{hint}")


def _hint(option: str, known: list[str]) -> str:
    """Suggest the option's name here, or else options with similar spelling."""
    meant = next((name for name in _SYNONYMS.get(option.removesuffix("s"), ()) if name in known), None)
    return f"; did you mean {meant}?" if meant else did_you_mean(option, known, shown=str)


def _check_target_options(parser: argparse.ArgumentParser, words: list[str]) -> None:
    """End with a usage error at options of targets outside --target."""
    if "--target" not in parser._option_string_actions or not any(re.match("-[a-z]{2}", word) for word in words):
        return
    from pegbox.codegen import TARGET_OPTIONS  # slow to load, unlike 'pegbox --help'

    target, astray, rest = "llvm", [], iter(words)
    for word in rest:
        if word == "--target":
            target = next(rest, target)
        elif word.partition("=")[0] in TARGET_OPTIONS:
            astray.append(word if "=" in word else f"{word} {next(rest, '')}".rstrip())
        else:
            target = word.removeprefix("--target=") if word.startswith("--target=") else target
    if astray:
        names = " and ".join(re.split("[= ]", each)[0] for each in astray)
        many = "are options" if len(astray) > 1 else "is an option"
        parser.error(f"{names} {many} of targets: --target {shlex.quote(' '.join([target, *astray]))}")


def _print_anything(*streams: Any) -> None:
    """Let a stream print a question mark for a character that its encoding lacks."""
    for stream in streams:
        if isinstance(stream, io.TextIOWrapper) and stream.errors == "strict":
            stream.reconfigure(errors="replace")


def _overview(top: argparse.ArgumentParser) -> str:
    lines = [top.format_usage().rstrip(), "", top.description or "", "", "commands:"]
    for name in registry.names("cli_command"):
        lines.append(f"  {name:<12}{_summary(name)}")
    return "\n".join([*lines, "", _EXAMPLES, exits.EXPLAINED])


def _summary(name: str) -> str:
    """Return the first line of a command's docstring, or the error of a broken command."""
    try:
        doc = registry.get("cli_command", name).__doc__ or ""
    except PegboxError as error:
        return f"(unusable: {error})"
    return str(doc).strip().partition("\n")[0]


def _report(words: list[str], error: object, code: int, *, reason: str = "") -> int:
    if isinstance(error, Exception) and "--traceback" in words:
        traceback.print_exc()
    command = f" {words[0]}" if words and not words[0].startswith("-") else ""
    print(f"pegbox{command}: error: {reason or error}", file=sys.stderr)
    return code
