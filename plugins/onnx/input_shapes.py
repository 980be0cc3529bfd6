"""The shapes of a model's inputs, with a number for each open dimension of the file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

import onnx

from pegbox.checks import check_int, check_list, near_names
from pegbox.errors import GraphError, UnknownShape

Shapes: TypeAlias = Mapping[str, int | Sequence[int]]
"""Shapes by the names of inputs, and extents by the names of dimensions."""


class OpenShapes(GraphError):
    """A model's file leaves shapes open that were not given."""


def fix_shapes(inputs: Sequence[onnx.ValueInfoProto], shapes: Shapes) -> list[tuple[int, ...]]:
    """Return the shape of each input.

    Raises:
        OpenShapes: a dimension stays open.
        UnknownShape: a name is neither an input nor a dimension of the model.
        GraphError: a given shape does not fit the file's.
    """
    names = {each.name for each in inputs}
    symbols = {dim.dim_param for each in inputs for dim in each.type.tensor_type.shape.dim if dim.dim_param}
    extents: dict[str, int] = {}
    whole: dict[str, list[int]] = {}
    unknown: list[str] = []
    for name, value in shapes.items():
        if name in names and not isinstance(value, int):
            members = check_list(f"shapes[{name!r}]", value, "its extents", error=GraphError)
            whole[name] = [_extent(f"shapes[{name!r}]", member) for member in members]
        elif name in symbols:
            one = value[0] if isinstance(value, tuple) and len(value) == 1 else value  # the form of --shape batch=2
            extents[name] = _extent(f"shapes[{name!r}]", one)
        elif name in names:
            raise GraphError(f"shapes[{name!r}]={value!r} is not a shape; give the extents of the input as a tuple")
        else:
            unknown.append(name)
    if unknown:
        known = near_names(unknown[0], [*sorted(names), *sorted(symbols)])
        raise UnknownShape(f"shapes: the model has neither an input nor a dimension {unknown[0]!r}{known}", unknown)
    for each in inputs:
        if each.name in whole:
            _bind(each, whole[each.name], extents)
    found = [_shape(each, whole.get(each.name), extents) for each in inputs]
    if None in found:
        raise _open(inputs, found)
    return [shape for shape in found if shape is not None]


def _extent(what: str, value: object) -> int:
    return check_int(what, value, minimum=0, error=GraphError)


def _bind(proto: onnx.ValueInfoProto, shape: Sequence[int], extents: dict[str, int]) -> None:
    """Take the extents of named dimensions from the shape of an input."""
    kind = proto.type.tensor_type
    dims = kind.shape.dim
    if kind.HasField("shape") and len(dims) != len(shape):
        raise GraphError(f"shapes[{proto.name!r}]={tuple(shape)}: the input has {len(dims)} dimensions, {_text(proto)}")
    for dim, extent in zip(dims, shape, strict=False):
        if dim.HasField("dim_value") and dim.dim_value != extent:
            raise GraphError(
                f"shapes[{proto.name!r}]={tuple(shape)}: the file fixes its shape to {_text(proto)}; export the model "
                "with dimensions that are left open (dynamic_axes, dynamic_shapes)"
            )
        if dim.dim_param and extents.setdefault(dim.dim_param, extent) != extent:
            raise GraphError(
                f"shapes[{proto.name!r}]={tuple(shape)}: the dimension {dim.dim_param!r} is {extents[dim.dim_param]} "
                "elsewhere; give it one extent"
            )


def _shape(
    proto: onnx.ValueInfoProto, whole: Sequence[int] | None, extents: Mapping[str, int]
) -> tuple[int, ...] | None:
    kind = proto.type.tensor_type
    if whole is not None:
        return tuple(whole)
    if not kind.HasField("shape"):
        return None
    found = [dim.dim_value if dim.HasField("dim_value") else extents.get(dim.dim_param) for dim in kind.shape.dim]
    extents_of = [extent for extent in found if extent is not None and extent >= 0]
    return tuple(extents_of) if len(extents_of) == len(found) else None


def _open(inputs: Sequence[onnx.ValueInfoProto], found: Sequence[tuple[int, ...] | None]) -> OpenShapes:
    """Make the error that lists the inputs without a shape."""
    missing = [each for each, shape in zip(inputs, found, strict=True) if shape is None]
    symbols = {dim.dim_param: 0 for each in missing for dim in each.type.tensor_type.shape.dim if dim.dim_param}
    by_name = ", ".join(f"{name!r}: ..." for name in symbols)
    by_input = ", ".join(f"{each.name!r}: (...)" for each in missing)
    remedy = f"shapes={{{by_input}}}" + (f", or shapes={{{by_name}}}" if symbols else "")
    listing = ", ".join(f"{each.name}{_text(each)}" for each in missing)
    remedy += f"; on the command line --shape {missing[0].name}=N,N,..."
    remedy += f", or --shape {next(iter(symbols))}=N" if symbols else ""
    return OpenShapes(f"the model leaves open the shapes of {listing}; give them: {remedy}")


def _text(proto: onnx.ValueInfoProto) -> str:
    kind = proto.type.tensor_type
    if not kind.HasField("shape"):
        return " (of any number of dimensions)"
    return f"[{', '.join(str(d.dim_value) if d.HasField('dim_value') else d.dim_param or '?' for d in kind.shape.dim)}]"
