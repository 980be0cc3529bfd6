"""How blocks combine values: the reducers, how they are recognised and written down."""
