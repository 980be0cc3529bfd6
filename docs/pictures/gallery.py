"""The pictures of the documentation: draw them all, or those that are named.

    python3 docs/pictures/gallery.py                 # all; takes a minute, because `report` compares tuners
    python3 docs/pictures/gallery.py split tile      # these

They are kept as SVG beside this script. Those of `LOOPS` are the same on every machine, and a test compares them.
`MEASURED` come from simulated searches on a recorded space; libraries that tuners use may differ in a last digit.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import loop_pictures as loops
import search_pictures as searches

HERE = Path(__file__).resolve().parent
Drawing = Callable[[], str]

LOOPS: dict[str, Drawing] = {
    "split": loops.split,
    "reorder": loops.reorder,
    "tile": loops.tile,
    "compute_at": loops.compute_at,
    "panels": loops.panels,
}
MEASURED: dict[str, Drawing] = {"search": searches.search, "report": searches.report}


def main(names: list[str]) -> int:
    known = LOOPS | MEASURED
    for name in names or known:
        if name not in known:
            raise SystemExit(f"there is no picture {name!r}; there are {', '.join(known)}")
        path = HERE / f"{name}.svg"
        path.write_text(known[name](), encoding="utf-8")
        print(f"{path.name}: {path.stat().st_size / 1e3:.1f} kB")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
