"""The hook specs that a plugin may implement, and the markers `hookspec` and `hookimpl`.

A plugin is a module. It answers a hook by defining a function of the hook's name under `@hookimpl`::

    from pegbox.hooks import hookimpl

    @hookimpl
    def pegbox_register_tuners():
        return {"annealing": "acme_tuners.annealing:AnnealingTuner"}

and is found through an entry point of the group `pegbox` that names the module. Every hook returns a mapping from a
name to the object, or to the string "module:attribute", which is imported when the name is first used. Prefer the
string: it keeps listings and `pegbox --help` fast, and a broken import then only affects that name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import pluggy

if TYPE_CHECKING:
    from argparse import ArgumentParser

    from pegbox.graph import Graph
    from pegbox.measure import RunnerFactory
    from pegbox.model import NodeTask
    from pegbox.records import ResultsReader
    from pegbox.search import Allocation, CostModel, Tuner
    from pegbox.task import SpaceGenerator, Task

PROJECT = "pegbox"

hookspec = pluggy.HookspecMarker(PROJECT)
hookimpl = pluggy.HookimplMarker(PROJECT)


@hookspec
def pegbox_register_tuners() -> Mapping[str, Callable[..., Tuner] | str]:
    """Register tuners by name. Called once per process, when any name is first looked up or listed.

    The object is a factory, called at the start of a tuning run as `factory(space, *, seed, **options)`, where
    `options` are the user's options after the name (`--tuner NAME:plan_size=32`). It returns a tuner, which is then
    asked for configs and told their results (`pegbox.search.Tuner`) until trials or time run out.
    """
    raise NotImplementedError


@hookspec
def pegbox_register_cost_models() -> Mapping[str, Callable[..., CostModel] | str]:
    """Register cost models by name. Called once per process, when any name is first looked up or listed.

    The object is a factory, called by a tuner with this model as `factory(*, seed, **options)`.
    The model is fitted after each batch of results and asked to rank candidates before the next one
    (`pegbox.search.CostModel`).
    """
    raise NotImplementedError


@hookspec
def pegbox_register_runners() -> Mapping[str, RunnerFactory | str]:
    """Register runners by name. Called once per process, when any name is first looked up or listed.

    A runner takes compiled candidates and times them (`pegbox.measure.Runner`). The object is a factory
    (`pegbox.measure.RunnerFactory`), called once when a tuning run starts to measure.
    """
    raise NotImplementedError


@hookspec
def pegbox_register_runner_objects() -> Mapping[str, Callable[[Any], tuple[str, Mapping[str, Any]]] | str]:
    """Register objects that users may pass as a runner, by the full name of their class ("acme.client.Client").

    The registered object is a function of such an object that returns the name of a runner and its options. Called when
    a runner is given that is not a name.
    """
    raise NotImplementedError


@hookspec
def pegbox_register_templates() -> Mapping[str, Callable[..., Any] | str]:
    """Register templates by name. Called once per process, when any name is first looked up or listed.

    The object is the template itself: a function `(cfg, *args, **kwargs) -> (schedule, tensors)`, decorated with
    `pb.template` or not. It is called once to declare the space of a task and again for every candidate.
    """
    raise NotImplementedError


@hookspec
def pegbox_register_workloads() -> Mapping[str, Callable[..., Any] | str]:
    """Register workloads by name. Called once per process, when any name is first looked up or listed.

    The object is a function of shapes and types that returns the arguments of a kernel, inputs and outputs, without a
    schedule; decorated with `pb.workload` or not. A space generator turns it into a template.
    """
    raise NotImplementedError


@hookspec
def pegbox_register_space_generators() -> Mapping[str, Callable[..., SpaceGenerator] | str]:
    """Register space generators by name, for `create_task(workload, space=NAME)`. Called when any is first looked up.

    The object is a factory, called with the user's options after the name (`space="NAME:depth=3"`). The result is
    called as `generator(tensors, target)` with the arguments of a kernel, and returns the body of a template: a
    function of `cfg` that declares knobs and applies them (`pegbox.task.workload.SpaceGenerator`). If the factory is a
    class that keeps its options as attributes, its objects are named by the text that makes them.
    """
    raise NotImplementedError


@hookspec
def pegbox_register_sketch_rules() -> Mapping[str, Callable[[], object] | str]:
    """Register rules of the space generator `sketch` by name. Called when any name is first looked up.

    The object is a factory without arguments, of a rule that precedes the built-in ones, in the order of the names
    (`pegbox.plugins.sketch.Rule` describes a rule).
    """
    raise NotImplementedError


@hookspec
def pegbox_register_results_readers() -> Mapping[str, Callable[[], ResultsReader] | str]:
    """Register readers of other tools' results by name. Called once per process, at the first lookup or listing.

    The object is a factory without arguments. When a recorded space is opened from a file other than .jsonl, the first
    reader that accepts the file reads it (`pegbox.records.library.ResultsReader`).
    """
    raise NotImplementedError


@hookspec
def pegbox_register_cli_commands() -> Mapping[str, Callable[[ArgumentParser], None] | str]:
    """Register subcommands of `pegbox` by name. Called when the command line starts, and by `pegbox plugins`.

    The object is a function that gets the command's empty `ArgumentParser`, adds its arguments and says what to
    run: `parser.set_defaults(run=fn)` with `fn(namespace) -> int`, the exit code (0 done, 1 nothing valid was
    found, 2 bad usage). The first line of its docstring is the help in `pegbox --help`.
    """
    raise NotImplementedError


@hookspec
def pegbox_register_allocations() -> Mapping[str, Callable[..., Allocation] | str]:
    """Register allocations by name: rules that distribute rounds among the tasks of a model. Called when any is first
    looked up.

    The object is a factory, called with the user's options after the name, and with `total`, the minimized function of
    the seconds of all tasks, if it declares that parameter (`pegbox.search.GradientAllocation`).
    """
    raise NotImplementedError


@hookspec
def pegbox_register_implementations() -> Mapping[str, Callable[[Task], Task | None] | str]:
    """Register implementations of operators by name. Called once per process, at the first lookup or listing.

    The object is a function of a task; it returns a task that computes the same result from the same arguments in the
    same order, by another algorithm or schedule, or None for an operator that it does not implement. If it implements
    the operator, but not with these arguments, it raises an error with the reason (`pegbox.TemplateError`). Users
    search several together: `task.with_implementations()`, `pegbox.operator(..., implementations="all")`, models.
    """
    raise NotImplementedError


@hookspec
def pegbox_register_node_tasks() -> Mapping[str, Callable[..., NodeTask | None] | str]:
    """Register tasks of a model's nodes by name. Called once per process, when any name is first looked up or listed.

    The object is a function `(node, constants, target)` of a node of a graph, of the arrays of its constant inputs, and
    of a target; it returns the task whose kernels compute the node (`pegbox.model.NodeTask`), or None for an unknown
    node. The implementations of the task, and those of other plugins' tasks for the node, are candidates, too: the
    fastest is used.
    """
    raise NotImplementedError


@hookspec
def pegbox_register_model_readers() -> Mapping[str, Callable[..., Graph] | str]:
    """Register readers of models by the ending of their files, such as ".onnx". Called when any is first looked up.

    The object is a function `(path, *, shapes)` that returns the graph of the model in a file; `shapes` are the shapes
    of inputs whose dimensions the file leaves open.
    """
    raise NotImplementedError


# The kinds of `registry.get(kind, name)`, each with the hook that fills it.
HOOK_OF_KIND: dict[str, str] = {
    "tuner": "pegbox_register_tuners",
    "cost_model": "pegbox_register_cost_models",
    "runner": "pegbox_register_runners",
    "runner_object": "pegbox_register_runner_objects",
    "allocation": "pegbox_register_allocations",
    "implementation": "pegbox_register_implementations",
    "node_task": "pegbox_register_node_tasks",
    "model_reader": "pegbox_register_model_readers",
    "template": "pegbox_register_templates",
    "workload": "pegbox_register_workloads",
    "space_generator": "pegbox_register_space_generators",
    "sketch_rule": "pegbox_register_sketch_rules",
    "results_reader": "pegbox_register_results_readers",
    "cli_command": "pegbox_register_cli_commands",
}
