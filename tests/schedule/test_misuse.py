"""Whatever primitive is called with whatever wrong arguments: the refusal has one form and nothing changes."""

from __future__ import annotations

import inspect
import pickle
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from pegbox.errors import ScheduleError
from pegbox.expr.nodes import Var
from pegbox.schedule import BlockRef, LoopRef, Schedule
from pegbox.schedule.primitives.absent import REFUSED


def _program(programs: Any) -> Schedule:
    """Several blocks and loops, some notes, a vectorized loop and a random state."""
    sch = Schedule(programs.matmul_relu()[0], seed=7)
    i, j, k = sch.get_loops("C")
    i_0, i_1 = sch.split(i, factor=2)
    sch.reorder(i_0, j, k, i_1)
    sch.vectorize(sch.get_loop("E", 1))
    sch.sample_perfect_tile(j, 2)
    return sch


def _wrong(sch: Schedule, stale: LoopRef, other: Schedule) -> Iterator[tuple[str, Any]]:
    """Values that are right for hardly any parameter, with what they are."""
    yield "an object", object()
    yield "None", None
    yield "a float", 2.5
    yield "a negative number", -7
    yield "an empty string", ""
    yield "a name that nothing has", "no such thing"
    yield "a block that is not there", BlockRef("gone")
    yield "a stale loop", stale
    yield "a loop of another schedule", other.get_loop("C", 0)
    yield "a list of rubbish", [object(), None, -1]
    yield "a set", {1}
    yield "bytes", b"x"


def _right(name: str, hint: str, sch: Schedule) -> Any:
    """Something that a parameter may take, as far as its name and type tell."""
    if "LoopRef" in hint:
        return sch.get_loop("C", 1)
    if "BlockRef" in hint:
        return "C"
    if name in ("buffer", "buffer_index", "index"):
        return 0
    return {"int": 1, "str": "x", "float": 1.0, "bool": True}.get(hint.split(" ")[0], [1, 2])


def _calls(sch: Schedule, primitive: str, stale: LoopRef, other: Schedule) -> Iterator[tuple[str, list[Any]]]:
    """Argument lists in which one argument is wrong, the others being as right as can be guessed."""
    own = [p for p in inspect.signature(getattr(sch, primitive)).parameters.values() if p.kind is not p.KEYWORD_ONLY]
    required = [p for p in own if p.default is p.empty]
    for place in range(len(required)):
        for kind, wrong in _wrong(sch, stale, other):
            args = [_right(p.name, str(p.annotation), sch) for p in required]
            args[place] = wrong
            yield f"{required[place].name} is {kind}", args


def _refusal(sch: Schedule, primitive: str, args: list[Any]) -> ScheduleError | None:
    try:
        getattr(sch, primitive)(*args)
    except ScheduleError as error:
        return error
    return None


@pytest.mark.parametrize("primitive", sorted(Schedule.primitives() - {"enter_postproc"}))  # it takes none
def test_wrong_arguments_are_refused_in_one_form(primitive: str, programs: Any) -> None:
    other = Schedule(programs.matmul()[0])
    sch = _program(programs)
    stale = sch.get_loop("D", 0)
    sch.split(stale, factor=2)
    refused = 0
    for what, args in _calls(sch, primitive, stale, other):
        before, text, trace, tree = sch.func, str(sch), sch.trace, sch.tree
        random = sch.rng.getstate()
        error = _refusal(sch, primitive, args)
        if error is not None:
            refused += 1
            assert error.primitive == primitive, what
            message = str(error)
            assert message.startswith(f"{primitive}("), what
            assert "): " in message.splitlines()[0], what
            assert message.splitlines()[-1].startswith("remedy: "), what
            assert error.reason, what
            assert error.remedy, what
            assert "for " in message, what  # the program
            assert sch.func is before, what
            assert sch.tree is tree, what
            assert sch.trace == trace, what
            assert sch.rng.getstate() == random, what
        else:
            # Some guesses are right; they are not what is tested here.
            sch = _program(programs)
            stale = sch.get_loop("D", 0)
            sch.split(stale, factor=2)
            continue
        assert str(sch) == text
    assert refused > 2


def test_the_place_of_a_refusal_can_be_asked_for(programs: Any) -> None:
    sch = Schedule(programs.matmul()[0])
    i, _, k = sch.get_loops("C")
    with pytest.raises(ScheduleError) as caught:
        sch.parallel(k)
    assert caught.value.primitive == "parallel"
    assert caught.value.place == ("k", "C")
    assert caught.value.reason == "k cannot be parallel: its iterations add up into the same elements in block C"
    assert caught.value.remedy == "make a spatial loop parallel"
    with pytest.raises(ScheduleError) as caught:
        sch.split(i, [2, 2])
    assert caught.value.place == ("i",)
    with pytest.raises(ScheduleError, match=r"^fuse\(k, i\): ") as caught:
        sch.fuse(k, i)
    assert caught.value.primitive == "fuse"


