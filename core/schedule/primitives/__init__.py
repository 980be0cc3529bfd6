"""The primitives, one file per family. `Schedule` inherits from the class of each.

A primitive checks first and raises ScheduleError (made by `outline.refuse`, which shows the loops) without having
changed anything; then it makes the new program by path copying and hands it to `_set`; `@primitive` records the call.
A family to come is a file here and a base class of `Schedule`: rfactor belongs into reduction.py, storage_align and
set_scope into storage.py, transform_layout into layout.py, blockize and tensorize into tensorize.py.
"""
