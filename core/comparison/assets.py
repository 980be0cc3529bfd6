"""The style sheet and the script of the HTML report. Both stand in the page: it loads nothing."""

from __future__ import annotations

from pegbox.comparison.palette import DARK, LIGHT


def style() -> str:
    """Light and dark by the reader's own setting; colours of tuners are the variables --c0, --c1, ..."""
    light = "".join(f"--c{place}:{colour};" for place, colour in enumerate(LIGHT))
    dark = "".join(f"--c{place}:{colour};" for place, colour in enumerate(DARK))
    series = "".join(f".c{place}{{--c:var(--c{place})}}" for place in range(len(LIGHT)))
    return f":root{{{_LIGHT}{light}}}@media(prefers-color-scheme:dark){{:root{{{_DARK}{dark}}}}}{series}{_RULES}"


_LIGHT = (
    "color-scheme:light dark;--page:#fbfbfa;--card:#ffffff;--ink:#1d1f23;--soft:#5c6370;--rule:#e3e4e8;--hint:#f3f4f6;"
)
_DARK = "--page:#15171b;--card:#1d2025;--ink:#e8e9ec;--soft:#a0a6b1;--rule:#33373f;--hint:#262a31;"

_RULES = """
*{box-sizing:border-box}
body{margin:0;background:var(--page);color:var(--ink);
font:15px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,sans-serif}
main{max-width:1240px;margin:0 auto;padding:32px 20px 64px}
h1{font-size:25px;line-height:1.25;margin:0 0 6px;letter-spacing:-.01em}
h2{font-size:19px;margin:0 0 2px}
h3{font-size:14px;margin:0 0 6px}
p{margin:0 0 8px}
.soft,figcaption,dt,footer{color:var(--soft)}
section{background:var(--card);border:1px solid var(--rule);border-radius:10px;padding:22px 24px;margin:22px 0}
.warning{border-left:4px solid #d9822b;padding:8px 14px;background:var(--hint);border-radius:4px;margin:14px 0}
.verdicts{list-style:none;margin:16px 0 20px;padding:0;border:1px solid var(--rule);border-radius:8px}
.verdicts li{padding:8px 14px;display:grid;grid-template-columns:minmax(170px,220px) 1fr;gap:4px 16px}
.verdicts li+li{border-top:1px solid var(--rule)}
.verdicts .whole{display:block}
.legend{display:flex;flex-wrap:wrap;gap:4px 20px;list-style:none;margin:0 0 8px;padding:0}
.swatch{width:30px;height:10px;margin-right:7px}
.charts{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(420px,100%),1fr));gap:20px}
figure{margin:0;position:relative;min-width:0}
figcaption{font-size:13px}
.chart{display:block;width:100%;height:auto;overflow:visible;touch-action:pan-y}
.chart:focus-visible{outline:2px solid var(--c0);outline-offset:3px;border-radius:4px}
.line{fill:none;stroke:var(--c);stroke-width:2;stroke-linejoin:round}
.band{fill:var(--c);opacity:.12}
.grid{stroke:var(--rule);stroke-width:1}
.axis{stroke:var(--soft);stroke-width:1;fill:none}
.cursor{stroke:var(--soft);stroke-width:1;visibility:hidden}
.tick,.label{fill:var(--soft);font-size:12px}
.tip{position:absolute;bottom:92px;pointer-events:none;visibility:hidden;background:var(--card);
border:1px solid var(--rule);border-radius:6px;padding:6px 10px;
font-size:13px;box-shadow:0 3px 12px #0002;white-space:nowrap;z-index:1}
.tip i{display:inline-block;width:9px;height:9px;border-radius:50%;background:var(--c);margin-right:7px}
.tip b{font-variant-numeric:tabular-nums;float:right;margin-left:16px}
.scroll{overflow-x:auto;margin-top:18px}
table{border-collapse:collapse;width:100%;font-size:13px;font-variant-numeric:tabular-nums}
caption{text-align:left;color:var(--soft);font-size:13px;padding-bottom:6px}
th,td{padding:7px;text-align:right;white-space:nowrap;border-bottom:1px solid var(--rule)}
th:first-child,td:first-child{text-align:left}
thead th{white-space:normal;vertical-align:bottom;font-weight:600;color:var(--soft);border-bottom-width:2px}
tbody tr:hover{background:var(--hint)}
th[scope=row]{font-weight:600;white-space:normal;overflow-wrap:anywhere;min-width:130px}
.left{text-align:left}
details{margin-top:14px}
summary{cursor:pointer;color:var(--soft)}
dl{display:grid;grid-template-columns:max-content 1fr;gap:3px 20px;margin:10px 0 0}
dd{margin:0;overflow-wrap:anywhere}
footer{font-size:13px}
@media(max-width:640px){.verdicts li,.verdicts span,dl{display:block}dd{margin-bottom:6px}section{padding:16px 14px}}
@media print{section{break-inside:avoid}.tip,.cursor{display:none}}
"""

SCRIPT = """
for (const svg of document.querySelectorAll('.chart')) {
  const data = JSON.parse(svg.dataset.chart), cursor = svg.querySelector('.cursor');
  const tip = svg.parentElement.querySelector('.tip');
  const show = n => {
    const trial = svg.trial = Math.min(Math.max(n, 1), data.trials);
    const x = data.left + (trial - 1) / Math.max(data.trials - 1, 1) * (data.right - data.left);
    cursor.setAttribute('x1', x); cursor.setAttribute('x2', x); cursor.style.visibility = 'visible';
    tip.replaceChildren(Object.assign(document.createElement('div'), {textContent: `trial ${trial}`}));
    data.names.forEach((name, place) => {
      const row = document.createElement('div'), dot = document.createElement('i'), value = document.createElement('b');
      dot.className = `c${place % 8}`;
      value.textContent = `${(100 * data.values[place][trial - 1]).toFixed(1)}%`;
      row.append(dot, name, value);
      tip.append(row);
    });
    const at = x / data.width * svg.clientWidth, right = at > svg.clientWidth / 2;
    tip.style.left = right ? 'auto' : `${at + 12}px`;
    tip.style.right = right ? `${svg.clientWidth - at + 12}px` : 'auto';
    tip.style.visibility = 'visible';
  };
  const hide = () => { tip.style.visibility = cursor.style.visibility = 'hidden'; };
  svg.addEventListener('pointermove', event => {
    const box = svg.getBoundingClientRect(), x = (event.clientX - box.left) / box.width * data.width;
    show(Math.round(1 + (x - data.left) / (data.right - data.left) * (data.trials - 1)));
  });
  svg.addEventListener('pointerleave', hide);
  svg.addEventListener('blur', hide);
  svg.addEventListener('keydown', event => {
    const step = {ArrowLeft: -1, ArrowRight: 1, PageDown: -10, PageUp: 10}[event.key];
    if (step) { event.preventDefault(); show((svg.trial || 1) + step); }
  });
}
"""
