"""`Record`: one measured config with its task, target and space."""

from __future__ import annotations

import json
import math
import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypedDict

from pegbox.checks import check_instance, check_list
from pegbox.codegen.targets.host import EMULATED, describe_host, processor_of
from pegbox.errors import RecordError
from pegbox.measure.baselines.baseline import Baseline
from pegbox.measure.result import Failed, FailureKind, Ok, Result
from pegbox.records.autotvm import fields_of, form_of, is_autotvm
from pegbox.records.document import (
    NotJson,
    checked,
    config,
    costs,
    field,
    read_document,
    seconds,
    with_new_names,
    workload,
)
from pegbox.shown import escaped, value_text
from pegbox.space import Config

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from pegbox.task.task import Task

VERSION = 1
"""The version of the record format; older readers refuse a newer version."""

FUNCTION = "python"
"""The target of records of a function (`pegbox.minimize`), which has no template."""

VARIANT = "model_variant"
"""The name of records of whole models' times, one for each variant. They are not trials of a task."""

FAILED_COST = 1e9
"""The seconds of a failed trial in files, as AutoTVM stores them: scripts that sort by `result[0][0]` still work."""


_OF_RESULT = ("partial", "run_queue_wait", "threads")
_OPTIONAL = ("remeasured", "in_model", "code", "unit", "run", "ref", "accuracy")
"""The fields of a result and of a record that lines omit if they are empty."""


def workload_of(task: Task) -> tuple[str, dict[str, Any]]:
    """Return the name of a task's workload, and its arguments.

    Raises:
        RecordError: it is not a task.
    """
    workload = getattr(task, "workload", None)
    if not isinstance(workload, tuple):
        raise RecordError(f"task={value_text(task)}: give what pegbox.create_task makes")
    return workload


class Circumstances(TypedDict, total=False):
    """The fields of a record that the task, the config and the result do not give."""

    tuner: str
    seed: int | None
    remeasured: bool
    in_model: bool
    baseline: Baseline | None
    run: str


