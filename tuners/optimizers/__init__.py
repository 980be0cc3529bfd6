"""Tuners that adapt optimizers of installed libraries; see docs/tuners.md."""
