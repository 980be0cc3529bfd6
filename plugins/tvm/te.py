"""`tvm.te`: the compute language and TE schedules, by TVM's names."""

from pegbox.plugins.tvm.te_operation import *  # noqa: F403
from pegbox.te import *  # noqa: F403  (TVM's names are pegbox's)
from pegbox.te import TESchedule

Schedule = TESchedule
