"""The tuner that docs/write-a-tuner.md teaches keeps the contract of tuners; docs/tuners.md has the options."""

import inspect
import re
from pathlib import Path
from typing import Any

import pytest

from pegbox.search import Tuner
from pegbox.search.testing import TunerContract
from pegbox.space import ConfigSpace
from pegbox.tuners.bayes import BayesTuner
from pegbox.tuners.cost_models.ridge import RidgeCostModel
from pegbox.tuners.cost_models.xgboost import XGBoostCostModel
from pegbox.tuners.evolution import EvolutionTuner
from pegbox.tuners.ga import GATuner
from pegbox.tuners.xgb import XGBTuner

PAGE = Path(__file__).parents[2] / "docs" / "write-a-tuner.md"


def taught() -> Any:
    (block,) = [
        code for code in re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL) if "class Climb" in code
    ]
    names: dict[str, Any] = {}
    exec(block, names)
    return names["ClimbTuner"]


class TestTheTunerOfTheDocs(TunerContract):
    def make(self, space: ConfigSpace, *, seed: int = 0) -> Tuner:
        tuner: Tuner = taught()(space, seed=seed)
        return tuner


REFERENCE = (PAGE.parent / "tuners.md").read_text()


def spelled(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:g}" if isinstance(value, float) else str(value)


@pytest.mark.parametrize(("name", "model"), [("xgboost", XGBoostCostModel), ("ridge", RidgeCostModel)])
def test_the_options_of_cost_models_are_those_of_the_page(name: str, model: Any) -> None:
    defaults = {option: one.default for option, one in inspect.signature(model).parameters.items() if option != "seed"}
    (line,) = (line for line in REFERENCE.splitlines() if line.startswith(f"| `{name}` |"))
    written = dict(re.findall(r"`(\w+)` \(`?([\w.]+)`?\)", line))
    assert written == {option: spelled(value) for option, value in defaults.items()}


@pytest.mark.parametrize(
    ("name", "tuner"),
    [("bayes", BayesTuner), ("xgb", XGBTuner), ("evolution", EvolutionTuner), ("ga", GATuner)],
)
def test_the_options_of_tuners_are_those_of_the_page(name: str, tuner: Any) -> None:
    given = {"space", "seed", "program", "transfer", "experience"}
    parameters = inspect.signature(tuner).parameters.items()
    defaults = {option: one.default for option, one in parameters if option not in given}
    text = REFERENCE[REFERENCE.index(f"## {name}\n") :].split("\n## ")[0]
    written: dict[str, str] = {}
    for options, values in re.findall(r"^\| (`\w+`(?:, `\w+`)*) \| ([^|]+) \|", text, re.MULTILINE):
        listed = re.findall(r"\w+", options)
        written |= dict(zip(listed, values.split(", ") if len(listed) > 1 else [values], strict=True))
    assert set(written) == set(defaults)
    # Of what is None the page says in words what it depends on.
    given = {option: value for option, value in defaults.items() if value is not None}
    assert {option: written[option].strip("`") for option in given} == {o: spelled(value) for o, value in given.items()}
