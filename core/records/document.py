"""JSON of unknown origin, limited to what Python can hold, print and write again."""

from __future__ import annotations

import json
from typing import Any

from pegbox.checks import check_text
from pegbox.errors import RecordError

DEEPEST = 100
"""Levels of lists and objects in each other. What walks over them calls itself, and Python allows a thousand calls."""


class NotJson(RecordError):
    """The text is not a JSON document: it is damaged, or was cut short."""


def read_document(text: str) -> Any:
    """The value of a JSON text.

    Raises:
        NotJson: it is none.
        RecordError: it nests too deeply, or holds a number or a character that Python cannot handle.
    """
    check_text("a line of JSON", text, error=RecordError)
    try:
        value = json.loads(text)
        if "\\u" in text:
            json.dumps(value, ensure_ascii=False).encode()
    except json.JSONDecodeError as error:
        raise NotJson(str(error)) from None
    except UnicodeEncodeError:
        raise RecordError("it holds half of a character: an unpaired surrogate") from None
    except RecursionError:
        raise _too_deep() from None
    except ValueError as error:  # an integer of more digits than Python converts
        raise RecordError(f"it holds a number that cannot be read: {error}") from None
    if text.count("[") + text.count("{") > DEEPEST and _depth(value) > DEEPEST:
        raise _too_deep()
    return value


def _too_deep() -> RecordError:
    return RecordError(f"it nests more than {DEEPEST} levels deep")


def _depth(value: Any) -> int:
    """Count the levels of lists and objects in a value, up to one too many."""
    level, depth = [value], 0
    while depth <= DEEPEST and (level := [item for item in level if isinstance(item, list | dict) and item]):
        level = [inner for item in level for inner in (item.values() if isinstance(item, dict) else item)]
        depth += 1
    return depth
