"""The ownership of files and folders."""

from __future__ import annotations

import os
import stat

_WRITABLE_BY_OTHERS = stat.S_IWGRP | stat.S_IWOTH


def is_own(info: os.stat_result) -> bool:
    """Decide if a file or folder belongs to this user, and no other user may write to it."""
    return info.st_uid == os.getuid() and not info.st_mode & _WRITABLE_BY_OTHERS
