"""Which tests need the system's C compiler: pegbox itself does not."""

from __future__ import annotations

import shutil

import pytest

HAS_COMPILER = any(map(shutil.which, ("cc", "gcc", "clang")))
compiler = pytest.mark.skipif(not HAS_COMPILER, reason="there is no C compiler")
