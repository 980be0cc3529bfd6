"""`ScheduleState`: the current program, the recorded steps, and look-up for the primitives."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Sequence
from random import Random
from typing import Any, TypeVar

from pegbox.compute.tensor import Tensor
from pegbox.errors import LoweringError, ScheduleError
from pegbox.expr.nodes import Var
from pegbox.loops.from_compute import function_from_tensors
from pegbox.loops.module import IRModule
from pegbox.loops.nodes import BlockRealize, For, Function
from pegbox.schedule.errors import shown
from pegbox.schedule.state.handles import BlockRef, LoopRef
from pegbox.schedule.state.legality_table import LegalityTable
from pegbox.schedule.state.step import Step
from pegbox.schedule.state.trace import Trace
from pegbox.schedule.tree import Tree
from pegbox.shown import value_text

_State = TypeVar("_State", bound="ScheduleState")


class ScheduleState:
    """The current program and the steps that led to it.

    Primitives read `tree`, look their arguments up with `find_block` and `find_loop`, and pass the new program to
    `update`; the recording (`state/recording.py`) does the rest. Programs are immutable.

    Attributes:
        func_name: the function of the module that is scheduled; None until one of several is chosen.
        origins: the functions of the module as they were at the beginning.
        legality: the blocks of these functions that may be reordered and moved.
        steps: the steps so far, which `trace` returns.
        draws: the indices of the steps that drew numbers, by the tokens of these numbers.
        amended: the arguments of the current step that the trace records with other values than the given ones.
    """

    def __init__(
        self,
        mod: IRModule | Function | Sequence[Tensor] | type[object],
        *,
        seed: int | None = None,
        debug_mask: object = None,
        error_render_level: object = None,
    ) -> None:
        """Start from a module, a function, or tensors: the parameters in call order, inputs and outputs.

        Args:
            mod: the program; for type checkers, a class decorated by `ir_module` is still a class (`type[object]`).
            seed: the seed of the random decisions of `sample_*`; without one they differ from run to run.
            debug_mask, error_render_level: accepted as in TVM, without effect.

        Raises:
            ScheduleError: `mod` is none of those.
        """
        self._module, self.func_name = _start(mod)
        self._func = self._module[self.func_name] if self.func_name is not None else None
        self._index: Tree | None = None
        self.origins = dict(self._module.functions)
        self.legality = LegalityTable(self.origins)
        if not isinstance(mod, IRModule | Function):
            self.legality.lift()
        self.steps: list[Step] = []
        self.draws: dict[object, int] = {}
        self.amended: dict[str, Any] = {}
        self.seed(seed)

    @property
    def func(self) -> Function:
        """The current program: the function that the schedule works on.

        Raises:
            ScheduleError: the module has several functions, none of them called "main", and `work_on` chose none.
        """
        if self._func is None:
            raise ScheduleError(
                f"the module has several functions, {', '.join(self._module)}",
                "choose one with work_on(name)",
            )
        return self._func

    @property
    def mod(self) -> IRModule:
        """The current module."""
        return self._module if self._func is None else self._module.with_function(self._func)

    @property
    def func_working_on(self) -> str | None:
        """The name of the function that is scheduled; None until one of several is chosen."""
        return self.func_name

    @property
    def trace(self) -> Trace:
        """The steps so far."""
        return Trace(tuple(self.steps))

    @property
    def tree(self) -> Tree:
        """The index of the current program."""
        if self._index is None:
            self._index = Tree(self.func)
        return self._index

    def seed(self, seed: int | None) -> None:
        """Set the seed of all further random decisions."""
        self._seed = seed
        self._random: Random | None = None

    def fork_seed(self) -> int:
        """Draw a seed for another schedule; it is determined by the seed of this one."""
        return self.rng.randint(1, 2**31 - 1)

    @property
    def rng(self) -> Random:
        """The source of random decisions."""
        if self._random is None:
            self._random = Random(self._seed)
        return self._random

    def copy(self: _State) -> _State:
        """Return an independent schedule with the same program and trace. The copy costs next to nothing."""
        other = copy.copy(self)
        other.steps, other.draws = list(self.steps), dict(self.draws)
        other.legality, other._random = self.legality.copy(), copy.copy(self._random)
        return other

    def show(self) -> None:
        """Print the module as a script; `print(sch)` gives the compact form."""
        self.mod.show()

    def __str__(self) -> str:
        return str(self.func) if len(self._module) == 1 else "\n".join(str(self.mod[name]) for name in self.mod)

    def find_block(self, block: BlockRef | str) -> BlockRealize:
        """Return a block of the current program.

        Raises:
            ScheduleError: there is none of that name.
        """
        name = block.name if isinstance(block, BlockRef) else block
        found = self.tree.blocks.get(name) if isinstance(name, str) else None
        if found is None:
            raise ScheduleError(
                f"no block is called {value_text(name)}", f"the program has {', '.join(self.tree.blocks)}"
            )
        return found

    def find_loop(self, loop: LoopRef) -> For:
        """Return a loop of the current program.

        Raises:
            ScheduleError: the argument is not a loop, or the loop no longer exists.
        """
        if not isinstance(loop, LoopRef):
            raise ScheduleError(
                f"{value_text(loop)} is not a loop", "take one from get_loops(block) or from what a primitive returned"
            )
        found = self.tree.loops.get(loop.var)
        if found is None:
            raise ScheduleError(
                f"loop {loop.name} is not in the program (any more): it was replaced, or it is another program's",
                "use the loops that the primitive returned, or ask get_loops(block) again",
                program=shown(self.tree),
            )
        return found

    def find_loops(self, loops: Iterable[LoopRef]) -> list[For]:
        """Return loops of the current program.

        Raises:
            ScheduleError: one no longer exists, or is given twice.
        """
        found = [self.find_loop(loop) for loop in loops]
        variables: set[Var] = set()
        for loop in found:
            if loop.var in variables:
                raise ScheduleError(f"loop {loop.var.name} is given twice", "give each loop once")
            variables.add(loop.var)
        return found

    def find(self, block_or_loop: BlockRef | LoopRef | str) -> For | BlockRealize:
        """Return a loop or block of the current program, raising as `find_loop` and `find_block` do."""
        return self.find_loop(block_or_loop) if isinstance(block_or_loop, LoopRef) else self.find_block(block_or_loop)

    def update(self, changed: Function | Tree) -> None:
        """Install a changed program, with its index if the primitive made one."""
        self._func = changed if isinstance(changed, Function) else changed.func
        self._index = None if isinstance(changed, Function) else changed

    def switch_to(self, func_name: str) -> None:
        """Continue with another function of the module. Changes to the others are kept.

        Raises:
            ScheduleError: the module has no function of that name.
        """
        try:
            found = self._module.name_of(func_name)
        except LoweringError as error:
            raise ScheduleError(
                f"the module has no function {value_text(func_name)}", f"it has {', '.join(self._module)}"
            ) from error
        self._module, self.func_name = self.mod, found
        self.update(self._module[found])

    def snapshot(self) -> tuple[Any, ...]:
        """Return the state that `restore` needs: the program, and the number of steps that led to it."""
        return self._module, self.func_name, self._func, self._index, len(self.steps)

    def restore(self, snapshot: tuple[Any, ...]) -> None:
        """Undo everything since the snapshot."""
        self._module, self.func_name, self._func, self._index, count = snapshot
        del self.steps[count:]


def _start(mod: object) -> tuple[IRModule, str | None]:
    """Return the module, and the first function to schedule: the only one, or "main"."""
    if isinstance(mod, Function):
        return IRModule(mod), mod.name
    if isinstance(mod, IRModule):
        only = next(iter(mod)) if len(mod) == 1 else None
        return mod, only or ("main" if "main" in mod.functions else None)
    if isinstance(mod, Sequence) and mod and all(isinstance(t, Tensor) for t in mod):
        func = function_from_tensors(mod)
        return IRModule(func), func.name
    raise ScheduleError(
        f"Schedule({value_text(mod)}): not a program",
        "give an IRModule, a function, or a list of tensors, inputs and outputs",
    )
