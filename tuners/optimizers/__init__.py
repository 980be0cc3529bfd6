"""Tuners that are thin adapters over optimizers of installed libraries; see docs/tuners.md."""
