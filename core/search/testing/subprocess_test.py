"""A test method run in another process, to check that results depend only on the seed."""

from __future__ import annotations

import atexit
import inspect
import json
import os
import subprocess
import sys
import unittest
from functools import lru_cache

PROGRAM = """
import importlib, importlib.util, json, sys, traceback

def found(module, path, name):
    try:
        holder = importlib.import_module(module)
    except ImportError:
        spec = importlib.util.spec_from_file_location("subprocess_test_" + str(abs(hash(path))), path)
        holder = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(holder)
    for part in name.split("."):
        holder = getattr(holder, part)
    return holder

answers, sys.stdout = sys.stdout, sys.stderr
for line in sys.stdin:
    module, path, name, method = json.loads(line)
    try:
        answer = {"text": getattr(found(module, path, name)(), method)()}
    except BaseException:
        answer = {"error": traceback.format_exc()}
    print(json.dumps(answer), file=answers, flush=True)
"""


def in_another_process(test: object, method: str) -> str:
    """Call `method` of the class of `test` in another process, which orders hashes differently; return its text.

    The other process cannot find a class inside a function: the test is then skipped.
    """
    kind = type(test)
    path = inspect.getsourcefile(kind)
    if "<locals>" in kind.__qualname__ or path is None:
        raise unittest.SkipTest(f"{kind.__qualname__} is inside a function: another process cannot import it")
    process = _process()
    assert process.stdin is not None
    assert process.stdout is not None
    print(json.dumps([kind.__module__, path, kind.__qualname__, method]), file=process.stdin, flush=True)
    answer = json.loads(process.stdout.readline() or '{"error": "the process died"}')
    assert "error" not in answer, f"{method} failed in another process:\n{answer['error']}"
    return str(answer["text"])


@lru_cache(maxsize=1)
def _process() -> subprocess.Popen[str]:
    """Start one process for all tests, because starting it takes longer than a test."""
    hashes = "1" if os.environ.get("PYTHONHASHSEED") != "1" else "2"
    environment = {**os.environ, "PYTHONHASHSEED": hashes, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    )
    atexit.register(_end, process)
    return process


def _end(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.communicate()
