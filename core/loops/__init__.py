"""The loop IR: nodes, walking, modules, verification, equality and printing."""
