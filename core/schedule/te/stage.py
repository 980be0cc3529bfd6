"""A stage of a TE schedule: one operation, the relations its loops are to have, and where it is computed.

The methods are in one module a family (`stage_loops`, `stage_kinds`, `stage_attach` ...), on top of `stage_base`.
"""

from __future__ import annotations

from pegbox.schedule.te.stage_attach import AttachMethods
from pegbox.schedule.te.stage_base import At as At
from pegbox.schedule.te.stage_base import FuseRelation as FuseRelation
from pegbox.schedule.te.stage_base import Inline as Inline
from pegbox.schedule.te.stage_base import Relation as Relation
from pegbox.schedule.te.stage_base import Root as Root
from pegbox.schedule.te.stage_base import SplitRelation as SplitRelation
from pegbox.schedule.te.stage_kinds import KindMethods
from pegbox.schedule.te.stage_loops import LoopMethods
from pegbox.schedule.te.stage_storage import StorageMethods
from pegbox.schedule.te.stage_tensorize import TensorizeMethods
from pegbox.schedule.te.stage_threads import ThreadMethods


class Stage(LoopMethods, KindMethods, TensorizeMethods, ThreadMethods, AttachMethods, StorageMethods):
    """The schedule of one operation; `leaf_iter_vars` are its loops, outermost first.

    >>> outer, inner = s[C].split(s[C].op.axis[0], factor=4)
    >>> s[C].vectorize(inner)
    >>> s[B].compute_at(s[C], outer)
    """
