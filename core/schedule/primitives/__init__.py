"""The primitives, one file per family. `Schedule` inherits from the class of each.

A primitive checks first and raises ScheduleError (made by `errors.refuse`, which shows the loops) without having
changed anything; then it makes the new program by path copying and hands it to `_set`; `@primitive` records the call.
A new family is a file here and a base class of `Schedule`.
"""
