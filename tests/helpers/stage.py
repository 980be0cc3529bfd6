"""Which run of `.ci/run` this is.

The first, which is also everybody's own, takes a part of what is sampled at random; the second, for another target and
with LLVM's optimizer, takes the rest, or all.
"""

from __future__ import annotations

import os

SECOND = os.environ.get("PEGBOX_OPTIMIZE") == "1"
