"""The primitives, one file for each family; the class `Schedule` lists them.

A primitive is a function of a schedule's state. First it checks its arguments, and raises ScheduleError, with the loops
shown, before anything has changed. Then it makes the new program by path copying and passes it to `update`;
`@primitive` records the call. To add a primitive, write a function here and a line in the body of `Schedule`.
"""
