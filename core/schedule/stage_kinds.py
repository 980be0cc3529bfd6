"""How the loops of a stage run: vectorize, parallel, unroll, pragma."""

from __future__ import annotations

from typing import Any

from pegbox.compute.tensor import IterVar
from pegbox.errors import ScheduleError
from pegbox.loops.nodes import ForKind
from pegbox.schedule.primitives.kinds import pragma_value
from pegbox.schedule.stage_base import StageBase


class KindMethods(StageBase):
    """Kinds of loops and hints on them."""

    def vectorize(self, loop: IterVar) -> None:
        """Run the iterations of a loop as the lanes of vectors."""
        self._annotate(loop, ForKind.VECTORIZED, "vectorize")

    def unroll(self, loop: IterVar) -> None:
        """Write the iterations of a loop out."""
        self._annotate(loop, ForKind.UNROLLED, "unroll")

    def parallel(self, loop: IterVar) -> None:
        """Share the iterations of a loop among threads."""
        self._annotate(loop, ForKind.PARALLEL, "parallel")

    def _annotate(self, loop: IterVar, kind: ForKind, what: str) -> None:
        self._position(loop, what)
        self.kinds[loop] = kind

    def pragma(self, loop: IterVar, name: str, value: Any = True) -> None:
        """Attach a hint to a loop: `auto_unroll_max_step` (steps) or `unroll_explicit` (bool).

        Raises:
            ScheduleError: an unknown pragma or value, or not a loop of this stage.
        """
        self._position(loop, f"pragma {name}")
        if name not in ("auto_unroll_max_step", "unroll_explicit"):
            raise ScheduleError(
                f"pragma {name!r} on {loop.name} of {self.op.name}: use auto_unroll_max_step or unroll_explicit"
            )
        self.pragmas.setdefault(loop, {})[name] = pragma_value(name, value)
