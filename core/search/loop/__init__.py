"""The tuning loop: asks the tuner, measures, and reports the results."""
