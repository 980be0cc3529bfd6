"""The source text of scripts, with positions, and errors that point into it."""

from __future__ import annotations

import ast
import inspect
from dataclasses import dataclass
from typing import Any

from pegbox.errors import ScriptError


@dataclass(frozen=True)
class ScriptSource:
    """A text whose first line is line `first` of `file`; Python has parsed it with `shift` more lines before it."""

    file: str
    lines: tuple[str, ...]
    first: int = 1
    shift: int = 0

    def fault(self, node: ast.AST, problem: str, remedy: str = "") -> ScriptError:
        """Make the error for a node of the text."""
        row = getattr(node, "lineno", 1 + self.shift)
        start = self._column(row, getattr(node, "col_offset", 0))
        end_row, end = getattr(node, "end_lineno", row), getattr(node, "end_col_offset", None)
        stop = self._column(row, end) if end_row == row and end is not None else len(self._line(row).rstrip())
        return self.error(row, start, max(stop - start, 1), problem, remedy)

    def error(self, row: int, column: int, width: int, problem: str, remedy: str = "") -> ScriptError:
        """Make an error at a place of the parsed text; columns start from zero here, and from one in the message."""
        line, number = self._line(row).rstrip("\n"), row - self.shift - 1 + self.first
        blank = "".join(c if c == "\t" else " " for c in line[:column])
        shown = [f"{self.file}:{number}:{column + 1}: {problem}", f"    {line}", f"    {blank}{'^' * width}"]
        shown += [f"remedy: {remedy}"] if remedy else []
        return ScriptError(
            "\n".join(shown), file=self.file, line=number, column=column + 1, reason=problem, remedy=remedy
        )

    def parse(self) -> ast.Module:
        """Parse the text as Python.

        Raises:
            ScriptError: the text is not Python.
        """
        text = "".join(self.lines)
        try:
            # Indented text is put below an `if`, so that columns do not change.
            return ast.parse("if True:\n" * self.shift + text, self.file)
        except SyntaxError as error:
            row, column = error.lineno or 1, max((error.offset or 1) - 1, 0)
            width = (error.end_offset or 0) - (error.offset or 0) if error.end_lineno == error.lineno else 1
            raise self.error(row, column, max(width, 1), f"not Python: {error.msg}") from None
        except ValueError as error:
            raise self.error(1, 0, 1, f"not Python: {error}") from None

    def _line(self, row: int) -> str:
        at = row - self.shift - 1
        return self.lines[at] if 0 <= at < len(self.lines) else ""

    def _column(self, row: int, offset: int) -> int:
        """Convert Python's column, which counts bytes, to a column of characters."""
        return len(self._line(row).encode()[:offset].decode(errors="ignore"))


def source_of(what: Any) -> ScriptSource:
    """Find the text of a function in its file.

    Raises:
        ScriptError: Python does not find it.
    """
    try:
        lines, first = inspect.getsourcelines(what)
        file = inspect.getsourcefile(what) or "<unknown>"
    except (OSError, TypeError):
        raise ScriptError(
            f"the text of {what.__name__} is not to be found, and a script is read from its text; put it into a file, "
            "or give the text to script.from_source"
        ) from None
    indented = lines[0][:1].isspace()
    return ScriptSource(file, tuple(lines), first, int(indented))
