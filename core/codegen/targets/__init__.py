"""Targets: processors, their features, and the system's compiler."""
