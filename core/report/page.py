"""Self-contained pages of HTML: the frame, figures and tables."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from html import escape
from types import MappingProxyType

from pegbox.output import Content

PAGE = Content("a page of HTML", re.compile(rb"(?:\xef\xbb\xbf)?\s*<(?:!doctype html|html)", re.IGNORECASE))

_STYLE = """
:root{color-scheme:light dark}
body{max-width:1240px;margin:0 auto;padding:24px 20px;font:15px/1.5 system-ui,sans-serif}
h1{font-size:25px}
h2{font-size:19px;margin-bottom:0}
h3{font-size:14px;margin:0}
section{border-top:1px solid #8886;margin-top:24px}
.soft,figcaption,caption,dt,footer,summary{opacity:.7}
.warning{border-left:4px solid #d9822b;padding-left:12px}
.charts{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(420px,100%),1fr));gap:20px;margin-top:16px}
figure{margin:0}
figure svg{display:block;width:100%;height:auto;background:#fff}
.scroll{overflow-x:auto;margin:16px 0}
table{border-collapse:collapse;width:100%;font-size:13px;font-variant-numeric:tabular-nums}
caption{text-align:left}
th,td{padding:6px;text-align:right;border-bottom:1px solid #8884}
td:not(.left){white-space:nowrap}
th:first-child,td:first-child,.left{text-align:left}
dl{display:grid;grid-template-columns:max-content 1fr;gap:3px 20px}
dd{margin:0;overflow-wrap:anywhere}
@media print{section{break-inside:avoid}}
"""
"""A style, light or dark by the reader's setting; pictures have a white background."""


def document(title: str, subtitle: str, parts: Iterable[str]) -> str:
    """Write a whole page; `parts` are HTML, and empty ones are left out."""
    lines = [
        "<!doctype html>",
        '<html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width,initial-scale=1">',
        f"<title>{escape(title)}</title><style>{_STYLE}</style></head><body><main>",
        f'<header><h1>{escape(title)}</h1><p class="soft">{escape(subtitle)}</p></header>',
        *parts,
        "</main></body></html>",
    ]
    return "\n".join(filter(None, lines)) + "\n"


def figure(title: str, caption: str, description: str, svg: str) -> str:
    """Write a picture with a title above and a caption below; the description is for readers who can't see it."""
    return (
        f'<figure><h3>{escape(title)}</h3><div role="img" aria-label="{escape(f"{title}. {description}")}">{svg}</div>'
        f"<figcaption>{escape(caption)}</figcaption></figure>"
    )


def definitions(rows: Iterable[tuple[str, str]]) -> str:
    """Write names with their explanations."""
    return f"<dl>{''.join(f'<dt>{escape(name)}</dt><dd>{escape(value)}</dd>' for name, value in rows)}</dl>"


def table(
    header: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    left: Collection[int] = (),
    caption: str = "",
    meanings: Mapping[str, str] = MappingProxyType({}),
    name: Callable[[str], str] = escape,
) -> str:
    """Write a table of text: the first column and those in `left` (from 0) to the left, numbers to the right.

    `meanings` of headers are shown next to the pointer; `name` escapes the columns to the left.
    """
    sides = [' class="left"' if place in left else "" for place in range(len(header))]
    titles = [f' title="{escape(meanings[each])}"' if each in meanings else "" for each in header]
    head = "".join(
        f'<th scope="col"{title}{side}>{escape(each)}</th>'
        for each, title, side in zip(header, titles, sides, strict=True)
    )
    lines = [f"<caption>{escape(caption)}</caption>"] if caption else []
    lines.append(f"<thead><tr>{head}</tr></thead><tbody>")
    for first, *cells in rows:
        shown = [
            f"<td{side}>{(name if side else escape)(cell)}</td>" for cell, side in zip(cells, sides[1:], strict=True)
        ]
        lines.append(f'<tr><th scope="row">{name(first)}</th>{"".join(shown)}</tr>')
    return f'<div class="scroll"><table>{"".join(lines)}</tbody></table></div>'
