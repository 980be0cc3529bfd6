"""The state of the emitter for one function body.

Instructions whose operands are known at an outer loop are written there. An instruction that is requested again with
the same operands is written once (the text is the key), so the emitter need not remember its earlier requests.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeAlias, TypeVar

from pegbox.codegen.emitter.function_text import FunctionText, Level
from pegbox.codegen.emitter.linear_form import Form, address_form, expression_form
from pegbox.codegen.vector_math import MathFunction, in_turns
from pegbox.expr.nodes import Buffer, Expr, Load, Var
from pegbox.loops.nodes import Store

if TYPE_CHECKING:
    from pegbox.codegen.emitter.module import ModuleText

Node = TypeVar("Node")
Place: TypeAlias = "tuple[str, int, int]"  # pointer register, element offset from it, lanes (0: one scalar)
_INNERMOST = 1 << 30  # deeper than any loop


class Value(NamedTuple):
    """A value in a register (or a literal); 0 lanes are a scalar."""

    text: str
    dtype: str
    lanes: int


class Registers:
    """The registers defined at a level, which everything inside may use.

    home: the level of each; a register without a level may be used only where it was made.
    ranges: the smallest and largest value of an index register.
    hoisted: the register of each hoisted instruction.
    """

    __slots__ = ("hoisted", "home", "ranges")

    def __init__(self) -> None:
        self.home: dict[str, Level] = {}
        self.ranges: dict[str, tuple[int, int]] = {}
        self.hoisted: dict[str, str] = {}

    def depth(self, name: str) -> int:
        level = self.home.get(name)
        return _INNERMOST if level is None else level.depth

    def deeper(self, a: str, b: str) -> Level | None:
        """Find the outermost level where both registers are known; None if one is known only where it was made."""
        first, second = self.home.get(a), self.home.get(b)
        if first is None or second is None:
            return None
        return first if first.depth > second.depth else second


class ValueCache:
    """The registers that hold elements of a buffer, by place.

    Places of one grid (same pointer, same width, aligned to it) overlap only if they are equal, which makes it cheap to
    account for a store into a register tile.
    """

    __slots__ = ("_grid", "entries")

    def __init__(self) -> None:
        self.entries: dict[Place, str] = {}
        self._grid: Place | None = None

    def add(self, place: Place, register: str) -> None:
        """Note a load."""
        grid = _grid(place)
        if not self.entries:
            self._grid = grid
        elif grid != self._grid:
            self._grid = None
        self.entries[place] = register

    def stored(self, place: Place, register: str) -> None:
        """Note a store, and forget values that overlap with it, or that may overlap because their pointers differ."""
        if _grid(place) != self._grid:
            self.entries = {key: text for key, text in self.entries.items() if _apart(key, place)}
        self.add(place, register)


def _grid(place: Place) -> Place:
    width = place[2] or 1
    return place[0], place[1] % width, place[2]


def _apart(a: Place, b: Place) -> bool:
    return a[0] == b[0] and (a[1] + (a[2] or 1) <= b[1] or b[1] + (b[2] or 1) <= a[1])


class Scope:
    """The facts that hold in straight-line code: the registers of instructions, and the contents of buffers."""

    __slots__ = ("memory", "values")

    def __init__(self, values: dict[str, str]) -> None:
        self.values = values
        self.memory: defaultdict[Buffer, ValueCache] = defaultdict(ValueCache)


class Pointer(NamedTuple):
    """The address of a buffer; no other thread and no caller sees the contents of a `private` one."""

    register: str
    private: bool


class NodeForms(Generic[Node]):
    """The linear forms of nodes, each made once.

    Nodes are compared by identity, because equality walks them. They are kept alive here, since the id of a freed
    object may be reused.
    """

    __slots__ = ("_entries", "_make")

    def __init__(self, make: Callable[[Node], Form]) -> None:
        self._make = make
        self._entries: dict[int, tuple[Node, Form]] = {}

    def __call__(self, node: Node) -> Form:
        try:
            return self._entries[id(node)][1]
        except KeyError:
            form = self._make(node)
            self._entries[id(node)] = node, form
            return form


class Frame:
    """The state of one function body.

    env: the value of a loop variable: a Python int (unrolled) or a register name.
    forms, addresses: the linear forms of index expressions, and of the places of accesses, in elements.
    divisions, pointers: the results of address arithmetic that hold wherever their operands do.
    unrolling: the enclosing unrolled and vectorized loops, for messages.
    limits: the interval of an index register here, if an enclosing condition makes it smaller than its range.
    nontemporal: the buffer whose whole vectors bypass the caches here, stored at multiples of their size.
    has_nontemporal: the function has such stores.
    """

    def __init__(self, module: ModuleText, *, in_parallel: bool) -> None:
        self.module = module
        self.in_parallel = in_parallel
        self.text = FunctionText()
        self.registers = Registers()
        self.scope = Scope({})
        self.env: dict[Var, int | str] = {}
        self.buffers: dict[Buffer, Pointer] = {}
        self.forms = NodeForms[Expr](lambda expr: expression_form(expr, self.depth_of))
        self.addresses = NodeForms[Load | Store](lambda node: address_form(node, self.depth_of))
        self.divisions: dict[Any, tuple[Any, Any]] = {}
        self.pointers: dict[Any, str] = {}
        self.unrolling: list[str] = []
        self.limits: dict[str, tuple[int, int]] = {}
        self.nontemporal: Buffer | None = None
        self.has_nontemporal = False

    def op(self, text: str) -> str:
        """Write an instruction here unless the same one was written already; return its register."""
        values = self.scope.values
        name = values.get(text)
        if name is None:
            name = values[text] = self.text.define(text)
        return name

    def at(self, level: Level | None, text: str) -> str:
        """Write a pure instruction at the start of a level; None means here."""
        if level is None:
            return self.op(text)
        registers = self.registers
        name = registers.hoisted.get(text)
        if name is None:
            name = registers.hoisted[text] = self.text.define_in(level.hoisted, text)
            registers.home[name] = level
        return name

    def inlined(self, function: MathFunction, operands: list[str], lanes: int) -> str:
        """Call a function of vector_math in as many lanes as the operands have; it takes one lane as a scalar."""
        if lanes == 1:
            typed = zip(function.parameters, operands, strict=True)
            operands = [self.op(f"extractelement <1 x {ty}> {text}, i64 0") for ty, text in typed]
        call = _call_text(function, operands, lanes)
        if call not in self.scope.values:
            self._define(function)
        result = self.op(call)
        if lanes == 1:
            result = self.op(f"insertelement <1 x {function.result}> poison, {function.result} {result}, i64 0")
        return result

    def inline_in_turns(self, function: MathFunction, calls: list[list[str]], lanes: int) -> None:
        """Call a function with each of these lists of operands, in two lanes or more; `inlined` finds the results."""
        texts = {_call_text(function, operands, lanes): operands for operands in calls}
        new = {text: operands for text, operands in texts.items() if text not in self.scope.values}
        if len(new) < 2:
            return
        group = in_turns(function, lanes, len(new))
        self._define(group)
        operands = [operand for each in new.values() for operand in each]
        whole = self.op(f"call {group.result} @{group.name}({_operands_text(group, operands, lanes)})")
        for number, text in enumerate(new):
            self.scope.values[text] = self.op(f"extractvalue {group.result} {whole}, {number}")

    def _define(self, function: MathFunction) -> None:
        """Define a function that is about to be inlined."""
        self.module.define(function.name, function.text, function.declarations)
        self.text.inlined += function.text.count("\n")

    def depth_of(self, var: Var) -> int:
        """Return the depth that defines the variable's register; unrolled and vectorized variables come last."""
        bound = self.env.get(var)
        return self.registers.depth(bound) if isinstance(bound, str) else _INNERMOST

    def bind(self, var: Var, register: str, level: Level, interval: tuple[int, int]) -> None:
        """Bind `var` to a register with values in `interval` (both included), defined at the start of `level`."""
        self.env[var] = register
        self.registers.home[register] = level
        self.registers.ranges[register] = interval

    def nested(self, action: Callable[[], None], *, keep_memory: bool = False) -> None:
        """Run `action`, whose instructions dominate nothing after it (a loop body, a branch).

        `keep_memory`: the action stores nothing, so known contents of memory stay valid.
        """
        outer = self.scope
        self.scope = Scope({})
        action()
        self.scope = outer if keep_memory else Scope(outer.values)


def _call_text(function: MathFunction, operands: list[str], lanes: int) -> str:
    result = f"<{lanes} x {function.result}>" if lanes > 1 else function.result
    return f"call {result} @{function.name}({_operands_text(function, operands, lanes)})"


def _operands_text(function: MathFunction, operands: list[str], lanes: int) -> str:
    shape = f"<{lanes} x {{}}>" if lanes > 1 else "{}"
    return ", ".join(f"{shape.format(ty)} {text}" for ty, text in zip(function.parameters, operands, strict=True))
