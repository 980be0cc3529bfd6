"""The tuner that docs/write-a-tuner.md teaches keeps the contract of tuners."""

import re
from pathlib import Path
from typing import Any

from pegbox.search import Tuner
from pegbox.search.testing import TunerContract
from pegbox.space import ConfigSpace

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
