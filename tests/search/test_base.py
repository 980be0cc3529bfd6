"""The optional base class of tuners, and factories with options bound."""

import copy
import inspect
import pickle
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest

from pegbox.errors import ArgumentError, PluginError
from pegbox.hooks import registry
from pegbox.hooks.options import options_of
from pegbox.search import BaseTuner, BoundTuner, Spec, make_tuner
from pegbox.search.factory import RESERVED, tuner_label
from pegbox.search.testing import small_space
from pegbox.space import Config, ConfigSpace


class Leap(BaseTuner):
    def __init__(self, space: ConfigSpace, *, seed: int = 0, alpha: float = 1.0, mode: str = "up") -> None:
        self.space, self.seed, self.alpha, self.mode = space, seed, alpha, mode

    def ask(self, n: int) -> list[Config]:
        return []

    def tell(self, configs: Any, results: Any) -> None:
        pass


class Greedy(BaseTuner):
    """A tuner as a person writes it without keyword-only parameters."""

    def __init__(self, space, seed=0, alpha=2):  # type: ignore[no-untyped-def]
        self.space, self.seed, self.alpha = space, seed, alpha

    ask = tell = lambda self, *given: []


class Receiving(Leap):
    """Declares everything that a tuner may be given."""

    def __init__(self, space: ConfigSpace, *, seed: int, program: Any = None, transfer: Any = ()) -> None:
        super().__init__(space, seed=seed)
        self.program, self.transfer = program, transfer


def bound(factory: Any, **options: Any) -> Any:
    return factory.with_options(**options)


# --- options of a class -----------------------------------------------------------------------------------------------


def test_without_a_space_options_are_bound() -> None:
    tuner = bound(Leap, alpha=2, mode="down")
    assert isinstance(tuner, BoundTuner)
    assert str(tuner) == repr(tuner) == tuner.__name__ == "Leap(alpha=2, mode='down')"


def test_a_call_without_a_space_is_the_old_spelling() -> None:
    with pytest.warns(
        DeprecationWarning, match=r"Leap\(alpha=2\) without.*Leap\.with_options\(alpha=2\) now"
    ) as caught:
        assert Leap(alpha=2) == bound(Leap, alpha=2)  # type: ignore[call-arg]
    assert caught[0].filename == __file__


def test_with_a_space_a_tuner_is_made() -> None:
    space = small_space()
    for made in (Leap(space, seed=3, alpha=2), Leap(space=space, seed=3, alpha=2), bound(Leap, alpha=2)(space, seed=3)):
        assert isinstance(made, Leap)
        assert (made.space, made.seed, made.alpha) == (space, 3, 2)


def test_what_is_no_space_is_refused() -> None:
    with pytest.raises(
        ArgumentError, match=r"Leap\(2\): the first argument is the space.*Leap\.with_options\(option=2\)"
    ):
        Leap(2)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["seed", "program", "transfer"])
def test_what_each_run_gives_anew_cannot_be_bound(name: str) -> None:
    with pytest.raises(ArgumentError, match=rf"Leap\({name}=5\): {name} is not an option"):
        bound(Leap, **{name: 5})


def test_bound_tuners_compare_hash_and_pickle() -> None:
    one, same, other = bound(Leap, alpha=[2]), bound(Leap, alpha=[2]), bound(Leap, alpha=[3])
    assert one == same != other
    assert hash(one) == hash(same)
    assert len({one, same, other}) == 2
    assert pickle.loads(pickle.dumps(one)) == one


def test_a_tuner_pickles_and_copies() -> None:
    tuner = Leap(small_space(), seed=3)
    for again in (pickle.loads(pickle.dumps(tuner)), copy.deepcopy(tuner)):
        assert isinstance(again, Leap)
        assert again.seed == 3


def test_the_signature_is_that_of_init() -> None:
    assert list(inspect.signature(Leap).parameters) == ["space", "seed", "alpha", "mode"]
    assert list(options_of(Leap, but=RESERVED)) == ["alpha", "mode"]
    assert list(options_of(Greedy, but=RESERVED)) == ["alpha"]


