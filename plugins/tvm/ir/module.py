"""`tvm.ir.module`."""

from pegbox.tir import IRModule as IRModule
