"""The origin of errors in a user's code: `my_ops.py:14`."""

from __future__ import annotations

import functools
import inspect
import os
import sys
import traceback
from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any, NamedTuple, TypeVar

from pegbox.checks import did_you_mean
from pegbox.errors import PegboxError, ScriptError

_Error = TypeVar("_Error", bound=PegboxError)
_INSTALLED = ("site-packages", "dist-packages")
_RUNS_TEMPLATES = "pegbox.task.task"
"""The module that calls templates: frames further out did not ask for a template's steps."""


def located(error: _Error, cause: BaseException | None = None) -> _Error:
    """Add the line of a user's code that raised an error, or its cause, unless the error names a place already."""
    if not error.source and not (isinstance(error, ScriptError) and error.line):
        error.source = origin_of(error if cause is None else cause)
    return error


def origin_of(error: BaseException) -> str:
    """Find file and line of the innermost call in a user's code, up to where the error was caught; empty if none.

    A user's code is neither pegbox, nor Python's library, nor an installed package.
    """
    found = ""
    for frame, line in traceback.walk_tb(error.__traceback__):
        if _is_users(_module(frame), frame.f_code.co_filename):
            found = _line(frame.f_code, line)
    return found


def users_frame(frame: FrameType | None) -> FrameType | None:
    """Find the innermost frame of a user's code, from `frame` outwards; None inside one of pegbox's own templates.

    It is quick: schedules ask at each of their calls.
    """
    while frame is not None:
        module = frame.f_globals.get("__name__", "")
        if _is_own(module):
            if module == _RUNS_TEMPLATES:
                return None
        elif _is_users(module, frame.f_code.co_filename):
            return frame
        frame = frame.f_back
    return None


def line_at(code: CodeType, running: int) -> str:
    """Find the file and line that a frame is executing, `my_ops.py:14`; empty for code outside files."""
    if code.co_filename.startswith("<"):
        return ""
    lines = [line for start, end, line in code.co_lines() if start <= running < end and line is not None]
    return _line(code, lines[0] if lines else code.co_firstlineno)


def explained(error: BaseException, when: str = "") -> str:
    """Describe the error with its kind; for an attribute that does not exist, suggest similar names.

    `when` follows the kind, such as "in ask(4)". An error without text, such as that of `assert False`, is described by
    its kind alone.
    """
    kind = " ".join(filter(None, (type(error).__name__, when)))
    text = f"{kind}: {error}" if str(error) else kind
    wrong = getattr(error, "name", None)
    if not isinstance(error, AttributeError) or wrong is None or not text.endswith(repr(wrong)):
        return text
    return text + did_you_mean(wrong, [name for name in dir(error.obj) if not name.startswith("_")])


class Definition(NamedTuple):
    """The place of a function, quick to take and to pickle. As text it is `my_ops.py:14`."""

    module: str = ""
    path: str = ""
    line: int = 0

    @classmethod
    def of(cls, function: Callable[..., Any]) -> Definition:
        """Find the definition of a function, beneath its decorators; an empty one without Python code."""
        plain = inspect.unwrap(function)
        code = getattr(plain, "__code__", None)
        if code is None:
            return cls()
        return cls(str(getattr(plain, "__globals__", {}).get("__name__", "")), code.co_filename, code.co_firstlineno)

    @property
    def file(self) -> str:
        """The user's file, relative to the current folder, or its name alone if it lies elsewhere; else empty."""
        if not self._is_users or not os.path.isfile(self.path):  # a notebook's cell has no file
            return ""
        short = _short(self.path)
        return os.path.basename(short) if os.path.isabs(short) else short

    def __str__(self) -> str:
        """Write file and line; empty unless the function is a user's."""
        return f"{_short(self.path)}:{self.line}" if self._is_users else ""

    @property
    def _is_users(self) -> bool:
        return bool(self.path) and _is_users(self.module, self.path)


def definition_of(function: Callable[..., Any]) -> str:
    """Find the file and line where a user's function begins; empty for any other function."""
    return str(Definition.of(function))


def users_level() -> int:
    """Compute the `stacklevel` with which `warnings.warn` names the user's line; 1 if there is none."""
    frame, level = inspect.currentframe(), 0
    while frame is not None:
        if level and _is_users(_module(frame), frame.f_code.co_filename):
            return level
        frame, level = frame.f_back, level + 1
    return 1


def _module(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__", ""))


@functools.cache
def _is_own(module: str) -> bool:
    return module.partition(".")[0] == "pegbox"


@functools.lru_cache(maxsize=4096)
def _is_users(module: str, path: str) -> bool:
    package = module.partition(".")[0]
    return package != "pegbox" and package not in sys.stdlib_module_names and not any(f in path for f in _INSTALLED)


def _line(code: CodeType, line: int) -> str:
    return f"{_short(code.co_filename)}:{line}"


def _short(path: str) -> str:
    """Make a path relative to the current folder if the file is inside it; editors and terminals open both forms."""
    try:
        relative = os.path.relpath(path)
    except (OSError, ValueError):  # the folder is gone, or on another drive
        return path
    return path if path.startswith("<") or relative.startswith(os.pardir) else relative
