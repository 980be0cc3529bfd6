from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import warnings
from pathlib import Path
from typing import Any

import pytest

from pegbox.errors import RecordError
from pegbox.records import Journal, RecordWarning


def test_records_come_back_in_order(journal: Journal, task: Any, crash: Any) -> None:
    written = [task.record(1), task.record(2, crash), task.record(3, 2e-3)]
    for record in written:
        journal.append(record)
    assert journal.read() == written


def test_a_file_is_readable_after_every_append(journal: Journal, task: Any) -> None:
    for index in range(3):
        journal.append(task.record(index))
        assert len(Journal(journal.path).read()) == index + 1


def test_blank_lines_and_comments_are_skipped(journal: Journal, task: Any) -> None:
    journal.append(task.record(1))
    journal.path.write_text("# tuned on a Sunday\n\n" + journal.path.read_text() + "\n")
    assert journal.read() == [task.record(1)]


@pytest.mark.parametrize("cut", [1, 30, 200])
def test_a_torn_last_line_is_skipped_with_a_warning(journal: Journal, task: Any, cut: int) -> None:
    journal.append(task.record(1))
    whole = journal.path.read_bytes()
    journal.path.write_bytes(whole + whole[:cut])
    with pytest.warns(RecordWarning, match="line 2"):
        assert journal.read() == [task.record(1)]


@pytest.mark.parametrize("cut", [1, 30, 200])
def test_an_append_after_a_torn_line_starts_on_a_fresh_line(journal: Journal, task: Any, cut: int) -> None:
    journal.append(task.record(1))
    whole = journal.path.read_bytes()
    journal.path.write_bytes(whole + whole[:cut])
    journal.append(task.record(2))
    journal.append(task.record(3))
    with pytest.warns(RecordWarning, match="line 2"):
        assert journal.read() == [task.record(1), task.record(2), task.record(3)]


def test_a_file_that_is_nothing_but_a_torn_line_can_be_appended_to(journal: Journal, task: Any) -> None:
    journal.path.write_bytes(b'{"input": ["llvm", "mat' + b"x" * 100_000)
    journal.append(task.record(1))
    with pytest.warns(RecordWarning, match="line 1"):
        assert journal.read() == [task.record(1)]