@dataclass(frozen=True, kw_only=True)
class Record:
    """A trial in a file. `name`, `args` and `kwargs` are the template's; `workload` is the task's key.

    `config` is the JSON form of the config, and `space` the fingerprint of its task. `remeasured` marks one of the
    best, measured again at the end of a run, and `baseline` has the baselines measured at the same time. `in_model`
    marks the configuration that was the fastest inside a model; its cost is that of the kernel alone. `code` is the
    fingerprint of the measured template's code, empty if it is unknown. `cost` is in seconds, or in the `unit` of a
    function's results. `run` is its search, see `records.runs`. `ref` is the place of the template, for people:
    "my_ops.py:conv"; nothing imports it. `accuracy` is the largest error that the user allowed, None for the default.
    `tool` is empty, or "autotvm" for a line of AutoTVM's log, which has no space and gives arguments by place: its
    `space` is empty, and `workload` the name and `args`.
    """

    target: str
    name: str
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    workload: tuple[Any, ...]
    config: Mapping[str, Any]
    result: Result
    space: str
    tuner: str = ""
    seed: int | None = None
    host: str = ""
    remeasured: bool = False
    in_model: bool = False
    code: str = ""
    baseline: Baseline | None = None
    unit: str = ""
    run: str = ""
    ref: str = ""
    tool: str = ""
    accuracy: float | None = None

    @classmethod
    def of(cls, task: Task, config: Config, result: Result, **more: Unpack[Circumstances]) -> Record:
        """Make the record of a trial of `task` on this machine.

        Args:
            more: other fields, see `Circumstances`.

        Raises `RecordError` unless given a task, one of its configs, and a result.
        """
        workload = workload_of(task)
        check_instance("config", config, Config, "a configuration, as task.space.get(0)", error=RecordError)
        if not isinstance(result, Ok | Failed):
            raise RecordError(f"result={value_text(result)}: give pegbox.measure.Ok or Failed")
        return cls(
            target=str(task.target),
            name=task.name,
            args=plain(task.args),
            kwargs=plain(task.kwargs),
            workload=plain(workload),
            config=config.to_json(),
            result=result,
            space=task.fingerprint,
            host=result.host or describe_host(),
            code=task.code,
            unit=getattr(task, "unit", ""),
            ref=getattr(task, "ref", ""),
            accuracy=getattr(task, "given_accuracy", None),
            **more,
        )

    @property
    def cost(self) -> float:
        """The seconds per call, infinite if the trial failed."""
        return self.result.cost

    @property
    def of_model(self) -> bool:
        """True for a record of a whole model in one of its variants, which is not a trial of a task."""
        return self.name == VARIANT and self.target != FUNCTION

    @property
    def emulated(self) -> bool:
        """True if an emulator ran the kernel: its seconds show nothing about a processor."""
        return self.host.startswith(EMULATED)

    @property
    def processor(self) -> str:
        """The processor that ran the kernel, without the machine's name."""
        return processor_of(self.host)

    def is_of(self, task: Task) -> bool:
        """Decide if the record belongs to this task's workload, on any target and from any space."""
        if self.tool:
            return self.name == task.name and bool(self.args == plain(tuple(workload_of(task)[1].values())))
        return bool(self.workload == plain(workload_of(task)))

    @property
    def choices(self) -> Mapping[str, Any]:
        """The config as `ConfigSpace.from_json` takes it.

        AutoTVM numbers some knobs' values in another order, so that only the choices in its lines count; these must be
        values of the space's knobs.
        """
        return {"entity": self.config["entity"]} if self.tool else self.config

    @property
    def described(self) -> str:
        """The workload as a call: matmul(M=64, K=64, N=64)."""
        return call(self.name, self.kwargs, self.args) if self.tool else call(*self.workload)

    def is_accurate_for(self, task: Task) -> bool:
        """Decide if a task allows the record's error.

        A record without an error is of a kernel that agreed with NumPy within the default.
        """
        wanted = getattr(task, "given_accuracy", None)
        error = self.result.error if isinstance(self.result, Ok) else None
        if error is None:
            return wanted is None or bool(wanted >= task.default_accuracy)
        return error <= (task.accuracy if wanted is not None or self.accuracy is not None else math.inf)

    def to_line(self) -> str:
        """Write one line of JSON, without the newline.

        Raises `RecordError` if JSON cannot hold an argument, or the result is not a measurement.
        """
        result = self.result
        if isinstance(result, Failed) and result.kind is FailureKind.NOT_RECORDED:
            raise RecordError(f"config {self.config.get('index')} of {self.name} was not measured: nothing to record")
        if isinstance(result, Failed):
            listed, number = [FAILED_COST], int(result.kind)
            extra: dict[str, Any] = {"message": result.message}
        else:
            listed, number = list(result.costs), 0
            extra = {name: value for name in _OF_RESULT if (value := getattr(result, name))}
            extra |= {} if result.error is None else {"error": result.error}
        extra |= {name: value for name in _OPTIONAL if (value := getattr(self, name))}
        if self.baseline is not None:
            extra["baseline"] = self.baseline.to_json()
        form = {
            "input": [self.target, self.name, self.args, self.kwargs],
            "config": self.config,
            "result": [listed, number, result.total_seconds, result.timestamp],
            "version": VERSION,
            "workload": self.workload,
            "space": self.space,
            "tuner": self.tuner,
            "seed": self.seed,
            "host": self.host,
            "phases": result.phases,
            **extra,
        }
        if self.tool:
            form = form_of(self, FAILED_COST)
        try:
            return json.dumps(form, default=_number, allow_nan=False)
        except (TypeError, ValueError) as error:
            raise RecordError(f"the record of {self.name}{self.args} cannot be written as JSON: {error}") from error

    @classmethod
    def from_line(cls, line: str) -> Record:
        """Read a line. Raises `RecordError` with the fault, but without its place."""
        try:
            form = read_document(line)
        except NotJson as error:
            raise NotJson(f"not JSON: {error}") from None
        try:
            return cls._from_form(with_new_names(checked("the line", form, dict)))
        except KeyError as error:
            raise RecordError(f"the field {error} is missing") from None
        except ValueError as error:
            raise RecordError(f"a field has the wrong form: {error}") from None

    @classmethod
    def _from_form(cls, form: Mapping[str, Any]) -> Record:
        if is_autotvm(form):
            fields = fields_of(form)
            args, kwargs = _frozen(fields.pop("args")), _frozen(fields.pop("kwargs"))
            return cls(args=args, kwargs=kwargs, workload=(fields["name"], args), space="", **fields)
        version = field(form, "version", int)
        if version > VERSION:
            raise RecordError(f"version {version} is newer than this pegbox reads ({VERSION}): update pegbox")
        if version < 1:
            raise ValueError(f"version {version}: the first one is 1")
        target, name, args, kwargs = field(form, "input", list)
        return cls(
            target=checked("the target", target, str),
            name=checked("the template's name", name, str),
            args=_frozen(checked("args", args, list)),
            kwargs=_frozen(checked("kwargs", kwargs, dict)),
            workload=_frozen(workload(form["workload"])),
            config=config(form["config"]),
            result=_result(form),
            space=field(form, "space", str),
            tuner=field(form, "tuner", str, ""),
            seed=None if form.get("seed") is None else field(form, "seed", int),
            host=field(form, "host", str, ""),
            remeasured=field(form, "remeasured", bool, False),
            in_model=field(form, "in_model", bool, False),
            code=field(form, "code", str, ""),
            baseline=Baseline.from_json(field(form, "baseline", dict)) if "baseline" in form else None,
            unit=field(form, "unit", str, ""),
            run=field(form, "run", str, ""),
            ref=field(form, "ref", str, ""),
            accuracy=_error(form, "accuracy"),
        )


