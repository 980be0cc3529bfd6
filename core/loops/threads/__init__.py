"""Thread axes: shared memory, cooperation of threads, and barriers."""
