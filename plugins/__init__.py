"""Built-in plugins: runners, readers of other tools' files, and the command line."""

if __name__ != "pegbox.plugins":
    raise ImportError(
        f"this package was imported as {__name__!r}; import it as 'pegbox.plugins' after 'pip install -e .': "
        "a second name would make a second copy of every class"
    )
