if __name__ != "pegbox.templates":
    raise ImportError("import this package as pegbox.templates (install the project first: pip install -e .); from the checkout it would make a second copy of every class")
