"""pegbox: a tuner plugin framework for tensor operators."""

if __name__ != "pegbox":
    raise ImportError(
        f"this package was imported as {__name__!r}; import it as 'pegbox' after 'pip install -e .': "
        "a second name would make a second copy of every class"
    )

__version__ = "0.1.0"
