"""Built-in operator templates; each is an ordinary plugin."""

if __name__ != "pegbox.templates":
    raise ImportError(
        f"this package was imported as {__name__!r}; import it as 'pegbox.templates' after 'pip install -e .': "
        "a second name would make a second copy of every class"
    )

from typing import TYPE_CHECKING

from pegbox.hooks import on_demand

if TYPE_CHECKING:
    from pegbox.templates.weights import pack_weights

__all__ = ["pack_weights"]

# Every command needs the names of the templates; packing weights loads NumPy and schedules.
__getattr__ = on_demand(__name__, {"pack_weights": "pegbox.templates.weights"})
