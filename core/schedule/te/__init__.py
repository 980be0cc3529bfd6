"""TE schedules: stages that record relations, rewrites of the compute graph, and the replay on `tir.Schedule`."""
