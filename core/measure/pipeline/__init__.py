"""The pipeline from configurations to results: lowering, builds, runs, and their common parts."""
