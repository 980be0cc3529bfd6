"""What every family of primitives stands on: the current program, look-ups in it, and the recording of steps."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import wraps
from typing import Any, TypeVar, cast

from pegbox.compute.tensor import Tensor
from pegbox.errors import ScheduleError
from pegbox.expr.nodes import Var
from pegbox.loops.from_compute import function_from_tensors
from pegbox.loops.nodes import BlockRealize, For, Function, Seq, Stmt
from pegbox.schedule.handles import BlockRef, LoopRef
from pegbox.schedule.outline import refuse
from pegbox.schedule.trace import LoopAt, Step, Trace, plain
from pegbox.schedule.tree import Tree

_Method = TypeVar("_Method", bound=Callable[..., Any])

_PRIMITIVES: set[str] = set()


def primitive(method: _Method) -> _Method:
    """Record calls of this method in the trace, once they succeeded.

    Primitives that call other primitives are not decorated: their parts are recorded.
    """
    name = method.__name__
    _PRIMITIVES.add(name)

    @wraps(method)
    def recorded(self: ScheduleBase, *args: Any, **options: Any) -> Any:
        # Loops are told by their place before the step: afterwards they may be gone.
        place: dict[LoopRef, LoopAt] = {}
        for value in (*args, *options.values()):
            for each in value if isinstance(value, tuple | list) else (value,):
                if isinstance(each, LoopRef):
                    place[each] = self._place(each)
        result = method(self, *args, **options)
        kept = tuple((k, plain(v, place)) for k, v in options.items() if v is not None)
        self._steps.append(Step(name, tuple(plain(a, place) for a in args), kept))
        return result

    return cast("_Method", recorded)


class ScheduleBase:
    """The current program and the steps that led to it."""

    def __init__(self, func: Function | Sequence[Tensor]) -> None:
        """Start from a function, or from tensors: the parameters in call order, inputs and outputs."""
        self._func = func if isinstance(func, Function) else function_from_tensors(func)
        self._index: Tree | None = None
        self._steps: list[Step] = []

    @property
    def func(self) -> Function:
        """The program as it is now."""
        return self._func

    @property
    def trace(self) -> Trace:
        """What was done so far."""
        return Trace(tuple(self._steps))

    @property
    def tree(self) -> Tree:
        """The index of the program as it is now."""
        if self._index is None:
            self._index = Tree(self._func)
        return self._index

    @staticmethod
    def primitives() -> frozenset[str]:
        """The names of all primitives that a trace may hold."""
        return frozenset(_PRIMITIVES)

    def get_block(self, name: str) -> BlockRef:
        """The block of that name.

        Raises:
            ScheduleError: the program has none.
        """
        self._block(name)
        return BlockRef(name)

    def get_blocks(self) -> tuple[BlockRef, ...]:
        """Every block, in program order."""
        return tuple(map(BlockRef, self.tree.blocks))

    def get_loops(self, block: BlockRef | str) -> tuple[LoopRef, ...]:
        """The loops around a block, outermost first."""
        return tuple(LoopRef(loop.var) for loop in self.tree.ancestors(self._block(block)))

    def get_loop(self, block: BlockRef | str, depth: int) -> LoopRef:
        """The `depth`-th loop around a block, 0 the outermost.

        Raises:
            ScheduleError: the block has fewer loops.
        """
        loops = self.get_loops(block)
        if not 0 <= depth < len(loops):
            name = self._block(block).block.name
            raise refuse(
                self.tree, f"block {name} has {len(loops)} loop(s), so no loop {depth}", "count from 0, outermost", name
            )
        return loops[depth]

    def get_child_blocks(self, loop: LoopRef) -> tuple[BlockRef, ...]:
        """The blocks below a loop, in program order."""
        top = self._loop(loop)
        return tuple(BlockRef(n) for n, r in self.tree.blocks.items() if self.tree.is_under(r, top))

    def get_producers(self, block: BlockRef | str) -> tuple[BlockRef, ...]:
        """The blocks that write what this one reads."""
        reads = {region.buffer for region in self._block(block).block.reads}
        return self._touching(lambda r: any(w.buffer in reads for w in r.block.writes), block)

    def get_consumers(self, block: BlockRef | str) -> tuple[BlockRef, ...]:
        """The blocks that read what this one writes."""
        writes = {region.buffer for region in self._block(block).block.writes}
        return self._touching(lambda r: any(x.buffer in writes for x in r.block.reads), block)

    def extent(self, loop: LoopRef) -> int:
        """The number of iterations of a loop."""
        return self._loop(loop).extent

    def show(self) -> None:
        """Print the program."""
        print(self._func, end="")

    def __str__(self) -> str:
        return str(self._func)

    def _touching(self, test: Callable[[BlockRealize], bool], own: BlockRef | str) -> tuple[BlockRef, ...]:
        this = self._block(own)
        return tuple(BlockRef(n) for n, r in self.tree.blocks.items() if r is not this and test(r))

    def _block(self, block: BlockRef | str) -> BlockRealize:
        name = block.name if isinstance(block, BlockRef) else block
        found = self.tree.blocks.get(name) if isinstance(name, str) else None
        if found is None:
            raise ScheduleError(f"no block is called {name!r}; the program has {', '.join(self.tree.blocks)}")
        return found

    def _loop(self, loop: LoopRef) -> For:
        if not isinstance(loop, LoopRef):
            raise ScheduleError(
                f"{loop!r} is no loop; take one from get_loops(block) or from what a primitive returned"
            )
        found = self.tree.loops.get(loop.var)
        if found is None:
            raise refuse(
                self.tree,
                f"loop {loop.name} is not in the program (any more): a primitive replaced it",
                "use the loops that the primitive returned, or ask get_loops(block) again",
            )
        return found

    def _loops(self, loops: Iterable[LoopRef]) -> list[For]:
        found = [self._loop(loop) for loop in loops]
        variables: set[Var] = set()
        for loop in found:
            if loop.var in variables:
                raise ScheduleError(f"loop {loop.var.name} is given twice; give each loop once")
            variables.add(loop.var)
        return found

    def _place(self, loop: LoopRef) -> LoopAt:
        node: Stmt = self._loop(loop)
        depth = len(self.tree.ancestors(node))
        while not isinstance(node, BlockRealize):
            if isinstance(node, For):
                node = node.body
            elif isinstance(node, Seq):
                node = node.stmts[0]
            else:
                raise ScheduleError(f"loop {loop.name} stands around a {type(node).__name__}; schedule before lowering")
        return LoopAt(node.block.name, depth)

    def _set(self, changed: Function | Tree) -> None:
        """Take over a changed program, with its index where the primitive needed one."""
        self._func = changed if isinstance(changed, Function) else changed.func
        self._index = None if isinstance(changed, Function) else changed
