"""Targets: processors, their features, and the compiler of the system."""