def test_a_refusal_is_a_value_of_which_the_message_is_made(programs: Any) -> None:
    sch = Schedule(programs.matmul()[0])
    i, *_ = sch.get_loops("C")
    with pytest.raises(ScheduleError) as caught:
        sch.split(i, factors=[2, 2])
    error = caught.value
    assert error.arguments == ("i", "factors=[2, 2]")
    assert str(error) == f"split(i, factors=[2, 2]): {error.reason}\n{error.program}\nremedy: {error.remedy}"
    copied = pickle.loads(pickle.dumps(error))
    assert (str(copied), vars(copied)) == (str(error), vars(error))


def test_types_of_arguments_are_checked_before_a_step_begins(programs: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    sch = Schedule(programs.matmul()[0])
    begun: list[object] = []
    monkeypatch.setattr("pegbox.schedule.state.recording._enter", lambda sch, values: begun.append(values))
    with pytest.raises(ScheduleError, match=r"names = 3 is not a list, each entry a string or None"):
        sch.split(LoopRef(Var("i")), names=3)  # type: ignore[arg-type]
    assert not begun


def test_several_steps_in_one_are_all_done_or_none(programs: Any) -> None:
    sch = Schedule(programs.matmul()[0])
    i, j, _ = sch.get_loops("C")
    before = sch.func
    with pytest.raises(ScheduleError):
        sch.tile([i, j], [2, 0])
    assert sch.func is before
    assert len(sch.trace) == 0


def test_errors_of_other_kinds_leave_the_program_alone_too(programs: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A mistake inside a primitive shows as it is, not as a refusal."""
    sch = Schedule(programs.matmul()[0])
    before = sch.func

    def broken(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr("pegbox.schedule.primitives.loops._nest", broken)
    with pytest.raises(ZeroDivisionError):
        sch.split(sch.get_loop("C", 0), factor=2)
    assert sch.func is before
    assert len(sch.trace) == 0


@pytest.mark.parametrize("name", REFUSED)
def test_what_only_tvm_has_is_refused_by_name(name: str, programs: Any) -> None:
    sch = Schedule(programs.matmul()[0])
    with pytest.raises(ScheduleError) as caught:
        getattr(sch, name)("C", buffer_index=0)
    assert caught.value.primitive == name
    assert caught.value.remedy
    assert name not in Schedule.primitives()


def test_what_means_nothing_here_changes_nothing(programs: Any) -> None:
    sch = Schedule(programs.matmul()[0])
    before = sch.func
    with pytest.warns(UserWarning, match="memory has one dimension"):
        sch.set_axis_separator("C", ("write", 0), [1])
    with pytest.raises(ScheduleError, match="block C reads no buffer 7"):
        sch.set_axis_separator("C", ("read", 7), [1])
    sch.remove_rv(sch.get_loop("C", 0))
    assert sch.func is before
    assert sch.func_working_on == "main"


@pytest.mark.parametrize(
    "value", [np.array(4), np.uint8(4), np.array([4])[0], np.ma.array(4)], ids=["array", "uint8", "int64", "masked"]
)
def test_numbers_of_numpy_are_recorded_as_pythons(programs: Any, value: Any) -> None:
    sch = Schedule(programs.matmul_relu()[0])
    sch.split(sch.get_loop("C", 0), [None, value])
    sch.annotate(sch.get_loop("C", 0), "note", value)
    assert [step.args[-1] for step in sch.steps] == [(None, 4), 4]


@pytest.mark.parametrize(
    "value",
    [
        np.datetime64(4, "ns"), np.timedelta64(4, "ns"), np.array(4, "m8[ns]"), np.zeros((), "i4,i4")[()],
        np.zeros(2, "i4,i4"), np.bytes_(b"\\4"), np.void(b"\\4"), np.poly1d([4]), np.ones(2).flat, np.add, np.ma.masked,
    ],
    ids=lambda value: type(value).__name__,
)  # fmt: skip
def test_values_of_numpy_that_are_not_numbers_are_refused(programs: Any, value: Any) -> None:
    sch = Schedule(programs.matmul_relu()[0])
    for split in (lambda: sch.split(sch.get_loop("C", 0), value), lambda: sch.split(sch.get_loop("C", 0), [4, value])):
        with pytest.raises(ScheduleError):
            split()
    with pytest.raises(ScheduleError):
        sch.annotate(sch.get_loop("C", 0), "note", value)
    assert not sch.steps
