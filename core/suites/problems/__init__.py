"""Problems of the shipped suites that are functions: short programs with known costs."""
