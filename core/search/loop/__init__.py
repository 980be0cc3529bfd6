"""The tuning loop: asks the tuner, measures, and tells the results."""
