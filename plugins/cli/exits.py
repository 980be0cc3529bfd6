"""Exit codes of the commands."""

from __future__ import annotations

DONE = 0
NOTHING_FOUND = 1
BAD_USAGE = 2
BUG = 3  # an unforeseen exception; never 1, which would mean "nothing valid was found"
INTERRUPTED = 130  # 128 + SIGINT, as shells report it
BROKEN_PIPE = 141  # 128 + SIGPIPE

EXPLAINED = "exit codes: 0 done, 1 nothing valid was found, 2 bad usage or bad input, 3 a bug"


class NothingFound(Exception):
    """The command was well formed, but there is no valid configuration or record to work on."""
