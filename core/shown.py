"""Text for people: without the characters that control a terminal, and long values without their middle."""

from __future__ import annotations

import re
from typing import Any

# C0, DEL and C1; the marks, embeddings, overrides and isolates of bidirectional text; Unicode's separators of lines.
_CONTROLS = "[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]"

_LONGEST, _END = 1000, 100  # characters shown of a value, and how many of them are its last


def escaped(text: str, *, kept: str = "") -> str:
    r"""Write control characters as \uXXXX, as JSON does, except those in `kept`."""
    return re.sub(_CONTROLS, lambda found: found[0] if found[0] in kept else f"\\u{ord(found[0]):04x}", text)


def value_text(value: object) -> str:
    """Write a value for a message: its repr, shortened in the middle, or its type if the repr fails.

    Lists that are nested too deep and integers of thousands of digits have no repr.
    """
    try:
        text = repr(value)
    except Exception:
        return f"<{type(value).__name__}>"
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - _END]}...{text[-_END:]}"


class EscapedStream:
    """A stream of text that shows control characters, other than line ends and tabs, instead of obeying them."""

    def __init__(self, stream: Any) -> None:
        self.obeying = stream
        """The underlying stream, for drawing on a terminal."""

    def write(self, text: str) -> int:
        self.obeying.write(escaped(text, kept="\n\t"))
        return len(text)

    def writelines(self, lines: Any) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.obeying, name)
