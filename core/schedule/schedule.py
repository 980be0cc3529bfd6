"""`Schedule`: a program and the primitives that change it step by step, without changing its result."""

from __future__ import annotations

from pegbox.schedule.primitives import (
    absent,
    blockize,
    buffer_storage,
    cache,
    compute_location,
    decompose_reduction,
    einsum,
    inline,
    kinds,
    layout,
    loops,
    merge,
    padding,
    reindex,
    reshape,
    rfactor,
    sampling,
    store_predicate,
    tensorize,
    threads,
)
from pegbox.schedule.state import lookup
from pegbox.schedule.state.handles import BlockRef as BlockRef
from pegbox.schedule.state.handles import LoopRef as LoopRef
from pegbox.schedule.state.recording import PRIMITIVES
from pegbox.schedule.state.schedule_state import ScheduleState


class Schedule(ScheduleState):
    """A program and the primitives on it.

    Each primitive checks, changes the program at once (`sch.func` is the new one; programs themselves are immutable),
    and is recorded in `sch.trace`. A step that would change the result is refused and leaves everything unchanged.

    >>> sch = Schedule([A, B, C])
    >>> i, j, k = sch.get_loops("C")
    >>> j_0, j_1 = sch.split(j, factor=16)
    >>> sch.reorder(i, j_0, k, j_1)
    >>> sch.vectorize(j_1)

    A `LoopRef` identifies a loop; a `BlockRef` or a name identifies a block. The primitives are functions in
    `primitives/`, one module for each family.
    """

    @staticmethod
    def primitives() -> frozenset[str]:
        """Return the names of all primitives that a trace may hold."""
        return frozenset(PRIMITIVES)

    # Look-ups, and the choice of the function
    work_on = lookup.work_on
    get_block = lookup.get_block
    get_blocks = lookup.get_blocks
    get = lookup.get
    get_loops = lookup.get_loops
    get_loop = lookup.get_loop
    get_child_blocks = lookup.get_child_blocks
    get_producers = lookup.get_producers
    get_consumers = lookup.get_consumers
    get_output_blocks = lookup.get_output_blocks
    extent = lookup.extent
    remove_rv = lookup.remove_rv

    # Transformations of loops
    split = loops.split
    fuse = loops.fuse
    reorder = loops.reorder
    tile = loops.tile
    add_unit_loop = reshape.add_unit_loop
    loop_partition = reshape.loop_partition
    merge = merge.merge
    reorder_block_iter_var = reshape.reorder_block_iter_var

    # Kinds of loops, and hints
    vectorize = kinds.vectorize
    parallel = kinds.parallel
    unroll = kinds.unroll
    annotate = kinds.annotate
    unannotate = kinds.unannotate
    pragma = kinds.pragma
    prefetch = kinds.prefetch
    bind = threads.bind
    env_threads = threads.env_threads
    set_store_predicate = store_predicate.set_store_predicate

    # Compute locations
    compute_at = compute_location.compute_at
    reverse_compute_at = compute_location.reverse_compute_at
    compute_inline = inline.compute_inline
    reverse_compute_inline = inline.reverse_compute_inline

    # Buffers: copies, scopes, layouts
    cache_read = cache.cache_read
    cache_write = cache.cache_write
    reindex_cache_read = reindex.reindex_cache_read
    reindex_cache_write = reindex.reindex_cache_write
    read_at = cache.read_at
    write_at = cache.write_at
    set_scope = buffer_storage.set_scope
    storage_align = buffer_storage.storage_align
    rolling_buffer = buffer_storage.rolling_buffer
    reindex = reindex.reindex
    transform_layout = layout.transform_layout
    transform_block_layout = layout.transform_block_layout
    set_axis_separator = layout.set_axis_separator
    pad_einsum = einsum.pad_einsum
    decompose_padding = padding.decompose_padding
    can_decompose_padding = padding.can_decompose_padding

    # Reductions
    decompose_reduction = decompose_reduction.decompose_reduction
    rfactor = rfactor.rfactor

    # Blocks of blocks, and tensor intrinsics
    blockize = blockize.blockize
    tensorize = tensorize.tensorize

    # Random decisions, which a trace records
    sample_perfect_tile = sampling.sample_perfect_tile
    sample_partitioned_tile = sampling.sample_partitioned_tile
    sample_categorical = sampling.sample_categorical
    sample_compute_location = sampling.sample_compute_location
    enter_postproc = sampling.enter_postproc

    # Primitives of TVM that are always refused, with the reason
    cache_inplace = absent.refusal("cache_inplace")
    cache_index = absent.refusal("cache_index")
    unsafe_set_dtype = absent.refusal("unsafe_set_dtype")
    unsafe_hide_buffer_access = absent.refusal("unsafe_hide_buffer_access")
    annotate_buffer_access = absent.refusal("annotate_buffer_access")
    get_sref = absent.refusal("get_sref")
