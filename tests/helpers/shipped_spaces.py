"""The recorded spaces that come with pegbox, each read once."""

from __future__ import annotations

import functools

import pegbox as pb
from pegbox.records.recorded_space import RecordedSpace


@functools.cache
def shipped_space(name: str) -> RecordedSpace:
    """Return a space to be read only: all tests share it, since counting its configurations takes half a second."""
    return pb.recorded_space(name)
