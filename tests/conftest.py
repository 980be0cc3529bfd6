"""The fixtures that the tests of all rooms share."""

from __future__ import annotations

import atexit
import gc
import importlib
import math
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import hypothesis
import pytest

if TYPE_CHECKING:
    from pegbox.store import TuningStore

# How long an example takes depends on what else the machine does. The examples are the same in each run, so that a run
# says something of the change at hand; with PEGBOX_EXPLORE=1 they are others each time.
hypothesis.settings.register_profile("tests", deadline=None, derandomize=os.environ.get("PEGBOX_EXPLORE") != "1")
hypothesis.settings.load_profile("tests")

# Threads of a BLAS or an OpenMP runtime that wait for work would use up a core that others could have.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

gc.disable()  # until all tests are collected

# Modules that the tests of several rooms import by name.
sys.path.append(str(Path(__file__).parent / "helpers"))

# Tests start hundreds of processes. Where Python may leave no bytecode beside the sources, each of them would compile
# the whole package again: a folder that goes away with the tests holds it instead.
if os.environ.pop("PYTHONDONTWRITEBYTECODE", ""):
    os.environ["PYTHONPYCACHEPREFIX"] = _bytecode = tempfile.mkdtemp(prefix="pegbox-bytecode-")
    atexit.register(shutil.rmtree, _bytecode, ignore_errors=True)

# What is kept for the next run, such as the speed of memory, is no business of the user's own cache.
os.environ["XDG_CACHE_HOME"] = _cache = tempfile.mkdtemp(prefix="pegbox-cache-")
atexit.register(shutil.rmtree, _cache, ignore_errors=True)

# Those tests that start pytest themselves are not to have as many processes as this run.
os.environ.pop("PYTEST_ADDOPTS", None)

# Searches keep their best in the user's store: not those of tests, and not those of the processes that they start.
os.environ["PEGBOX_STORE"] = "off"
os.environ["XDG_DATA_HOME"] = _data = tempfile.mkdtemp(prefix="pegbox-data-")
atexit.register(shutil.rmtree, _data, ignore_errors=True)

plain_code = importlib.import_module("plain_code")
interrupt = importlib.import_module("pegbox.search.loop.interrupt")
plain_code.install()
importlib.import_module("guarded_calls").install()

if "-mtriple" in os.environ.get("PEGBOX_TARGET", ""):
    import emulator

    emulator.install()

# A shell that starts the tests in the background has them ignore Ctrl-C, which some of them send.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """A test about machine code, or one that is exact about roundings, is marked with `optimizer`."""
    interrupt._absorbed = -math.inf  # the Ctrl-C of another test is not the first of two
    plain_code.always_optimized = item.get_closest_marker("optimizer") is not None


def pytest_collection_finish() -> None:
    """Six thousand collected tests are no garbage: the collector need not walk them again and again."""
    gc.freeze()
    gc.enable()
    gc.set_threshold(50_000, 20, 50)


def pytest_sessionfinish() -> None:
    """Garbage with an error in it is reported; pytest and Python need not walk all the rest several times more."""
    gc.collect()
    gc.freeze()


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[object], None]:
    """Compare a printed program with tests/golden/<room>/<test name>.txt; PEGBOX_UPDATE_GOLDEN=1 writes the file."""

    def check(program: object) -> None:
        here = Path(__file__).parent
        path = here / "golden" / request.path.parent.name / f"{request.node.name.removeprefix('test_')}.txt"
        text = str(program)
        if os.environ.get("PEGBOX_UPDATE_GOLDEN"):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        assert path.exists(), f"no golden file {path}; run with PEGBOX_UPDATE_GOLDEN=1 and read what it writes"
        assert text == path.read_text()

    return check


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> TuningStore:
    """The user's store, which has no folder yet."""
    from pegbox.store import TuningStore

    monkeypatch.setenv("PEGBOX_STORE", str(tmp_path / "store"))
    return TuningStore(tmp_path / "store")
