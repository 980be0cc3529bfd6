"""The script: programs as Python text in the dialect of TVMScript, printed and read.

`printer` writes it, `functions` reads it; `words` are the names that users see as `T` and `I`.
"""
