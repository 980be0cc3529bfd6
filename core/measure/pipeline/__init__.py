"""From configurations to results: lowering, builds, runs, and what they share."""
