"""An optional base class for tuners: a tuner with its options, before there is a space to search.

`MyTuner(alpha=2)` names no space, so it cannot search yet; it stands for "a MyTuner with alpha=2", which `tune` and
`compare` make anew for each space and each seed.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pegbox.measure.result import Result

if TYPE_CHECKING:
    from pegbox.space import Config, ConfigSpace


@dataclass(frozen=True)
class BoundTuner:
    """A factory of tuners with options given: `BoundTuner(MyTuner, {"alpha": 2})(space, seed=0)`."""

    factory: Callable[..., Any]
    options: Mapping[str, Any]

    def __call__(self, space: ConfigSpace, /, **given: Any) -> Any:
        return self.factory(space, **{**self.options, **given})

    @property
    def __signature__(self) -> inspect.Signature:
        # What is asked for (seed, program, transfer) depends on the factory behind it.
        return inspect.signature(self.factory)

    def __str__(self) -> str:
        written = ", ".join(f"{name}={value!r}" for name, value in self.options.items())
        return f"{getattr(self.factory, '__name__', self.factory)}({written})"


class BaseTuner:
    """Derive from it, or don't: a tuner is any class with `ask` and `tell` (see `pegbox.search.Tuner`).

    What it adds: called without a space, a derived class gives a `BoundTuner`.
    """

    def __new__(cls, space: ConfigSpace | None = None, /, **options: Any) -> Any:
        return super().__new__(cls) if space is not None else BoundTuner(cls, options)

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        # The options are those of __init__; without this, inspect would show the signature of __new__ above.
        parameters = list(inspect.signature(cls.__init__).parameters.values())[1:]
        cls.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]

    def ask(self, n: int) -> Sequence[Config]:
        """At most `n` new configurations; an empty sequence says that the space is exhausted."""
        raise NotImplementedError(f"{type(self).__name__} defines no ask(n)")

    def tell(self, configs: Sequence[Config], results: Sequence[Result]) -> None:
        """Take in measured results, in the order of `configs`; they need not come from `ask`."""
        raise NotImplementedError(f"{type(self).__name__} defines no tell(configs, results)")
