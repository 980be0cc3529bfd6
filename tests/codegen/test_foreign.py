"""C functions that kernels call: the libraries that they are compiled into."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from pegbox.codegen.runtime import foreign
from pegbox.codegen.targets.target import Target
from pegbox.loops.foreign import CSource


def test_threads_that_compile_one_source_at_the_same_time_share_the_library(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    both = threading.Barrier(2)

    def compiles(command: Sequence[str], source: CSource) -> None:
        both.wait(10)
        Path(command[-1]).write_text(source.text)
        both.wait(10)

    monkeypatch.setattr(foreign, "private_folder", lambda _: tmp_path)
    monkeypatch.setattr(foreign, "run_compiler", compiles)
    source, target = CSource("int one(void) { return 1; }"), Target("llvm -mcpu=x86-64")
    with ThreadPoolExecutor(2) as threads:
        paths = {each.result() for each in [threads.submit(foreign.shared_library, source, target) for _ in range(2)]}
    assert paths == set(tmp_path.iterdir())
    assert [path.read_text() for path in paths] == [source.text]
