"""The cluster of one worker on this machine, `runner="dask"`."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import pytest

from tests.helpers.rack import waited

pytest.importorskip("distributed")
from pegbox.plugins.runners.dask_client import connected


def test_the_worker_runs_no_script_of_the_user_and_ends_with_the_client(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A script without `if __name__ == "__main__":` is run once."""
    script = tmp_path / "script.py"
    script.write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
    monkeypatch.setattr(sys.modules["__main__"], "__file__", str(script), raising=False)  # pytest may run from text
    monkeypatch.setattr(sys.modules["__main__"], "__spec__", None)
    with connected(None) as client:
        assert client.submit(int, "7").result(timeout=60) == 7
        (first,) = client.run(os.getpid).values()
        assert os.getsid(first) != os.getsid(0)  # Ctrl-C is the client's
        # A nanny does not start a worker again that dies before it knows that it runs.
        nannies = lambda: client.run(lambda dask_worker: dask_worker.status.name, nanny=True)  # noqa: E731
        waited(lambda: set(nannies().values()) == {"running"})
        os.kill(first, signal.SIGKILL)
        # The scheduler lists a dead worker until it hears of its end: only an answer shows that there is another.
        second = waited(lambda: set(client.run(os.getpid, on_error="ignore").values()) - {first}).pop()
    waited(lambda: not Path(f"/proc/{second}").exists())
    assert not (tmp_path / "ran").exists()
