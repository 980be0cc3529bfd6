if __name__ != "pegbox.plugins":
    raise ImportError("import this package as pegbox.plugins (install the project first: pip install -e .); from the checkout it would make a second copy of every class")
