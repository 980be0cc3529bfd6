"""Notices to people whose script says what means nothing here: once each, then the script goes on."""

from __future__ import annotations

import warnings

from pegbox.origin import users_level

_said: set[str] = set()


class MeaninglessOption(UserWarning):
    """An option or a call of TVM's that changes nothing in pegbox."""


def means_nothing(what: str, why: str) -> None:
    """Warn that `what` changes nothing here, the first time that it is met."""
    if what not in _said:
        _said.add(what)
        warnings.warn(f"{what} changes nothing in pegbox: {why}", MeaninglessOption, stacklevel=users_level())
