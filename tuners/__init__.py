"""Built-in tuners; each is an ordinary plugin and sees configs, features and results, never the IR."""

if __name__ != "pegbox.tuners":
    raise ImportError(
        f"this package was imported as {__name__!r}; import it as 'pegbox.tuners' after 'pip install -e .': "
        "a second name would make a second copy of every class"
    )
