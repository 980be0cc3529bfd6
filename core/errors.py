"""The error classes of pegbox: one root, one class per kind of failure.

Messages show the value that caused the failure, where it came from, and the remedy.
"""

from collections.abc import Iterable
from typing import Any


class PegboxError(RuntimeError):
    """Root of all errors raised by pegbox. A RuntimeError, as in TVM.

    `source` is the line of a user's template or workload that raised it, such as "my_ops.py:14", else empty; `message`
    is the text without it.
    """

    source = ""

    def __str__(self) -> str:
        return f"{self.source}: {self.message}" if self.source else self.message

    @property
    def message(self) -> str:
        return super().__str__()


class ExprError(PegboxError):
    """An expression cannot be built: unknown data type, wrong operand, wrong arity."""


class UnknownValue(ExprError, TypeError):
    """Python asked an expression for its value, which is known only when the program runs; for Python a TypeError."""


class ComputeError(PegboxError):
    """A tensor computation is malformed: wrong rank, reduction in a wrong place, unknown tensor."""


class IndexOutOfBounds(ComputeError):
    """A computation reads outside of a tensor; `inputs` are the placeholders whose values the index depends on."""

    def __init__(self, message: str, inputs: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.inputs = inputs


class ScheduleError(PegboxError):
    """A schedule primitive was refused because it is malformed or would change the result.

    The message of a refused primitive reads `primitive(arguments): why`, the program with the place marked, and
    `remedy: what to do instead`. Where no program is shown, it is one line: `primitive(arguments) of stage: why; what
    to do instead`. Its parts are attributes:

    - `step`: the step of the trace that was applied, else empty;
    - `primitive`, `arguments`: the call, empty for errors that come from elsewhere; `stage`: the TE stage called;
    - `reason`, `remedy`;
    - `place`: the names of the loops and blocks concerned; `program`: the program with these marked.

    A check names the place (`marked`: loop variables and names of blocks); the code that runs the primitive adds the
    call and the program.
    """

    def __init__(self, reason: str, remedy: str = "", *marked: Any, program: str = "") -> None:
        super().__init__(reason)
        self.step = ""
        self.primitive = ""
        self.arguments: tuple[str, ...] = ()
        self.stage = ""
        self.reason = reason
        self.remedy = remedy
        self.marked = marked
        self.program = program

    @property
    def place(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(m if isinstance(m, str) else m.name for m in self.marked))

    @property
    def message(self) -> str:
        call = f"{self.primitive}({', '.join(self.arguments)})" if self.primitive else ""
        call += f" of {self.stage}" if self.stage else ""
        why = ": ".join(filter(None, (self.step, call, self.reason)))
        if not self.program:
            return "; ".join(filter(None, (why, self.remedy)))
        return "\n".join(filter(None, (why, self.program, self.remedy and f"remedy: {self.remedy}")))


class ScriptError(PegboxError):
    """A script cannot be read.

    The message starts with `file:line:column`, shows the line with the place marked, and the remedy. Its parts are
    attributes; line and column count from one, and are zero if the error has no place.
    """

    def __init__(
        self, message: str, *, file: str = "", line: int = 0, column: int = 0, reason: str = "", remedy: str = ""
    ) -> None:
        super().__init__(message)
        self.file = file
        self.line = line
        self.column = column
        self.reason = reason or message
        self.remedy = remedy


class LoweringError(PegboxError):
    """A scheduled program cannot be lowered to plain loops."""


class CompileError(PegboxError):
    """The code generator or LLVM rejected a program."""


class GraphError(PegboxError):
    """A graph of operators cannot be run: nothing computes a value, or an operator is unknown."""


class UnknownShape(GraphError):
    """Shapes are given for inputs or dimensions that a model does not have; `names` lists these."""

    def __init__(self, message: str, names: Iterable[str] = ()) -> None:
        super().__init__(message)
        self.names = frozenset(names)


class TargetError(PegboxError):
    """A target string is malformed or names something that this machine does not have."""


class SpaceError(PegboxError):
    """A configuration space or a configuration is malformed."""


class InvalidConfig(PegboxError):
    """A template refused a configuration; tuners see it as a failed trial, not as a crash."""


class TemplateError(PegboxError):
    """A template cannot be found, imported or instantiated."""


REFUSED = (InvalidConfig, ScheduleError, LoweringError, CompileError)
"""The errors by which a template, its schedule or a compiler refuses a configuration."""


class ArgumentError(PegboxError, ValueError):
    """A kernel was called with arrays that it cannot take, or an API with a value outside its domain."""


class UnknownArgument(ArgumentError, TypeError):
    """A function was called with a keyword argument that it does not have."""


class MeasureError(PegboxError):
    """The measuring machinery itself failed (not a candidate: those become `Failed` results)."""


class RecordError(PegboxError):
    """A record file is damaged, or a record belongs to another space, target or version."""


class PluginError(PegboxError):
    """A plugin is broken, or two plugins claim one name."""


class UnknownName(PegboxError, KeyError):
    """No plugin provides the name that was asked for."""

    @property
    def message(self) -> str:
        # KeyError would print the repr of the message.
        return str(self.args[0]) if self.args else ""


class TuningError(PegboxError):
    """A tuning run ended early because a tuner, an essential callback or the measurer broke.

    `result` is the `TuneResult` with everything measured until then, its best configuration included; `reason` is
    the fault alone.
    """

    def __init__(self, message: str, result: Any = None, *, reason: str = "") -> None:
        super().__init__(message)
        self.result = result
        self.reason = reason or message


class ComparisonError(PegboxError):
    """A comparison of tuners ended early because a run broke.

    `result` is the `Comparison` of the runs that were finished until then; the cause is the error of the other.
    `reason` is the message without the place of that report.
    """

    def __init__(self, message: str, result: Any = None, *, reason: str = "") -> None:
        super().__init__(message)
        self.result = result
        self.reason = reason or message
