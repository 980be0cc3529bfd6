"""`Rack`: a scheduler, workers and searches of a Dask cluster as processes, which tests kill, freeze and cut off.

Each may have a network namespace of its own (`Wires`), which takes Linux, root and iproute2.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

MARK = "PEGBOX_TEST_RACK"
"""The variable that all processes of a rack have, with its folder as value."""

_PYTHON = [sys.executable, "-m"]


def waited(what: Callable[[], Any], *, seconds: float = 60.0) -> Any:
    """Return the value of `what` as soon as it is true. Fails after the given number of seconds."""
    deadline = time.monotonic() + seconds
    while not (found := what()):
        assert time.monotonic() < deadline, f"nothing within {seconds:g} s: {what}"
        time.sleep(0.05)
    return found


class Wires:
    """Network namespaces on one bridge, which stands in the first of them; they and their processes see no others."""

    def __init__(self) -> None:
        self._prefix = f"pb{os.getpid()}-"
        self._count = 0

    @staticmethod
    def possible() -> bool:
        """Tell whether this process may make namespaces."""
        if not shutil.which("ip") or os.getuid():
            return False
        name = f"pb{os.getpid()}-try"
        made = subprocess.run(["ip", "netns", "add", name], capture_output=True, check=False).returncode == 0
        return made and subprocess.run(["ip", "netns", "del", name], check=False).returncode == 0

    def add(self) -> int:
        """Another namespace; its number."""
        number, self._count = self._count, self._count + 1
        name, hub = self.name(number), self.name(0)
        _ip("netns", "add", name)
        _ip("-n", name, "link", "set", "lo", "up")
        if number == 0:
            _ip("-n", hub, "link", "add", "wire", "type", "bridge")
        else:
            _ip("-n", hub, "link", "add", f"port{number}", "type", "veth", "peer", "name", "wire", "netns", name)
            _ip("-n", hub, "link", "set", f"port{number}", "master", "wire", "up")
        _ip("-n", name, "address", "add", f"{self.address(number)}/24", "dev", "wire")
        _ip("-n", name, "link", "set", "wire", "up")
        return number

    def name(self, number: int) -> str:
        return f"{self._prefix}{number}"

    def address(self, number: int) -> str:
        return f"10.77.0.{number + 1}"

    def cut(self, number: int) -> None:
        """Take the wire out; packets are lost without a message."""
        _ip("-n", self.name(number), "link", "set", "wire", "down")

    def join(self, number: int) -> None:
        """Put it in again."""
        _ip("-n", self.name(number), "link", "set", "wire", "up")

    def swallow(self, number: int, address: str) -> None:
        """Let packets from a namespace to an address of the bridge go nowhere, as a firewall does."""
        _ip("-n", self.name(number), "neigh", "add", address, "lladdr", "02:00:00:00:00:99", "dev", "wire",
            "nud", "permanent")  # fmt: skip

    def close(self) -> None:
        for number in reversed(range(self._count)):
            _ip("netns", "del", self.name(number))
        self._count = 0


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)


class Rack:
    """A scheduler with workers, as users start them; all that they write is in `folder`.

    Args:
        folder: theirs, and that of their temporary files.
        wires: whether each has a network of its own.
        ttl: after which time without a sign of life the scheduler gives a worker up; by default, Dask's five minutes.
    """

    def __init__(self, folder: Path, *, wires: bool = False, ttl: str = "") -> None:
        self.folder, self._ttl = folder, ttl
        self.wires = Wires() if wires else None
        (folder / "tmp").mkdir(exist_ok=True)
        self._processes: list[subprocess.Popen[bytes]] = []
        self.workers: list[subprocess.Popen[bytes]] = []
        self.places: list[int] = []
        self.hub = self.place()
        self.scheduler = self.schedule()
        self.address: str = json.loads(waited(self._said))["address"]

    def place(self) -> int:
        """Return the number of a namespace in which something can be started, always 0 without namespaces."""
        return 0 if self.wires is None else self.wires.add()

    def schedule(self, port: int = 0) -> subprocess.Popen[bytes]:
        """Start a scheduler."""
        said = ["--scheduler-file", str(self.folder / "scheduler.json"), "--no-dashboard"]
        host = ["--host", "127.0.0.1" if self.wires is None else self.wires.address(0)]
        patience = {"DASK_DISTRIBUTED__SCHEDULER__WORKER_TTL": self._ttl} if self._ttl else None
        words = [*host, "--port", str(port), *said]
        return self.start("distributed.cli.dask_scheduler", *words, at=self.hub, environment=patience)

    def work(
        self, *options: str, at: int | None = None, environment: Mapping[str, str] | None = None
    ) -> subprocess.Popen[bytes]:
        """Start a worker."""
        place = self.place() if at is None else at
        given = options or ("--nthreads", "1", "--resources", "pegbox=1")
        host = ["--host", "127.0.0.1" if self.wires is None else self.wires.address(place)]
        scratch = [] if "--local-directory" in given else ["--local-directory", str(self.folder / "scratch")]
        words = [self.address, *host, "--no-dashboard", *scratch, *given]
        process = self.start("distributed.cli.dask_worker", *words, at=place, environment=environment)
        self.workers.append(process)
        self.places.append(place)
        return process

    def search(self, *words: str, at: int | None = None, **options: Any) -> subprocess.Popen[bytes]:
        """Start `pegbox` with these words."""
        place = (self.place() if self.wires is not None else 0) if at is None else at
        return self.start("pegbox", *words, at=place, **options)

    def start(
        self, module: str, *words: str, at: int = 0, environment: Mapping[str, str] | None = None
    ) -> subprocess.Popen[bytes]:
        """Start a module of Python in a process group of its own; its output goes to a file."""
        where = [] if self.wires is None else ["ip", "netns", "exec", self.wires.name(at)]
        variables = {**os.environ, MARK: str(self.folder), "TMPDIR": str(self.folder / "tmp"), **(environment or {})}
        with open(self.folder / f"{len(self._processes)}-{module.rpartition('.')[2]}.log", "wb") as log:
            process = subprocess.Popen(
                [*where, *_PYTHON, module, *words], stdout=log, stderr=log, stdin=subprocess.DEVNULL, env=variables,
                start_new_session=True, cwd=self.folder,
            )  # fmt: skip
        self._processes.append(process)
        return process

    def said(self, process: subprocess.Popen[bytes]) -> str:
        """Return the output of a process."""
        number = self._processes.index(process)
        return next(self.folder.glob(f"{number}-*.log")).read_text(errors="replace")

    def processes(self) -> list[int]:
        """The processes that this rack has started, directly or not, and that run still."""
        entry = f"{MARK}={self.folder}".encode()
        found = []
        for place in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if entry in (place / "environ").read_bytes().split(b"\0"):
                    found.append(int(place.name))
        return found

    def left(self) -> list[str]:
        """The temporary folders of benches that are there."""
        return [path.name for path in (self.folder / "tmp").glob("pegbox-*") if path.is_dir()]

    def close(self) -> None:
        """End all, the frozen too."""
        for process in self._processes:
            if process.poll() is None:
                process.send_signal(signal.SIGCONT)
                process.terminate()
        for process in self._processes:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(20)
            process.kill()
            process.wait()

    def _said(self) -> str:
        path = self.folder / "scheduler.json"
        return path.read_text() if path.exists() else ""


@contextlib.contextmanager
def rack(folder: Path, count: int, *, wires: bool = False, ttl: str = "") -> Iterator[Rack]:
    """A rack with so many workers, which ends with the context; no process of it may be left then."""
    made = Rack(folder, wires=wires, ttl=ttl)
    try:
        for _ in range(count):
            made.work()
        yield made
    finally:
        made.close()
        try:
            waited(lambda: not made.processes(), seconds=30)
        finally:
            for pid in made.processes():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            if made.wires is not None:
                made.wires.close()


def children(pid: int) -> list[int]:
    """The workers of a nanny, or of a local cluster."""
    found = []
    for listed in Path(f"/proc/{pid}/task").glob("*/children"):  # of each of its threads
        with contextlib.suppress(OSError):
            for child in listed.read_text().split():
                if b"spawn_main" in Path(f"/proc/{child}/cmdline").read_bytes():
                    found.append(int(child))
    return found


def lines(records: Path) -> Sequence[dict[str, Any]]:
    """The records of a file, without a torn last line."""
    text = records.read_text() if records.exists() else ""
    return [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]
