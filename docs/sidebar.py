"""A hook of MkDocs: the sidebar is shown from 1,000 pixels on.

Material hides it below 76.25em, which is 1,220 pixels, and has no option for that. The number is in its style sheets
and in its script.
"""

from __future__ import annotations

from pathlib import Path

_HIDDEN_BELOW = {"76.25em": "62.5em", "76.234375em": "62.484375em"}


def on_post_build(*, config: dict[str, object], **_: object) -> None:
    """Called once, after the site is written."""
    assets = Path(str(config["site_dir"])) / "assets"
    changed = 0
    for path in [*assets.glob("stylesheets/*.css"), *assets.glob("javascripts/bundle.*.js")]:
        text = path.read_text(encoding="utf-8")
        new = text
        for width, ours in _HIDDEN_BELOW.items():
            new = new.replace(width, ours)
        if new != text:
            path.write_text(new, encoding="utf-8")
            changed += 1
    if changed < 3:  # two style sheets and the script
        raise RuntimeError("this version of Material has other widths: see docs/sidebar.py")