def _result(form: Mapping[str, Any]) -> Result:
    listed, number, total, timestamp = field(form, "result", list)
    phases = {phase: seconds(f"phases: {phase}", spent) for phase, spent in field(form, "phases", dict, {}).items()}
    spent, when = seconds("total seconds", total), seconds("timestamp", timestamp)
    host = field(form, "host", str, "")
    if checked("the error number", number, int):
        if number < 0:
            raise ValueError(f"error number {number}: failures have numbers above 0")
        return Failed(FailureKind(number), field(form, "message", str, "", kept="\n\t"), spent, when, phases, host)
    run_queue_wait = seconds("run_queue_wait", form.get("run_queue_wait", 0.0))
    if run_queue_wait > 1:
        raise ValueError(f"run_queue_wait={run_queue_wait}: a share is at most 1")
    partial = field(form, "partial", bool, False)
    threads = field(form, "threads", int, 0)
    if threads < 0:
        raise ValueError(f"threads={threads}: a kernel has 1 or more; 0 means unknown")
    listed_costs, error = costs(checked("costs", listed, list)), _error(form, "error")
    return Ok(listed_costs, spent, when, phases, partial, run_queue_wait, host, threads, error)


def _error(form: Mapping[str, Any], name: str) -> float | None:
    """Read an error relative to an output; None if there is none. Raises `ValueError` for anything else."""
    value = form.get(name)
    if value is not None and (type(value) not in (int, float) or not 0 <= value < math.inf):
        raise ValueError(f"{name} {value!r}: an error is a number, finite and 0 or more")
    return None if value is None else float(value)


def check_records(records: object) -> list[Record]:
    """Return the records as a list; raise `RecordError` for anything else."""
    wanted = "records, as pegbox.records.Journal(file).read() gives them"
    return check_list("records", records, wanted, error=RecordError, of=Record)


def call(name: str, kwargs: Mapping[str, Any], args: Sequence[Any] = ()) -> str:
    """Write a template with its arguments as a call: matmul(M=64, K=64, N=64)."""
    given = [*map(repr, args), *(f"{key}={value!r}" for key, value in kwargs.items())]
    return escaped(f"{name}({', '.join(given)})")


def plain(value: Any) -> Any:
    """Convert `value` to its form after writing and reading: nested tuples, plain numbers."""
    try:
        return _frozen(json.loads(json.dumps(value, default=_number)))
    except (TypeError, ValueError, RecursionError) as error:
        raise RecordError(
            f"the template's arguments {value_text(value)} cannot be recorded as JSON: {error}"
        ) from error


def _frozen(value: Any) -> Any:
    """Convert JSON's lists to tuples, which compare equal to the arguments of Python programs."""
    match value:
        case list():
            return tuple(_frozen(item) for item in value)
        case dict():
            return {key: _frozen(item) for key, item in value.items()}
        case _:
            return value


def _number(value: Any) -> Any:
    """Convert numbers of NumPy, which may be sizes, for JSON."""
    try:
        return operator.index(value)
    except TypeError:
        pass
    if hasattr(value, "dtype") and hasattr(value, "item"):
        return value.item()
    raise TypeError(f"{value!r} of type {type(value).__name__}")
