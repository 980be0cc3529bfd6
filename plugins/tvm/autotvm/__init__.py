"""`tvm.autotvm`: templates, tuners, measuring and records, by AutoTVM's names."""
