"""The combinations of values in blocks: reducers, how they are recognised and written down."""
