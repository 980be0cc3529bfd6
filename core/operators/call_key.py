"""`CallKey`: the properties of a call that identify its kernel before any template is imported."""

from typing import NamedTuple, TypeAlias

Inputs: TypeAlias = tuple[tuple[tuple[int, ...], str], ...]
"""The shape and the dtype of each input."""


class CallKey(NamedTuple):
    """The identity of a kernel by which another process can find it, made without templates, plugins and LLVM.

    Attributes:
        function: the name of a template or workload, or "path/to/file.py:name" with the whole path, or
            "package.module:name", each followed by the fingerprint of the code if the function itself was given; empty
            for a function that no other process can find, and for a space that no text describes: then nothing is kept.
        given: the arguments that do not come from arrays, as JSON with sorted keys; empty if JSON cannot represent
            them: then nothing is kept.
        inputs: the shape and dtype of each input.
        target: the processor, without LLVM's name for this machine's processor: see `Target.key`.
        space: the text that describes the space generator of a workload.
        packed: the places of the inputs that are operands of `op.pack`.
    """

    function: str
    given: str
    inputs: Inputs
    target: str
    space: str
    packed: tuple[int, ...] = ()

    @property
    def can_be_kept(self) -> bool:
        """True if other processes can find a kernel under this key."""
        return bool(self.function and self.given)
