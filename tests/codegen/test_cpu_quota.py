"""CPU quotas of control groups, of both versions, and the cores that they leave."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

import pytest

from pegbox.codegen import Target
from pegbox.codegen.targets import cores


class Groups:
    """A tree of control groups in a folder, and the files by which Linux shows it."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        self._mounts, self._membership = folder / "mountinfo", folder / "membership"
        monkeypatch.setattr(cores, "MOUNTS", str(self._mounts))
        monkeypatch.setattr(cores, "MEMBERSHIP", str(self._membership))

    def show(self, membership: str, *mounts: str) -> float:
        self._membership.write_text(membership)
        self._mounts.write_text("".join(f"36 35 0:30 {mount}\n" for mount in mounts))
        cores.cpu_quota.cache_clear()
        return cores.cpu_quota()

    def limit(self, group: str, **files: str) -> None:
        (self.folder / group).mkdir(parents=True, exist_ok=True)
        for name, text in files.items():
            (self.folder / group / name.replace("__", ".")).write_text(text + "\n")


@pytest.fixture
def groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Groups]:
    yield Groups(tmp_path, monkeypatch)
    cores.cpu_quota.cache_clear()


def test_a_group_of_version_2_may_have_a_quota_or_none(groups: Groups) -> None:
    mount = f"/ {groups.folder} rw,nosuid shared:9 - cgroup2 cgroup rw"
    groups.limit("job", cpu__max="150000 100000")
    assert groups.show("0::/job\n", mount) == 1.5
    groups.limit("job", cpu__max="max 100000")
    assert groups.show("0::/job\n", mount) == math.inf


def test_a_quota_of_an_outer_group_counts_where_it_is_less(groups: Groups) -> None:
    mount = f"/ {groups.folder} rw - cgroup2 cgroup rw"
    groups.limit("outer", cpu__max="200000 100000")
    groups.limit("outer/inner", cpu__max="400000 100000")
    assert groups.show("0::/outer/inner\n", mount) == 2.0


def test_a_group_of_version_1_has_its_quota_in_two_files(groups: Groups) -> None:
    mounts = [
        f"/ {groups.folder} rw shared:3 - cgroup cgroup rw,cpu,cpuacct",
        f"/ {groups.folder / 'memory'} rw - cgroup cgroup rw,memory",
    ]
    groups.limit("docker/c0", cpu__cfs_quota_us="300000", cpu__cfs_period_us="100000")
    assert groups.show("4:memory:/x\n3:cpu,cpuacct:/docker/c0\n", *mounts) == 3.0
    groups.limit("docker/c0", cpu__cfs_quota_us="-1")
    assert groups.show("3:cpu,cpuacct:/docker/c0\n", *mounts) == math.inf


def test_a_container_sees_its_own_group_as_the_mounted_one(groups: Groups) -> None:
    groups.limit("", cpu__max="50000 100000")
    assert groups.show("0::/\n", f"/ {groups.folder} ro - cgroup2 cgroup rw") == 0.5
    # The path may be that of the host, of which only the container's group is mounted.
    assert groups.show("0::/docker/c0\n", f"/docker/c0 {groups.folder} ro - cgroup2 cgroup rw") == 0.5
    assert groups.show("0::/somewhere/else\n", f"/docker/c0 {groups.folder} ro - cgroup2 cgroup rw") == 0.5


@pytest.mark.parametrize("text", ["", "nonsense", "0::/job\n", "1:cpu\n"])
def test_what_cannot_be_read_limits_nothing(groups: Groups, text: str) -> None:
    groups.limit("job", cpu__max="a b c")
    assert groups.show(text, f"/ {groups.folder} rw - cgroup2 cgroup rw") == math.inf
    assert groups.show(text, "too short") == math.inf


@pytest.mark.parametrize(("quota", "count"), [(math.inf, 8), (8.0, 8), (7.9, 7), (2.5, 2), (1.0, 1), (0.5, 1)])
def test_a_quota_limits_the_usable_cores(quota: float, count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cores, "affinity_mask", lambda: tuple(range(8)))
    monkeypatch.setattr(cores, "siblings", lambda core: frozenset({core // 2 * 2, core // 2 * 2 + 1}))
    monkeypatch.setattr(cores, "cpu_quota", lambda: quota)
    usable = cores.usable_cores()
    assert len(usable) == count == Target("llvm -mcpu=x86-64").num_cores
    assert len({core // 2 for core in usable}) == min(count, 4)
