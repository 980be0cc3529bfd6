"""A reader of another tool's results: files of lines `x cost`."""

from __future__ import annotations

from pathlib import Path

from pegbox.errors import RecordError
from pegbox.measure import Ok
from pegbox.records import RecordedSpace, read_unpacked
from pegbox.space import ConfigSpace


class LinesReader:
    """Reads files that end in .acme."""

    def accepts(self, path: Path, /) -> bool:
        return path.suffix == ".acme"

    def read(self, path: Path, /, *, objective: str | None = None) -> RecordedSpace:
        lines = [line.split() for line in read_unpacked(path, "results").decode().splitlines()]
        try:
            costs = {int(x): float(cost) for x, cost in lines}
        except ValueError as error:
            raise RecordError(f"{str(path)!r}: {error}; write a number and a cost on each line") from error
        space = ConfigSpace()
        space.define_knob("x", sorted(costs))
        results = {config: Ok((costs[config["x"].val],)) for config in space.iterate()}
        return RecordedSpace(path.stem, space, results)
