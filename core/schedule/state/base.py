"""What every family of primitives stands on: the current program, look-ups in it, and the recording of steps."""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set
from random import Random
from typing import Any

from pegbox.compute.tensor import Tensor
from pegbox.errors import ScheduleError
from pegbox.expr.nodes import Var
from pegbox.loops.from_compute import function_from_tensors
from pegbox.loops.module import IRModule
from pegbox.loops.nodes import Alloc, BlockRealize, For, Function, If, Seq, Stmt
from pegbox.schedule.analysis.legality import UNRESTRICTED, Legality, legality
from pegbox.schedule.errors import refuse
from pegbox.schedule.state.block_scope import BlockScope, Path, common_path
from pegbox.schedule.state.handles import BlockRef, LoopRef, SampledInt, SampledLoop, handles
from pegbox.schedule.state.recording import PRIMITIVES, given, lookup, primitive
from pegbox.schedule.state.trace import Drawn, LoopAt, Step, Trace, frozen
from pegbox.schedule.tree import Tree, blocks_below


class ScheduleBase:
    """The current program and the steps that led to it."""

    def __init__(
        self,
        mod: IRModule | Function | Sequence[Tensor],
        *,
        seed: int | None = None,
        debug_mask: object = None,
        error_render_level: object = None,
    ) -> None:
        """Start from a module, a function, or tensors: the parameters in call order, inputs and outputs.

        Args:
            seed: of the random decisions of `sample_*`; without one they differ from run to run.
            debug_mask, error_render_level: as TVM takes them; they change nothing.

        Raises:
            ScheduleError: `mod` is none of those.
        """
        self._module, self._name = _start(mod)
        self._func = self._module[self._name] if self._name is not None else None
        self._index: Tree | None = None
        self._steps: list[Step] = []
        self._amended: dict[str, Any] = {}
        self._draws: dict[object, int] = {}
        self._seed = seed
        self._random: Random | None = None
        self._origins = dict(self._module.functions)
        computed = not isinstance(mod, IRModule | Function)
        self._legality: dict[str, Legality] = dict.fromkeys(self._origins, UNRESTRICTED) if computed else {}

    @property
    def func(self) -> Function:
        """The program as it is now: the function that the schedule works on.

        Raises:
            ScheduleError: the module has several functions, none of them called "main", and `work_on` chose none.
        """
        if self._func is None:
            raise ScheduleError(
                f"the module has several functions, {', '.join(self._module)}",
                "say with work_on(name) which to schedule",
            )
        return self._func

    @property
    def mod(self) -> IRModule:
        """The module as it is now."""
        return self._module if self._func is None else self._module.with_function(self._func)

    @property
    def trace(self) -> Trace:
        """What was done so far."""
        return Trace(tuple(self._steps))

    @property
    def tree(self) -> Tree:
        """The index of the program as it is now."""
        if self._index is None:
            self._index = Tree(self.func)
        return self._index

    @staticmethod
    def primitives() -> frozenset[str]:
        """The names of all primitives that a trace may hold."""
        return frozenset(PRIMITIVES)

    @primitive(any_block=True)
    def work_on(self, func_name: str) -> None:
        """Choose the function of the module that is scheduled from now on. The others keep what was done to them.

        Raises:
            ScheduleError: the module has no function of that name.
        """
        if func_name not in self._module.functions:
            raise ScheduleError(f"the module has no function {func_name!r}", f"it has {', '.join(self._module)}")
        self._module, self._name = self.mod, func_name
        self._func = self._module[func_name]
        self._index = None

    def seed(self, seed: int) -> None:
        """Let the random decisions from here on follow from a seed."""
        self._seed, self._random = seed, None

    def show(self) -> None:
        """Print the module as a script; `print(sch)` gives the compact form."""
        self.mod.show()

    def __str__(self) -> str:
        return str(self.func) if len(self._module) == 1 else "\n".join(str(self.mod[name]) for name in self.mod)

    @lookup
    def extent(self, loop: LoopRef) -> int:
        """The number of iterations of a loop."""
        return self._loop(loop).extent

    @property
    def _rng(self) -> Random:
        if self._random is None:
            self._random = Random(self._seed)
        return self._random

    def _state(self) -> tuple[Any, ...]:
        return self._module, self._name, self._func, self._index, len(self._steps)

    def _restore(self, state: tuple[Any, ...]) -> None:
        self._module, self._name, self._func, self._index, count = state
        del self._steps[count:]

    def _continue_from(self, other: ScheduleBase) -> None:
        """Take over everything that another schedule has done."""
        self._name, self._func, self._index = other._name, other._func, other._index
        self._steps, self._draws = list(other._steps), dict(other._draws)
        self._origins, self._legality = other._origins, other._legality
        self._seed = other._seed
        if other._random is not None:
            self._random = Random()
            self._random.setstate(other._random.getstate())

    def _assume_unrestricted(self) -> None:
        """The program comes from a computation: all of its blocks may be reordered and moved."""
        self._legality = dict.fromkeys(self._origins, UNRESTRICTED)

    def _record_as(self, **values: Any) -> None:
        """Within a primitive: let the trace keep these values for arguments, instead of what was given."""
        self._amended |= values

    def _block(self, block: BlockRef | str) -> BlockRealize:
        name = block.name if isinstance(block, BlockRef) else block
        found = self.tree.blocks.get(name) if isinstance(name, str) else None
        if found is None:
            raise ScheduleError(f"no block is called {name!r}", f"the program has {', '.join(self.tree.blocks)}")
        return found

    def _loop(self, loop: LoopRef) -> For:
        if not isinstance(loop, LoopRef):
            raise ScheduleError(
                f"{loop!r} is not a loop", "take one from get_loops(block) or from what a primitive returned"
            )
        found = self.tree.loops.get(loop.var)
        if found is None:
            raise refuse(
                self.tree,
                f"loop {loop.name} is not in the program (any more): a primitive replaced it, or it is of another",
                "use the loops that the primitive returned, or ask get_loops(block) again",
            )
        return found

    def _loops(self, loops: Iterable[LoopRef]) -> list[For]:
        found = [self._loop(loop) for loop in loops]
        variables: set[Var] = set()
        for loop in found:
            if loop.var in variables:
                raise ScheduleError(f"loop {loop.var.name} is given twice", "give each loop once")
            variables.add(loop.var)
        return found

    def _place(self, loop: LoopRef) -> LoopAt:
        node: Stmt = self._loop(loop)
        depth = len(self.tree.ancestors(node))
        while not isinstance(node, BlockRealize):
            if isinstance(node, For | Alloc):
                node = node.body
            elif isinstance(node, If):
                node = node.then
            elif isinstance(node, Seq):
                node = node.stmts[0]
            else:
                raise ScheduleError(
                    f"loop {loop.name} stands around a {type(node).__name__}", "schedule before lowering"
                )
        return LoopAt(node.block.name, depth)

    def _trace_value(self, value: Any) -> Any:
        """An argument as the trace keeps it."""
        if isinstance(value, SampledInt | SampledLoop) and value.draw in self._draws:
            return Drawn(self._draws[value.draw], value.position if isinstance(value, SampledInt) else 0)
        if isinstance(value, LoopRef):
            return self._place(value)
        return tuple(map(self._trace_value, value)) if isinstance(value, tuple | list) else frozen(given(value))

    def _check_legal(self, arguments: Iterable[Any], moves: bool) -> None:
        """Raises ScheduleError: a block among the arguments, or below a loop among them, keeps its order."""
        if self._name is None:
            return
        if self._name not in self._legality:
            self._legality[self._name] = legality(Tree(self._origins[self._name]))
        known = self._legality[self._name]
        if known is UNRESTRICTED:
            return
        for value in arguments:
            if isinstance(value, BlockRef | str) and (name := getattr(value, "name", value)) in self.tree.blocks:
                known.check(self.tree, name, moves=moves)
            elif isinstance(value, LoopRef):
                for realize in blocks_below(self._loop(value)):
                    known.check(self.tree, realize.block.name, moves=False)
            elif isinstance(value, tuple | list):
                self._check_legal(value, moves)

    def _immovable(self, given: Sequence[Any]) -> tuple[str, frozenset[str]] | None:
        """Why a block that is named, or below a loop that is, has to stay where it is, and which blocks there are."""
        known = self._legality.get(self._name or "", UNRESTRICTED)
        if known is UNRESTRICTED:
            return None
        loops = [self._loop(value) for value in given if isinstance(value, LoopRef)]
        names = [r.block.name for loop in loops for r in blocks_below(loop)]
        names += [v.name if isinstance(v, BlockRef) else v for v in given if isinstance(v, BlockRef | str)]
        reason = next((known.immovable[n] for n in names if n in known.immovable), None)
        return None if reason is None else (reason, frozenset(self.tree.blocks))

    def _mark_immovable(self, reason: str, before: Set[str]) -> None:
        """The blocks that a step has made of one that has to stay where it is have to stay too."""
        if self._name is not None:
            made = dict.fromkeys(self.tree.blocks.keys() - before, reason)
            self._legality = {**self._legality, self._name: self._legality[self._name].with_immovable(made)}

    def _enter(self, arguments: Iterable[Any]) -> BlockScope | None:
        """Where the arguments stand inside of a block, go on with what is inside of it as the program."""
        if self._func is None:
            return None
        given = tuple(arguments)
        path = common_path(self._func, self.tree, handles(given))
        if not path:
            return None
        self._check_nested(path)
        scope = BlockScope(self._func, path)
        self._set(scope.innermost)
        return scope

    def _check_nested(self, path: Path) -> None:
        """Raises ScheduleError: a block around, which somebody wrote so, keeps its order."""
        self._legality.get(self._name or "", UNRESTRICTED).check(self.tree, path[0], moves=False)

    def _set(self, changed: Function | Tree) -> None:
        """Take over a changed program, with its index where the primitive needed one."""
        self._func = changed if isinstance(changed, Function) else changed.func
        self._index = None if isinstance(changed, Function) else changed


def _start(mod: object) -> tuple[IRModule, str | None]:
    """The module, and the function to begin with: the only one, or "main"."""
    if isinstance(mod, Function):
        return IRModule(mod), mod.name
    if isinstance(mod, IRModule):
        only = next(iter(mod)) if len(mod) == 1 else None
        return mod, only or ("main" if "main" in mod.functions else None)
    if isinstance(mod, Sequence) and mod and all(isinstance(t, Tensor) for t in mod):
        func = function_from_tensors(mod)
        return IRModule(func), func.name
    raise ScheduleError(
        f"Schedule({mod!r}): not a program", "give an IRModule, a function, or a list of tensors, inputs and outputs"
    )
