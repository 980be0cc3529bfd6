"""The baselines of costs: the time of NumPy, and the limits of the machine."""
