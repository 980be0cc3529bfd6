"""How the loops of a stage run: vectorize, parallel, unroll, pragma."""

from __future__ import annotations

from typing import Any

from pegbox.compute.tensor import IterVar
from pegbox.errors import ScheduleError
from pegbox.loops.nodes import ForKind
from pegbox.schedule.primitives.kinds import pragma_value
from pegbox.schedule.stage_base import StageBase

# Pragmas that are primitives under another name.
_KINDS = {"unroll": ForKind.UNROLLED, "vectorize": ForKind.VECTORIZED, "parallel": ForKind.PARALLEL}
_HINTS = ("auto_unroll_max_step", "unroll_explicit")
# How threads share a loop: here always in equal parts, each loop a region of its own with a barrier at its end.
_NO_EFFECT = ("parallel_launch_point", "parallel_stride_pattern", "parallel_barrier_when_finish")
_REFUSED = {
    "debug_skip_region": "a program that leaves a part out computes something else; leave the stage out of the graph",
    "import_c": "C source comes with the intrinsic that calls it; use te.decl_tensor_intrin and tensorize",
    "import_llvm": "LLVM code comes with the intrinsic that calls it; use te.decl_tensor_intrin and tensorize",
}


class KindMethods(StageBase):
    """Kinds of loops and hints on them."""

    def vectorize(self, loop: IterVar) -> None:
        """Run the iterations of a loop as the lanes of vectors.

        Before `vectorize(j)`::

            for j in range(16):
                B[j] = A[j] + 1.0

        After::

            for j in vectorized range(16):
                B[j] = A[j] + 1.0

        Raises:
            ScheduleError: not a loop of this stage; when lowered: two lanes would write one element.
        """
        self._annotate(loop, ForKind.VECTORIZED, "vectorize")

    def unroll(self, loop: IterVar) -> None:
        """Write the iterations of a loop out.

        Raises:
            ScheduleError: not a loop of this stage.
        """
        self._annotate(loop, ForKind.UNROLLED, "unroll")

    def parallel(self, loop: IterVar) -> None:
        """Share the iterations of a loop among threads.

        Raises:
            ScheduleError: not a loop of this stage; when lowered: two iterations would write one element.
        """
        self._annotate(loop, ForKind.PARALLEL, "parallel")

    def _annotate(self, loop: IterVar, kind: ForKind, what: str) -> None:
        self._position(loop, what)
        self.kinds[loop] = kind

    def pragma(self, loop: IterVar, name: str, value: Any = True) -> None:
        """Attach a hint to a loop, for everything below it.

        - `auto_unroll_max_step` (steps): unroll inner loops whose statements, written out, are at most that many;
        - `unroll_explicit` (bool): pegbox unrolls itself, or leaves it to LLVM;
        - `unroll`, `vectorize`, `parallel`: the primitives of these names;
        - `parallel_launch_point`, `parallel_stride_pattern`, `parallel_barrier_when_finish`: accepted, without effect.

        Raises:
            ScheduleError: an unknown pragma, one that has no meaning here, a wrong value, or not a loop of this stage.
        """
        self._position(loop, f"pragma {name}")
        if name in _REFUSED:
            raise ScheduleError(f"pragma {name!r} on {loop.name} of {self.op.name} is not supported: {_REFUSED[name]}")
        if name in _KINDS:
            if value is False:
                raise ScheduleError(f"pragma {name}: False on {loop.name} of {self.op.name}; leave it out instead")
            self.kinds[loop] = _KINDS[name]
        elif name in _HINTS:
            self.pragmas.setdefault(loop, {})[name] = pragma_value(name, value)
        elif name not in _NO_EFFECT:
            raise ScheduleError(
                f"unknown pragma {name!r} on {loop.name} of {self.op.name}; "
                f"use one of {', '.join((*_HINTS, *_KINDS, *_NO_EFFECT))}"
            )
