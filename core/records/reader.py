"""The protocol of readers of other tools' results (plugin kind "results_reader")."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from pegbox.errors import PluginError
from pegbox.hooks import registry
from pegbox.records.journal import RecordWarning

if TYPE_CHECKING:
    from pegbox.records.recorded_space import RecordedSpace


class ResultsReader(Protocol):
    """Reads the files of another tool. A factory `factory()` makes one."""

    def accepts(self, path: Path, /) -> bool:
        """Decide whether the file is one of that tool's."""

    def read(self, path: Path, /, *, objective: str | None = None) -> RecordedSpace:
        """The file as a recorded space; `objective` is what tuners minimise, the time by default.

        Raises `RecordError` for a file that cannot be read, or has no such objective.
        """


def reader_of(path: Path) -> ResultsReader | None:
    """The reader that accepts the file; None for records of pegbox, as any .jsonl file is.

    The built-in reader is asked last: it accepts every JSON document, to say what is wrong with it.
    """
    if ".jsonl" in path.suffixes:
        return None
    for claim in sorted(registry.claims("results_reader"), key=lambda claim: claim.owner.endswith("(built in)")):
        try:
            reader: ResultsReader = registry.get("results_reader", claim.name)()
        except PluginError as error:
            warnings.warn(f"{error}; read without it", RecordWarning, stacklevel=3)
            continue
        if reader.accepts(path):
            return reader
    return None
