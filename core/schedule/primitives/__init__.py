"""The primitives, one file a family; the class `Schedule` lists them.

A primitive is a function of a schedule's state. It checks first and raises ScheduleError (made by `errors.refuse`,
which shows the loops) without having changed anything; then it makes the new program by path copying and hands it to
`update`; `@primitive` records the call. A new one is a function here and a line in the body of `Schedule`.
"""
