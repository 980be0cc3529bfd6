"""Templates, tasks and workloads."""
