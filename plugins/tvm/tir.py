"""`tvm.tir`: schedules, programs and functions of expressions, by TVM's names."""

from pegbox.tir import *  # noqa: F403  (TVM's names are pegbox's)
