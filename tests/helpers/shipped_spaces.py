"""The recorded spaces that come with pegbox, each read once."""

from __future__ import annotations

import functools

import pegbox as pb
from pegbox.records.recorded_space import RecordedSpace


@functools.cache
def shipped_space(name: str) -> RecordedSpace:
    """To read: it is the same for all tests, since counting the configurations of one takes half a second."""
    return pb.recorded_space(name)
