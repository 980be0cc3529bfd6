"""Helper modules stand here and beside the contract suites; tests import them by name."""

import sys
from pathlib import Path

_HERE = Path(__file__).parent
for _folder in (_HERE, _HERE.parent / "contracts"):
    if str(_folder) not in sys.path:
        sys.path.append(str(_folder))
