"""Where in a user's code an error comes from: `my_ops.py:14`."""

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
"""The module that calls templates: what is further out has not asked for what they do."""


def located(error: _Error, cause: BaseException | None = None) -> _Error:
    """The error, which says from now on at which line of a user's code it, or its cause, was raised.

    A place that it names already stays, as scripts have one.
    """
    if not error.source and not (isinstance(error, ScriptError) and error.line):
        error.source = origin_of(error if cause is None else cause)
    return error


def origin_of(error: BaseException) -> str:
    """File and line of the innermost call in a user's code, up to where the error was caught; empty if there is none.

    A user's code is neither pegbox, nor Python's library, nor an installed package.
    """
    found = ""
    for frame, line in traceback.walk_tb(error.__traceback__):
        if _is_users(_module(frame), frame.f_code.co_filename):
            found = _line(frame.f_code, line)
    return found


def users_frame(frame: FrameType | None) -> FrameType | None:
    """The innermost frame of a user's code, from `frame` outwards; None where a template of pegbox's own, or no user's
    code at all, has got here. It is quick: schedules ask at each of their calls."""
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
    """File and line of the byte of code that runs, `my_ops.py:14`; empty for what was typed in and is in no file."""
    if code.co_filename.startswith("<"):
        return ""
    lines = [line for start, end, line in code.co_lines() if start <= running < end and line is not None]
    return _line(code, lines[0] if lines else code.co_firstlineno)


def explained(error: BaseException, when: str = "") -> str:
    """The error as text, with its kind; for an attribute that does not exist, with those of near names.

    `when` stands behind the kind, such as "in ask(4)". An error without a text, such as that of
    `assert False`, is its kind alone.
    """
    kind = " ".join(filter(None, (type(error).__name__, when)))
    text = f"{kind}: {error}" if str(error) else kind
    wrong = getattr(error, "name", None)
    if not isinstance(error, AttributeError) or wrong is None or not text.endswith(repr(wrong)):  # it has a remedy
        return text
    return text + did_you_mean(wrong, [name for name in dir(error.obj) if not name.startswith("_")])


class Definition(NamedTuple):
    """Where a function begins: what is quickly taken, and can be pickled. As text it is `my_ops.py:14`."""

    module: str = ""
    path: str = ""
    line: int = 0

    @classmethod
    def of(cls, function: Callable[..., Any]) -> Definition:
        """Find the definition of a function, beneath its decorators; None for a function without Python code."""
        plain = inspect.unwrap(function)
        code = getattr(plain, "__code__", None)
        if code is None:
            return cls()
        return cls(str(getattr(plain, "__globals__", {}).get("__name__", "")), code.co_filename, code.co_firstlineno)

    @property
    def file(self) -> str:
        """A user's file: from the current folder, or its name alone where it is elsewhere; empty for all others."""
        if not self._is_users or self.path.startswith("<"):
            return ""
        short = _short(self.path)
        return os.path.basename(short) if os.path.isabs(short) else short

    def __str__(self) -> str:
        """Empty for the functions of others than users."""
        return f"{_short(self.path)}:{self.line}" if self._is_users else ""

    @property
    def _is_users(self) -> bool:
        return bool(self.path) and _is_users(self.module, self.path)


def definition_of(function: Callable[..., Any]) -> str:
    """File and line where a user's function begins; empty for the functions of others."""
    return str(Definition.of(function))


def users_level() -> int:
    """The `stacklevel` with which `warnings.warn` names the user's line that the calling function was reached from; 1,
    its own line, where there is none."""
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
    """Shorten a path to one from the current folder where the file is in there; editors and terminals open both."""
    try:
        relative = os.path.relpath(path)
    except (OSError, ValueError):  # the folder is gone, or on another drive
        return path
    return path if path.startswith("<") or relative.startswith(os.pardir) else relative
