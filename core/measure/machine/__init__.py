"""The measuring machine: its cores, its memory, and the other programs on it."""
