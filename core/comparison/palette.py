"""Colours of the tuners: told apart by colour-blind people too, and by dashes and labels besides.

Okabe and Ito, "Color Universal Design" (2008), darkened for thin lines on white and lightened for dark pages.
"""

from __future__ import annotations

LIGHT = ("#0072b2", "#d55e00", "#00835c", "#b5488d", "#8a6d00", "#2d7fb8", "#5b5b66", "#7a3db8")
DARK = ("#56b4e9", "#ff9a4d", "#3fd0a0", "#e594c6", "#f0e442", "#9cd0ff", "#b9b9c6", "#c3a0ff")
