"""The contract of templates is a module of tests/contracts that test files here import by name."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "contracts"))
