"""A second process with another seed of Python's hashes, for what must not depend on the order of a set.

It starts when it is first asked and serves all tests of a run: most of what a process of one's own costs is its start.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from functools import cache
from typing import Any

_CODE = """
import ast, json, sys
import pegbox as pb
for line in sys.stdin:
    template, cases, target = ast.literal_eval(line)
    try:
        reply = [pb.create_task(template, args=args, target=target).space.fingerprint for args in cases]
    except Exception as error:
        reply = f"{type(error).__name__}: {error}"
    print(json.dumps(reply), flush=True)
"""


def fingerprints(template: str, cases: Sequence[tuple[Any, ...]], target: str) -> list[str] | str:
    """The fingerprints of the spaces of a template there, or what it says of an error."""
    process = _process()
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(f"{(template, list(cases), target)!r}\n")
    process.stdin.flush()
    found: list[str] | str = json.loads(process.stdout.readline())
    return found


@cache
def _process() -> subprocess.Popen[str]:
    # It ends with this process, which alone holds the other end of the pipe.
    return subprocess.Popen(
        [sys.executable, "-c", _CODE],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONHASHSEED": "12345"},
    )
