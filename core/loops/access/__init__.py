"""Accesses of buffers: which part, by whom, and between which values an index lies."""
