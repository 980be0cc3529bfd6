"""Random compute graphs, random schedules of them, and what checks the programs that they become."""
