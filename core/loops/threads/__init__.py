"""Thread axes: what threads share, how they cooperate, and where they wait for each other."""
