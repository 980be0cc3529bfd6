"""TE schedules: stages that record what shall happen, rewrites of the graph, and the replay on `tir.Schedule`."""
