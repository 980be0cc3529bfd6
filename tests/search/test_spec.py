"""The spelling `name:option=value,...` and what becomes of the options."""

from typing import Any

import pytest

from pegbox.errors import ArgumentError, PluginError, UnknownName
from pegbox.hooks import registry
from pegbox.hooks.options import bind_options, options_of
from pegbox.search import Spec, make_cost_model, make_tuner, parse_spec
from pegbox.search.factory import RESERVED
from pegbox.search.testing import small_space


class Plain:
    """A tuner with an option of each type."""

    def __init__(
        self,
        space: Any,
        *,
        seed: int = 0,
        count: int = 3,
        share: float = 0.5,
        flag: bool = False,
        mode: str = "a",
        limit: int | None = None,
    ) -> None:
        self.seed = seed
        self.options = {"count": count, "share": share, "flag": flag, "mode": mode, "limit": limit}

    def ask(self, n: int) -> list[Any]:
        return []

    def tell(self, configs: Any, results: Any) -> None:
        pass


@pytest.fixture(autouse=True)
def known_names(monkeypatch: pytest.MonkeyPatch) -> None:
    resolve, known = registry.resolve, {"plain": Plain, "list": lambda space, *, seed: []}
    monkeypatch.setattr(registry, "resolve", lambda kind, name: known.get(name) or resolve(kind, name))


@pytest.mark.parametrize(
    ("text", "spec"),
    [
        ("xgb", Spec("xgb")),
        (" xgb: ", Spec("xgb")),
        ("xgb:plan_size=32", Spec("xgb", {"plan_size": "32"})),
        ("xgb:plan_size=32, loss_type=rank", Spec("xgb", {"plan_size": "32", "loss_type": "rank"})),
        ("my.py:Mine:alpha=2", Spec("my.py:Mine", {"alpha": "2"})),
        (
            "xgb:cost_model=forest:trees=8;depth=3,epsilon=0",
            Spec("xgb", {"cost_model": "forest:trees=8;depth=3", "epsilon": "0"}),
        ),
    ],
)
def test_reads_name_and_options(text: str, spec: Spec) -> None:
    assert parse_spec(text) == spec


def test_a_spec_prints_as_it_is_read() -> None:
    assert str(parse_spec("xgb:plan_size=32,epsilon=0")) == "xgb:plan_size=32,epsilon=0"


@pytest.mark.parametrize(
    ("text", "part"),
    [("", "names no plugin"), (":a=1", "names no plugin"), ("xgb:a=1,b", "'b'"), ("xgb:a=1,a=2", "twice")],
)
def test_refuses_what_it_cannot_read(text: str, part: str) -> None:
    with pytest.raises(ArgumentError, match=part):
        parse_spec(text)


def test_text_becomes_what_the_factory_declares() -> None:
    tuner = make_tuner("plain:count=7,share=1,flag=yes,mode=5,limit=none", small_space(), seed=9)
    assert isinstance(tuner, Plain)
    assert tuner.seed == 9
    assert tuner.options == {"count": 7, "share": 1.0, "flag": True, "mode": "5", "limit": None}


def test_options_given_apart_win_over_the_spec() -> None:
    tuner = make_tuner("plain:count=7,limit=2", small_space(), options={"count": 1})
    assert isinstance(tuner, Plain)
    assert (tuner.options["count"], tuner.options["limit"]) == (1, 2)


def test_an_unknown_option_is_answered_with_the_list_and_the_near_name() -> None:
    with pytest.raises(ArgumentError) as caught:
        make_tuner("plain:cuont=7", small_space())
    message = str(caught.value)
    assert "tuner 'plain'" in message
    assert "cuont='7'" in message
    assert "did you mean 'count'?" in message
    assert "share: float = 0.5" in message
    assert "limit: int | None = None" in message


@pytest.mark.parametrize("text", ["count=many", "share=half", "flag=perhaps", "limit=x"])
def test_a_value_of_the_wrong_type_is_shown(text: str) -> None:
    option, _, value = text.partition("=")
    with pytest.raises(ArgumentError, match=f"plain.*{option}='{value}'"):
        make_tuner(f"plain:{text}", small_space())


def test_the_seed_is_no_option() -> None:
    assert "seed" not in options_of(Plain, but=RESERVED)
    with pytest.raises(ArgumentError, match="no option 'seed'"):
        make_tuner("plain:seed=3", small_space())


def test_a_factory_that_takes_anything_gets_numbers_where_they_read_as_such() -> None:
    def factory(space: Any, *, seed: int = 0, **options: Any) -> None: ...

    assert bind_options("it", factory, {"a": "3", "b": "0.5", "c": "x"}) == {"a": 3, "b": 0.5, "c": "x"}


def test_a_factory_can_be_given_itself() -> None:
    assert isinstance(make_tuner(Plain, small_space(), options={"count": 2}), Plain)


def test_what_is_no_tuner_is_named() -> None:
    with pytest.raises(PluginError, match="tuner 'list' made a list"):
        make_tuner("list", small_space())


def test_built_in_names_are_found_and_near_names_are_reported() -> None:
    assert type(make_tuner("random", small_space())).__name__ == "RandomTuner"
    with pytest.raises(UnknownName, match="random"):
        make_tuner("randon", small_space())


def test_a_cost_model_comes_from_a_nested_spec_or_is_given() -> None:
    model = make_cost_model("xgboost:rounds=5;max_depth=2", seed=1)
    assert make_cost_model(model) is model
    with pytest.raises(ArgumentError, match="takes no options"):
        make_cost_model(model, options={"rounds": 3})
    with pytest.raises(ArgumentError, match="neither the name of a cost model"):
        make_cost_model(3)  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="cost model 'xgboost' has no option 'round'"):
        make_cost_model("xgboost:round=5")
