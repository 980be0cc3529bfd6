"""Calls of factories that plugins give: what these raise names the plugin and the line."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pegbox.errors import PegboxError, PluginError
from pegbox.origin import explained, located


def construct(owner: str, factory: Callable[..., Any], /, *args: Any, **options: Any) -> Any:
    """Call the factory and return the object. `owner` begins the message of an error, e.g. "tuner 'xgb'".

    Raises `PluginError`, with the line of a user's code, for whatever the factory raises but pegbox's own errors.
    """
    try:
        return factory(*args, **options)
    except PegboxError as error:
        located(error)
        raise
    except (Exception, SystemExit) as error:
        raise located(PluginError(f"{owner} raised {explained(error, 'when it was made')}"), error) from error
