"""The rewrite of reverse_compute_at, also used by caches, which moves a block below a loop of its producer."""

from __future__ import annotations

from pegbox.errors import ScheduleError
from pegbox.expr.affine import Linear, constant, linear
from pegbox.expr.equal import same
from pegbox.expr.nodes import Buffer, Expr, Var
from pegbox.loops.access.interval import SymbolicInterval
from pegbox.loops.access.written_box import Box
from pegbox.loops.nodes import BlockIter, BlockRealize, For
from pegbox.schedule.analysis import read_buffers, reduce_values, variables, written_buffers
from pegbox.schedule.analysis.checks import check_no_lanes, check_only_writer
from pegbox.schedule.analysis.region_cover import misses_reads, written_box
from pegbox.schedule.analysis.required_region import Span, span
from pegbox.schedule.rewrites.placement import MOVE_FIRST, first_position, moved, nest, rank
from pegbox.schedule.tree import Tree


class Move:
    """A reverse_compute_at: the block `realize` goes below `loop`."""

    def __init__(self, tree: Tree, realize: BlockRealize, loop: For) -> None:
        self.tree = tree
        self.realize = realize
        self.loop = loop
        self.name = realize.block.name
        self.fixed = {x.var for x in (*tree.ancestors(loop), loop)}
        self.conditions: list[Expr] = []  # where they fail, the producers compute nothing
        reads = read_buffers(realize.block)
        self.producers = [w for b in reads for w in tree.writers(b) if tree.is_under(w, loop)]

    def done(self, index: int = -2, *, unit_loops: bool = True, is_copy: bool = False) -> Tree:
        """Return the program with the block at its new place.

        Args:
            is_copy: True if the block copies a buffer; then it need not copy elements that are never written.

        Raises:
            ScheduleError: the block cannot be computed there.
        """
        tree, loop = self.tree, self.loop
        check_no_lanes(tree, loop, MOVE_FIRST, self.name)
        self._check_producers()
        spans = self._spans()
        if not is_copy:
            self._check_all_made()
        rest = Tree(tree.replace(self.realize, None))
        target = rest.loops[loop.var]
        self._check_consumers(rest, target, first_position(rest, target, self.realize.block))
        new = nest(self.realize.block, spans, self.conditions, unit_loops=unit_loops)
        producers = {p.block.name for p in self.producers}
        return moved(tree, rest, self.realize, loop, new, index, apart_from=producers)

    def _refuse(self, problem: str, remedy: str, *marked: Var | str) -> ScheduleError:
        return ScheduleError(problem, remedy, self.loop.var, self.name, *marked)

    def _check_producers(self) -> None:
        if not self.producers:
            raise self._refuse(
                f"{self.name} reads nothing that is made inside {self.loop.var.name}",
                "give a loop around a producer of the block",
            )
        outer = {x.var for x in (*self.tree.ancestors(self.loop), self.loop) if x.extent > 1}
        for producer in self.producers:
            partial = variables(reduce_values(producer)) & outer
            if partial:
                names = ", ".join(sorted(v.name for v in partial))
                raise self._refuse(
                    f"the results of {producer.block.name} are partial there: its reduce loop(s) {names} are not "
                    f"inside {self.loop.var.name}",
                    "reorder the reduce loops inside that loop, or move to a loop further out",
                    producer.block.name,
                    *partial,
                )
        for buffer in read_buffers(self.realize.block):
            self._check_parts(buffer)
        remedy = "reverse_compute_at first, decompose_reduction after"
        check_only_writer(self.tree, self.realize, written_buffers(self.realize.block), remedy, self.loop.var)

    def _check_parts(self, buffer: Buffer) -> None:
        """Refuse a buffer whose parts are computed in several places, not counting the block that initializes it."""
        here = [w for w in self.producers if any(x.buffer is buffer for x in w.block.writes)]
        goes_on = all(w.block.is_reduction and w.block.init is None for w in here)
        for writer in self.tree.writers(buffer) if here else ():
            if not any(writer is w for w in here) and not (goes_on and not writer.block.is_reduction):
                raise self._refuse(
                    f"{writer.block.name}, which is not inside {self.loop.var.name}, makes a part of {buffer.name}",
                    "move it to a loop around all of its producers",
                    writer.block.name,
                )

    def _check_consumers(self, rest: Tree, target: For, position: int) -> None:
        ranks = {block: n for n, block in enumerate(rest.blocks)}
        place = rank(rest, target, position, ranks)
        for buffer in written_buffers(self.realize.block):
            for reader in rest.readers(buffer):
                if ranks[reader.block.name] < place:
                    raise self._refuse(
                        f"{reader.block.name} reads {buffer.name} but runs earlier than that",
                        "move the consumer first",
                        reader.block.name,
                    )

    def _spans(self) -> dict[Var, Span]:
        """Compute the values that are ready for each variable of the block that indexes a buffer computed here."""
        iters = {it.var: it for it in self.realize.block.iters}
        found: dict[Var, SymbolicInterval] = {}
        moving: list[set[Var]] = []
        for region in self.realize.block.reads:
            producers = [p for p in self.producers if any(w.buffer is region.buffer for w in p.block.writes)]
            for written in self._boxes(producers, region.buffer):
                for dim, (lo, count) in enumerate(region.box):
                    if count != 1:
                        raise self._other_iterations(region.buffer)
                    self._match(linear(lo), written.intervals[dim], region.buffer, dim, iters, found)
            if producers:
                indices = variables(lo for lo, _ in region.box)
                moving.append({var for var in indices if var in found and not found[var].covers(iters[var].extent)})
        self._check_together(moving)
        for it in iters.values():
            if it.is_reduce and it.var in found and not found[it.var].covers(it.extent):
                raise self._refuse(
                    f"{self.name} reduces over {it.var.name}, of which only a part is ready there",
                    "move it to a loop further out",
                )
        return {var: span(i, iters[var].extent, self.tree.ranges, most=True) for var, i in found.items()}

    def _check_together(self, moving: list[set[Var]]) -> None:
        """Check that values that become ready piece by piece do so together; otherwise some combinations never meet.

        Of A[vi] * A[vj] each iteration would compute the element (i, i) only.
        """
        together = max(moving, key=len, default=set())
        for others in moving:
            if not others <= together:
                names = " and ".join(sorted(v.name for v in others ^ together))
                raise self._refuse(
                    f"{self.name} needs all combinations of {names}, but an iteration of {self.loop.var.name} "
                    "completes only some of them",
                    "move it to a loop further out",
                )

    def _match(
        self,
        wanted: Linear,
        written: SymbolicInterval,
        buffer: Buffer,
        dim: int,
        iters: dict[Var, BlockIter],
        found: dict[Var, SymbolicInterval],
    ) -> None:
        """Match the index `wanted` in a dimension of the buffer with the interval `made` that is ready there."""
        if wanted.is_const:
            if not (written.lo.is_const and written.lo.const <= wanted.const <= written.lo.const + written.width):
                raise self._other_iterations(buffer)
            return
        ((term, coefficient), *more) = wanted.terms.items()
        if more or coefficient != 1 or not isinstance(term, Var) or term not in iters:
            raise self._other_iterations(buffer)
        last = iters[term].extent - 1 + wanted.const
        if wanted.const < 0 or last >= buffer.shape[dim]:
            raise self._refuse(
                f"{self.name} reads {buffer.name} from {wanted.const} to {last} in dimension {dim}, partly beyond its "
                f"extent {buffer.shape[dim]}: some of its iterations belong to no iteration of {self.loop.var.name}",
                "leave it where it is, or inline the padding",
            )
        shifted = SymbolicInterval(written.lo.add(constant(-wanted.const)), written.width)
        known = found.setdefault(term, shifted)
        if known.width != shifted.width or known.lo.minus(shifted.lo) != constant(0):
            raise self._other_iterations(buffer)

    def _check_all_made(self) -> None:
        """Check that the whole loop computes all elements that the block reads: its other iterations would be lost."""
        for producer in self.producers:
            for buffer in read_buffers(self.realize.block):
                made_here = buffer in written_buffers(producer.block)
                if made_here and misses_reads(self.tree, producer, buffer, self.realize):
                    raise self._refuse(
                        f"{self.name} may read elements of {buffer.name} that {producer.block.name} never makes: its "
                        f"iterations there belong to no iteration of {self.loop.var.name}",
                        "leave it where it is, or move the producer with compute_at instead",
                        producer.block.name,
                    )

    def _other_iterations(self, buffer: Buffer) -> ScheduleError:
        return self._refuse(
            f"{self.name} needs elements of {buffer.name} that other iterations of {self.loop.var.name} make",
            "move it to a loop further out, or move the producer with compute_at instead",
        )

    def _boxes(self, producers: list[BlockRealize], buffer: Buffer) -> list[Box]:
        """List the boxes that producers compute in one iteration of the loop, and note the conditions for them.

        The conditions of one producer must be implied by those of all others.
        """
        boxes: list[Box] = []
        for producer in producers:
            written = written_box(self.tree, producer, buffer, self.fixed)
            if written is None:
                raise self._no_box(producer, buffer)
            boxes.append(written)
        weakest = next((own for own in boxes if all(_has(box, c) for box in boxes for c in own.conditions)), None)
        if weakest is not None:
            self.conditions += weakest.conditions
        elif producers:
            raise self._no_box(producers[0], buffer)
        return boxes

    def _no_box(self, producer: BlockRealize, buffer: Buffer) -> ScheduleError:
        return self._refuse(
            f"what {producer.block.name} makes of {buffer.name} in one iteration of {self.loop.var.name} is not a box",
            "move it to a loop further out, or split by factors that divide",
            producer.block.name,
        )


def _has(box: Box, condition: Expr) -> bool:
    return any(same(condition, other) for other in box.conditions)
