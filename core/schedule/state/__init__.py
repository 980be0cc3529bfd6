"""The state of a schedule: the program, references to blocks and loops, and the trace."""