def test_dataclasses_and_abstract_classes_may_derive() -> None:
    @dataclass
    class Plain(BaseTuner):
        space: Any
        seed: int = 0
        alpha: int = 1

    class Abstract(Leap, ABC):
        @abstractmethod
        def step(self) -> None: ...

    assert str(bound(Plain, alpha=4)) == "Plain(alpha=4)"
    made: Any = make_tuner(bound(Plain, alpha=4), small_space(), seed=2)
    assert (made.seed, made.alpha) == (2, 4)
    with pytest.raises(TypeError, match="abstract"):
        Abstract(small_space())  # type: ignore[abstract]


def test_methods_that_are_missing_are_named() -> None:
    class Half(BaseTuner):
        def __init__(self, space: ConfigSpace, *, seed: int = 0) -> None: ...

    half = Half(small_space())
    with pytest.raises(NotImplementedError, match=r"Half defines no ask\(n\)"):
        half.ask(1)
    with pytest.raises(NotImplementedError, match=r"Half defines no tell"):
        half.tell([], [])


# --- make_tuner -------------------------------------------------------------------------------------------------------


def test_make_tuner_takes_a_bound_tuner() -> None:
    made: Any = make_tuner(bound(Leap, alpha=2), small_space(), seed=7, options={"mode": "down"})
    assert (made.seed, made.alpha, made.mode) == (7, 2, "down")


def test_options_that_do_not_exist_are_refused_with_the_ones_that_do() -> None:
    with pytest.raises(ArgumentError, match=r"tuner 'Leap\(alhpa=2\)' has no option 'alhpa'.*did you mean 'alpha'"):
        make_tuner(bound(Leap, alhpa=2), small_space())


def test_options_given_by_place_in_the_class_can_be_bound_and_written(monkeypatch: pytest.MonkeyPatch) -> None:
    assert make_tuner(bound(Greedy, alpha=5), small_space()).alpha == 5  # type: ignore[attr-defined]
    monkeypatch.setattr(registry, "resolve", lambda kind, name: {"greedy": Greedy}[name])
    made: Any = make_tuner("greedy:alpha=6", small_space(), seed=1)
    assert (made.alpha, made.seed) == (6, 1)


def test_program_and_transfer_reach_only_those_that_declare_them() -> None:
    space, program, transfer = small_space(), object(), [object()]
    given: dict[str, Any] = {"program": program, "transfer": transfer}
    for spec in (Receiving, bound(Receiving)):
        made: Any = make_tuner(spec, space, seed=1, **given)
        assert (made.program, made.transfer, made.seed) == (program, transfer, 1)
    assert isinstance(make_tuner(Leap, space, **given), Leap)
    without: Any = make_tuner(Receiving, space)
    assert (without.program, without.transfer) == (None, ())


@pytest.mark.parametrize("name", ["seed", "program", "transfer"])
def test_what_is_reserved_is_no_option(name: str) -> None:
    with pytest.raises(ArgumentError, match=f"no option '{name}'"):
        make_tuner(Receiving, small_space(), options={name: 1})


def test_a_tuner_made_already_is_refused() -> None:
    with pytest.raises(ArgumentError, match=r"is an instance.*give its class \(Leap\)"):
        make_tuner(Leap(small_space()), small_space())  # type: ignore[arg-type]


def test_what_makes_no_tuner_is_refused_by_its_label() -> None:
    def nothing(space: ConfigSpace, *, seed: int, a: int) -> dict[str, int]:
        return {}

    with pytest.raises(PluginError, match=r"tuner 'nothing\(a=1\)' made a dict"):
        make_tuner(BoundTuner(nothing, {"a": 1}), small_space())


@pytest.mark.parametrize(
    ("spec", "label"),
    [
        ("xgb: plan_size=32", "xgb:plan_size=32"),
        (Spec("xgb", {"plan_size": "32"}), "xgb:plan_size=32"),
        (Leap, "Leap"),
        (BoundTuner(Leap, {"alpha": 2}), "Leap(alpha=2)"),
        (partial(Leap, alpha=2), "Leap(alpha=2)"),
    ],
)
def test_labels(spec: Any, label: str) -> None:
    assert tuner_label(spec) == label
