"""The output of commands: pages of HTML, pictures drawn by matplotlib, text for terminals, files.

Names are imported when they are first used, since most commands write no report.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pegbox.exports import on_demand

if TYPE_CHECKING:
    from pegbox.output import check_distinct, check_output, write_file
    from pegbox.report.figure import check_plot
    from pegbox.report.page import PAGE
    from pegbox.shown import EscapedStream, escaped

__all__ = [
    "PAGE", "EscapedStream", "check_distinct", "check_output", "check_plot", "escaped", "write_file",
]  # fmt: skip

__getattr__ = on_demand(__name__)


def __dir__() -> list[str]:
    return __all__
