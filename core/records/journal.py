"""`Journal`: a file of records, appended line by line, readable while it is written, safe against torn lines."""

from __future__ import annotations

import contextlib
import io
import os
import warnings
from collections.abc import Iterator

from pegbox.checks import check_instance, check_path
from pegbox.errors import RecordError
from pegbox.output import MAKE_ROOM, PROBE, check_place
from pegbox.packed_file import is_packed, read_unpacked
from pegbox.records.document import NotJson
from pegbox.records.record import Record

try:
    import fcntl
except ImportError:  # Windows has none: there, two runs must not share a file
    fcntl = None  # type: ignore[assignment]

_TORN = b" #torn"
_BLOCK = 1 << 16
_RECORDS = "a file of records has a JSON object in each line, as 'pegbox tune' writes it"
_KINDS = {
    ".py": "a Python file",
    ".csv": "a table",
    ".html": "a page",
    ".onnx": "a model",
}
"""Other kinds of files that users may pass by mistake, by their suffixes."""


class RecordWarning(UserWarning):
    """A warning about records that are skipped, such as a torn line."""


class Journal:
    """A file of records at `path`, which need not exist yet.

    Each append is one write under a lock, so that two runs may share a file. A write that was cut short by a crash
    leaves a torn last line: reading skips it with a warning, and the next append marks it and starts a fresh line.
    Blank lines and lines that begin with # are skipped, as AutoTVM skips them. A file packed by gzip, xz or zip is
    read, too; nothing can be appended to it.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = check_path("records", path, error=RecordError)

    def __repr__(self) -> str:
        return f"Journal({str(self.path)!r})"

    def check_writable(self) -> None:
        """Raise `RecordError` unless records can be appended; creates the file. Call it before hours of tuning.

        Nothing is appended to a file that holds something else: its first line must be a record. Empty lines are
        written and removed as a test that the disk has room. A file that was created on a full disk is removed.
        """
        check_place(self.path, error=RecordError)
        created = not os.path.lexists(self.path)
        with self._opened() as (fd, locked):
            held = os.fstat(fd).st_size
            if not self.path.is_file():
                return
            if held:
                self._check_first()
            if not locked:  # another process may be writing
                return
            try:
                _append(fd, held, _ending(fd, held) + PROBE)
            except OSError:
                if created and not held:
                    self.path.unlink(missing_ok=True)
                raise
            with contextlib.suppress(OSError):  # an append-only file keeps the empty lines, which readers skip
                os.ftruncate(fd, held)

    def _check_first(self) -> None:
        """Raise `RecordError` if the first line is not a record."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RecordWarning)
            try:
                next(iter(self), None)
            except RecordError as error:
                raise RecordError(f"records are not appended to a file that holds something else: {error}") from error

    def append(self, record: Record) -> None:
        """Write one record, and hand it to the operating system before returning.

        Raises `RecordError`, and leaves the file unchanged, if the disk is full or the file is not writable.
        """
        check_instance("append: record", record, Record, "a pegbox.records.Record", error=RecordError)
        line = record.to_line().encode() + b"\n"
        with self._opened() as (fd, _):
            size = os.fstat(fd).st_size
            _append(fd, size, _ending(fd, size) + line)

    def read(self) -> list[Record]:
        """Read all records, oldest first. Raises `RecordError` with the file and the line if one is bad."""
        return list(self)

    def __iter__(self) -> Iterator[Record]:
        data, known = read_unpacked(self.path, "records"), False
        if b"\0" in data.partition(b"\n")[0]:
            raise RecordError(f"{str(self.path)!r} is {_KINDS.get(self.path.suffix, 'not text')}: {_RECORDS}")
        for number, line in enumerate(io.BytesIO(data), start=1):
            if not (text := line.strip()) or text.startswith(b"#"):
                continue
            if text.endswith(_TORN):
                self._warn(number)
                continue
            try:
                record = Record.from_line(text.decode())
            except (RecordError, UnicodeDecodeError) as error:
                if not line.endswith(b"\n") and _is_torn(error):
                    self._warn(number)
                    continue
                if not known and self.path.suffix in _KINDS:
                    raise RecordError(f"{str(self.path)!r} is {_KINDS[self.path.suffix]}: {_RECORDS}") from error
                remedy = "remove or repair that line" if known else _RECORDS
                raise RecordError(f"{str(self.path)!r}, line {number}: {error}; {remedy}") from error
            known = True
            yield record

    def _warn(self, number: int) -> None:
        message = f"{str(self.path)!r}, line {number} is torn (a write was cut short): skipped"
        warnings.warn(message, RecordWarning, stacklevel=4)

    @contextlib.contextmanager
    def _opened(self) -> Iterator[tuple[int, bool]]:
        """Open the file for appending, and lock it if possible; the system's errors become `RecordError`.

        Yield the file's descriptor, and True if it is locked.
        """
        try:
            if is_packed(self.path):
                raise RecordError(
                    f"cannot append records to {str(self.path)!r}, which is compressed: unpack it, or choose another "
                    "file"
                )
            fd = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o666)
            try:
                locked = False
                if fcntl is not None:
                    with contextlib.suppress(OSError):  # some network file systems have no locks
                        fcntl.flock(fd, fcntl.LOCK_EX)
                        locked = True
                yield fd, locked
            finally:
                os.close(fd)
        except OSError as error:
            raise RecordError(f"cannot write records to {str(self.path)!r}: {error.strerror}; {MAKE_ROOM}") from error


def _append(fd: int, size: int, data: bytes) -> None:
    """Append bytes to a locked file of this size; leave it unchanged if that fails."""
    left = memoryview(data)
    try:
        while left:
            left = left[os.write(fd, left) :]
    except OSError:
        # No other process has written since, thanks to the lock: remove the torn piece.
        with contextlib.suppress(OSError):
            os.ftruncate(fd, size)
        raise


def _ending(fd: int, size: int) -> bytes:
    """Return the bytes to write first so that a record starts on a fresh line."""
    tail = b""
    start = size
    while start > 0 and b"\n" not in tail:
        begin = max(0, start - _BLOCK)
        tail, start = os.pread(fd, start - begin, begin) + tail, begin
        if tail.endswith(b"\n"):
            return b""
    last = tail.rpartition(b"\n")[2].strip()
    if not last:
        return b"\n" if tail else b""
    try:
        Record.from_line(last.decode())
    except (RecordError, UnicodeDecodeError) as error:
        if _is_torn(error):
            return _TORN + b"\n"
    return b"\n"  # a line that lacks only its newline is not torn


def _is_torn(error: RecordError | UnicodeDecodeError) -> bool:
    """Decide if the error of a line without a newline shows a write that was cut short.

    A record is one JSON object, and no part of one that ends early is JSON.
    """
    return isinstance(error, NotJson | UnicodeDecodeError)
