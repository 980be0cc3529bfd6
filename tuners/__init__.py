if __name__ != "pegbox.tuners":
    raise ImportError("import this package as pegbox.tuners (install the project first: pip install -e .); from the checkout it would make a second copy of every class")
