"""This machine while it measures: its cores, its memory, and the other programs on it."""