def test_a_missing_newline_alone_loses_nothing(journal: Journal, task: Any) -> None:
    journal.append(task.record(1))
    journal.path.write_bytes(journal.path.read_bytes().rstrip(b"\n"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert journal.read() == [task.record(1)]
        journal.append(task.record(2))
        assert journal.read() == [task.record(1), task.record(2)]


@pytest.mark.parametrize("bad", [b"{", b"nonsense", b'{"version": 1}', b"\xff\xfe", b"null"])
def test_a_bad_middle_line_names_the_file_and_the_line(journal: Journal, task: Any, bad: bytes) -> None:
    journal.append(task.record(1))
    whole = journal.path.read_bytes()
    journal.path.write_bytes(whole + bad + b"\n" + whole)
    with pytest.raises(RecordError, match=r"records\.jsonl', line 2"):
        journal.read()


def test_a_whole_last_line_of_another_kind_is_an_error_not_a_torn_line(journal: Journal, task: Any) -> None:
    journal.append(task.record(1))
    with journal.path.open("a") as file:
        file.write('{"version": 99}')
    with pytest.raises(RecordError, match="line 2"):
        journal.read()


@pytest.mark.parametrize("line", ["[" * 50_000, "1" * 5000, '{"version": 1, "tuner": "not JSON"}'])
def test_a_damaged_last_line_that_no_write_has_cut_short_is_an_error(journal: Journal, task: Any, line: str) -> None:
    journal.append(task.record(1))
    with journal.path.open("a") as file:
        file.write(line)
    with pytest.raises(RecordError, match="line 2"):
        journal.read()


def test_every_beginning_of_a_record_is_a_torn_line(journal: Journal, task: Any) -> None:
    journal.append(task.record(1))
    whole = journal.path.read_bytes()
    for cut in range(1, len(whole) - 1):
        journal.path.write_bytes(whole + whole[:cut])
        with pytest.warns(RecordWarning, match="line 2"):
            assert journal.read() == [task.record(1)]


def test_a_missing_file_is_an_error_that_names_it(journal: Journal) -> None:
    with pytest.raises(RecordError, match=r"records\.jsonl.*No such file"):
        journal.read()


def test_a_folder_that_is_not_there_is_noticed_before_tuning(tmp_path: Path, task: Any) -> None:
    journal = Journal(tmp_path / "nowhere" / "records.jsonl")
    with pytest.raises(RecordError, match="nowhere"):
        journal.check_writable()
    with pytest.raises(RecordError, match="nowhere"):
        journal.append(task.record(1))


def test_a_read_only_file_is_noticed_before_tuning(journal: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    # The superuser, as whom tests often run, may write to any file: so the system's answer is played.
    def refuse(*arguments: object, **options: object) -> int:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(RecordError, match="Permission denied"):
        journal.check_writable()


def test_checking_leaves_the_records_alone(journal: Journal, task: Any) -> None:
    journal.check_writable()
    journal.append(task.record(1))
    journal.check_writable()
    assert journal.read() == [task.record(1)]


def test_checking_does_not_damage_a_torn_line_where_nothing_can_be_taken_back(
    journal: Journal, task: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal.append(task.record(1))
    whole = journal.path.read_bytes()
    journal.path.write_bytes(whole + whole[:30])

    def refuse(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "ftruncate", refuse)  # a file that can only grow
    journal.check_writable()
    journal.append(task.record(2))
    with pytest.warns(RecordWarning, match="line 2 is torn"):
        assert journal.read() == [task.record(1), task.record(2)]


def test_checking_writes_nothing_without_a_lock(journal: Journal, task: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    fcntl = pytest.importorskip("fcntl")

    def refuse(*_: object) -> None:
        raise OSError(95, "Operation not supported")

    journal.append(task.record(1))
    monkeypatch.setattr(fcntl, "flock", refuse)
    monkeypatch.setattr(os, "write", refuse)
    journal.check_writable()
    assert journal.read() == [task.record(1)]


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="the system has no /dev/full")
def test_a_full_disk_is_an_error_that_says_so(task: Any) -> None:
    with pytest.raises(RecordError, match="No space left"):
        Journal("/dev/full").append(task.record(1))


def test_a_write_cut_short_by_a_full_disk_is_taken_back(
    journal: Journal, task: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal.append(task.record(1))
    real, calls = os.write, [0]

    def fill_up(fd: int, data: Any) -> int:
        calls[0] += 1
        if calls[0] > 1:
            raise OSError(28, "No space left on device")
        return real(fd, bytes(data)[:40])

    with monkeypatch.context() as patched:
        patched.setattr(os, "write", fill_up)
        with pytest.raises(RecordError, match="No space left"):
            journal.append(task.record(2))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert journal.read() == [task.record(1)]


def test_two_processes_may_append_to_one_file(journal: Journal, task: Any) -> None:
    line = task.record(1, 1e-3, tuner="t" * 20_000).to_line()  # longer than any buffer on the way
    script = textwrap.dedent("""
        import sys
        from pegbox.records import Journal, Record
        journal, record = Journal(sys.argv[1]), Record.from_line(sys.stdin.read())
        for _ in range(40):
            journal.append(record)
    """)
    writers = [
        subprocess.Popen([sys.executable, "-c", script, str(journal.path)], stdin=subprocess.PIPE, text=True)
        for _ in range(3)
    ]
    for writer in writers:
        assert writer.stdin is not None
        writer.stdin.write(line)
        writer.stdin.close()
    assert [writer.wait() for writer in writers] == [0, 0, 0]
    assert len(journal.read()) == 120
