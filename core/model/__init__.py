"""Models: the tasks of a graph's nodes, the configurations that they run with, and the module that runs them all."""

from pegbox.model.node_task import Argument, NodeTask

__all__ = ["Argument", "NodeTask"]
