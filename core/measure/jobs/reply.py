"""Replies of worker processes: results and builds as data, checked on arrival.

A candidate runs in the process that answers and may have corrupted it, so that every field is compared with the
request.
"""

from __future__ import annotations

import math
import pickle
import struct
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from pegbox.measure.result import Failed, FailureKind, Ok, Result
from pegbox.measure.trial.lowering import Lowered
from pegbox.workers.channel import BrokenReply

if TYPE_CHECKING:
    from pegbox.codegen import CompiledProgram, Program
    from pegbox.measure.trial.timing import TimingPolicy

MOST_BUILD = 1 << 30
"""The size in bytes of the largest accepted build."""

_MOST_TEXT = 10_000
_SECONDS = struct.Struct("<d")


class _Job(NamedTuple):
    """A kind of job, with the failures that it may report and the phases of a trial that it may time."""

    failures: frozenset[FailureKind]
    phases: frozenset[str]


_RUNNING = _Job(
    frozenset({FailureKind.RUN_ERROR, FailureKind.WRONG_RESULT, FailureKind.INACCURATE}),
    frozenset({"load", "first_run", "check", "timing"}),
)
_COMPILING = _Job(frozenset({FailureKind.COMPILE_ERROR}), frozenset())
_LOWERING = _Job(frozenset({FailureKind.COMPILE_ERROR, FailureKind.INVALID}), frozenset({"lower"}))


def of_result(result: Result) -> dict[str, Any]:
    """Encode a result for JSON; the parent adds the total and the timestamp."""
    if isinstance(result, Failed):
        return {"failed": int(result.kind), "message": result.message[:_MOST_TEXT], "phases": result.phases}
    return {
        "costs": list(result.costs),
        "partial": result.partial,
        "phases": result.phases,
        "run_queue_wait": result.run_queue_wait,
        "error": result.error,
    }


def of_build(built: CompiledProgram | Failed) -> dict[str, Any] | bytes:
    """Encode a build as bytes (its seconds, then object code), or a failure for JSON."""
    return of_result(built) if isinstance(built, Failed) else _SECONDS.pack(built.seconds) + built.object_code


def read_build(data: Any, program: Program) -> CompiledProgram | Failed:
    """Read the build of `program`. Raises `BrokenReply` for anything else."""
    if not isinstance(data, bytes):
        return _failed(data, _COMPILING, math.inf)
    if len(data) < _SECONDS.size:
        raise BrokenReply(f"object code of {len(data)} bytes")
    return program.compiled(data[_SECONDS.size :], _SECONDS.unpack_from(data)[0])


def read_lowered(data: Any) -> Lowered | Failed:
    """Read the build of a config that the process lowered. Raises `BrokenReply` for anything else."""
    if not isinstance(data, bytes):
        return read_refusal(data)
    try:
        lowered = pickle.loads(data)
    except Exception as error:
        raise BrokenReply(f"it is not a program: {error}") from None
    if not isinstance(lowered, Lowered):
        raise BrokenReply("it is not a program")
    return lowered


def read_refusal(data: Any) -> Failed:
    """Read the reason why a config was not lowered. Raises `BrokenReply` for anything else."""
    return _failed(data, _LOWERING, math.inf)


@dataclass(frozen=True)
class Asked:
    """A trial as it was requested: its timing, the best cost before it, and the seconds until its answer."""

    policy: TimingPolicy
    best: float
    seconds: float

    def result(self, data: Any) -> Result:
        """Read the result of one trial. Raises `BrokenReply` for an impossible result."""
        if not isinstance(data, dict) or "costs" not in data:
            return _failed(data, _RUNNING, self.seconds)
        ok = self._ok(data, self.policy.max_repeats)
        if ok.partial and (len(ok.costs) > 1 or not math.isfinite(self.best)):
            raise BrokenReply(f"{len(ok.costs)} costs of a candidate that was dropped, while the best is {self.best}")
        return ok

    def results(self, data: Any, count: int) -> list[Result]:
        """Read the results of `count` trials that took turns. Raises `BrokenReply` as `result` does."""
        if not isinstance(data, list) or len(data) != count:
            raise BrokenReply(f"not a list of {count} results")
        found = [self._turns(one) for one in data]
        shapes = {(len(each.costs), each.partial) for each in found if isinstance(each, Ok)}
        if len(shapes) > 1 or any(partial for _, partial in shapes):
            raise BrokenReply("candidates that took turns have as many costs each")
        return found

    def _turns(self, data: Any) -> Result:
        if isinstance(data, dict) and "failed" in data:
            return _failed(data, _RUNNING._replace(failures=_RUNNING.failures - {FailureKind.RUN_ERROR}), self.seconds)
        return self._ok(data, self.policy.rounds)

    def _ok(self, data: Any, most: int) -> Ok:
        costs, partial, phases, run_queue_wait, error = _fields(
            data, "costs", "partial", "phases", "run_queue_wait", "error"
        )
        if not isinstance(costs, list) or not 1 <= len(costs) <= most or not isinstance(partial, bool):
            raise BrokenReply(f"not 1 to {most} costs")
        if not all(cost > 0 for cost in _times(costs, self.seconds)):
            raise BrokenReply("a cost that is not above 0 seconds")
        if type(run_queue_wait) is not float or not 0 <= run_queue_wait <= 1:
            raise BrokenReply("a share of waiting that is not between 0 and 1")
        if error is not None and (type(error) is not float or not 0 <= error < math.inf):
            raise BrokenReply("an error that is not a number of at least 0")
        return Ok(
            tuple(costs),
            phases=_phases(phases, _RUNNING, self.seconds),
            partial=partial,
            run_queue_wait=run_queue_wait,
            error=error,
        )


def _failed(data: Any, job: _Job, seconds: float) -> Failed:
    number, message, phases = _fields(data, "failed", "message", "phases")
    kind = next((kind for kind in job.failures if type(number) is int and kind == number), None)
    if kind is None or not isinstance(message, str) or len(message) > _MOST_TEXT:
        raise BrokenReply("a failure of an unknown kind, or without a message")
    return Failed(kind, message.encode(errors="replace").decode(), phases=_phases(phases, job, seconds))


def _fields(data: Any, *names: str) -> list[Any]:
    """Return the values of an object that has these fields and no others."""
    if not isinstance(data, dict) or set(data) != set(names):
        raise BrokenReply(f"it is not an object with the fields {', '.join(names)}")
    return [data[name] for name in names]


def _phases(data: Any, job: _Job, seconds: float) -> dict[str, float]:
    if not isinstance(data, dict) or not set(data) <= job.phases:
        raise BrokenReply("unknown phases")
    return dict(zip(data, _times(data.values(), seconds), strict=True))


def _times(values: Iterable[Any], most: float) -> list[float]:
    """Check times that another clock counted within `most` seconds."""
    found = list(values)
    if not all(type(value) is float and 0 <= value <= most * 1.01 + 0.001 for value in found):
        raise BrokenReply(f"times that are not between 0 and {most:.3g} seconds")
    return found
