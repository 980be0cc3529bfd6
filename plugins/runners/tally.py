"""`Tally`: how many candidates the searches of a cluster have measured on a worker."""

from __future__ import annotations

import os
import platform
import re
import threading
import uuid
from collections.abc import Mapping

_LATEST = 8
"""Searches that are told apart; earlier ones are counted together."""

EARLIER = "earlier ones"


def search_name() -> str:
    """A name for a search of this process, unlike all others."""
    return f"pegbox-{platform.node()}-{os.getpid()}-{uuid.uuid4().hex}"


def short_name(name: str) -> str:
    """Name the search for a person: by the machine and the process that run it."""
    found = re.fullmatch(r"pegbox-(.+)-(\d+)-[0-9a-f]{32}", name)
    return f"process {found[2]} on {found[1]}" if found else name


def by_process(counts: Mapping[str, int], *, most: int = 3) -> dict[str, int]:
    """Count the measurements of each process that searched, for a person; the latest ones separately."""
    found: dict[str, int] = {}
    for search, count in counts.items():
        name = short_name(search)
        found[name] = found.pop(name, 0) + count
    names = [name for name in found if name != EARLIER]
    early = sum(found.pop(name) for name in (EARLIER, *names[: max(0, len(names) - most)]) if name in found)
    return {EARLIER: early, **found} if early else found


class Tally:
    """Candidates by search, in the order of the searches' first ones; may be used by several threads."""

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}
        self._lock = threading.Lock()

    def add(self, search: str) -> None:
        """One more was measured for a search."""
        with self._lock:
            self._counts[search] = self._counts.get(search, 0) + 1
            searches = [name for name in self._counts if name != EARLIER]
            if len(searches) > _LATEST:
                old = self._counts.pop(searches[0])
                self._counts = {EARLIER: self._counts.pop(EARLIER, 0) + old, **self._counts}

    @property
    def counts(self) -> Mapping[str, int]:
        """The number of measurements of each search."""
        with self._lock:
            return dict(self._counts)
