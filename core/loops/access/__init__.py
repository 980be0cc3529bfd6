"""Accesses of buffers: regions, accessing statements, and intervals of indices."""
