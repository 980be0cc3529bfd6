"""`Stage`: one operation of a TE schedule.

The methods are functions, a module for each family (`stage_loops`, `stage_kinds` ...), which also has their replays.
"""

from __future__ import annotations

from pegbox.schedule.te import stage_attach, stage_kinds, stage_loops, stage_storage, stage_threads
from pegbox.schedule.te.stage_base import At as At
from pegbox.schedule.te.stage_base import Inline as Inline
from pegbox.schedule.te.stage_base import Root as Root
from pegbox.schedule.te.stage_base import StageBase


class Stage(StageBase):
    """The schedule of one operation; `leaf_iter_vars` are its loops, outermost first.

    >>> outer, inner = s[C].split(s[C].op.axis[0], factor=4)
    >>> s[C].vectorize(inner)
    >>> s[B].compute_at(s[C], outer)
    """

    # Loops become other loops
    split = stage_loops.split
    fuse = stage_loops.fuse
    reorder = stage_loops.reorder
    tile = stage_loops.tile
    merge = stage_loops.merge

    # How loops run, and hints
    vectorize = stage_kinds.vectorize
    unroll = stage_kinds.unroll
    parallel = stage_kinds.parallel
    pragma = stage_kinds.pragma
    prefetch = stage_kinds.prefetch
    tensorize = stage_kinds.tensorize
    bind = stage_threads.bind
    env_threads = stage_threads.env_threads
    set_store_predicate = stage_threads.set_store_predicate

    # Where the stage is computed, and where its values are kept
    compute_at = stage_attach.compute_at
    compute_inline = stage_attach.compute_inline
    compute_root = stage_attach.compute_root
    set_scope = stage_storage.set_scope
    storage_align = stage_storage.storage_align
    store_in = stage_storage.store_in
    double_buffer = stage_storage.double_buffer
    rolling_buffer = stage_storage.rolling_buffer
    transform_layout = stage_storage.transform_layout
