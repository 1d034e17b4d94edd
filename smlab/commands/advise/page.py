"""The annotated source and machine code of ``smlab advise --html``: one file, no scripts."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import jinja2

from smlab.commands.advise.kernel_advice import KernelAdvice
from smlab.commands.advise.printing import interval, place, text
from smlab.hw_bench.files import write_atomic
from smlab.hw_bench.profiles.pc_samples.samples import SELECTED
from smlab.validation.report.page import CONTENT_POLICY

COLOURS: Final = {
    "selected": "#3a7d44",
    "not_selected": "#9bc59d",
    "long_scoreboard": "#b3261e",
    "short_scoreboard": "#d97706",
    "wait": "#c9b458",
    "barrier": "#6d4fa1",
    "math_pipe_throttle": "#2f6fb0",
    "mio_throttle": "#0f8b8d",
    "lg_throttle": "#7a3e1d",
}
OTHER: Final = "#8a8f98"
FLAME_LINES: Final = 24

_PAGE: Final = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
{{ policy }}
<title>smlab advise</title>
<style>
:root { color-scheme: light dark; }
body { font: 15px/1.45 system-ui, sans-serif; margin: 1.5rem auto; max-width: 72rem; padding: 0 1rem; }
table { border-collapse: collapse; width: 100%; font: 12.5px/1.35 ui-monospace, monospace; }
td, th { padding: 1px 6px; text-align: left; vertical-align: top; }
td.n { text-align: right; white-space: nowrap; }
td.code { white-space: pre-wrap; overflow-wrap: anywhere; }
tr:target { outline: 2px solid #b3261e; }
.bar { display: flex; height: 11px; min-width: 120px; }
.bar i { display: block; height: 100%; }
.scroll { overflow-x: auto; }
.advice { border-left: 4px solid #3a7d44; margin: .8rem 0; padding: .1rem .8rem; }
.key span { display: inline-block; margin-right: .9rem; }
.key i { display: inline-block; width: 10px; height: 10px; margin-right: 4px; }
small { opacity: .75; }
</style></head><body>
<h1>smlab advise</h1>
{% for k in kernels %}
<h2>{{ k.name }} on {{ k.gpu }}</h2>
<p>{{ k.summary }}{% if k.note %}<br><small>{{ k.note }}</small>{% endif %}</p>
{% for a in k.advice %}<div class="advice">
<h3>{{ loop.index }}. {{ a.name }}: {{ a.speedup }}</h3><p>{{ a.text }}</p>
<p>{% for p in a.places %}
<a href="#k{{ k.id }}-{{ p.address }}">{{ p.label }}</a>{{ ", " if not loop.last }}
{% endfor %}</p></div>{% else %}<p>Nothing to advise.</p>{% endfor %}
<p class="key">{% for name, colour in k.key %}<span><i style="background:{{ colour }}"></i>{{ name }}</span>
{% endfor %}</p>
<h3>Blame by source line</h3>
<div class="scroll"><table><tr><th>line</th><th>samples</th><th>reasons</th><th>source</th></tr>
{% for r in k.lines %}<tr><td class="n">{{ r.line }}</td><td class="n">{{ r.samples }}</td>
<td><div class="bar" style="width:{{ r.width }}px">
{% for c, w in r.parts %}
<i style="background:{{ c }};width:{{ w }}%"></i>{% endfor %}</div></td>
<td class="code">{{ r.text }}</td></tr>{% endfor %}</table></div>
<h3>Machine code</h3>
<div class="scroll"><table><tr><th>line</th><th>address</th><th>samples here</th>
<th>blamed for</th><th>reasons here</th>
<th>instruction</th></tr>
{% for r in k.code %}<tr id="k{{ k.id }}-{{ r.address }}"><td class="n">{{ r.line }}</td>
<td>{{ r.address }}</td>
<td class="n">{{ r.samples }}</td><td class="n">{{ r.blamed }}</td>
<td><div class="bar" style="width:{{ r.width }}px">
{% for c, w in r.parts %}
<i style="background:{{ c }};width:{{ w }}%"></i>{% endfor %}</div></td>
<td class="code">{{ r.text }}</td></tr>{% endfor %}</table></div>
{% endfor %}
</body></html>
"""


def write_page(kernels: tuple[KernelAdvice, ...], path: Path) -> None:
    """Write the page whole or not at all."""
    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined)
    rows = [_kernel(n, kernel) for n, kernel in enumerate(kernels)]
    write_atomic(path, environment.from_string(_PAGE).render(kernels=rows, policy=CONTENT_POLICY))


def _kernel(number: int, kernel: KernelAdvice) -> dict[str, Any]:
    samples = kernel.samples
    reasons = sorted(samples.reasons(), key=lambda r: -samples.reasons()[r])
    return {
        "id": number,
        "name": samples.kernel,
        "gpu": kernel.gpu.name,
        "summary": f"{samples.samples:,} samples, {samples.active:,} of them while the scheduler issued.",
        "note": kernel.note,
        "advice": [_advice(kernel, n) for n in range(len(kernel.advice))],
        "key": [(reason, COLOURS.get(reason, OTHER)) for reason in reasons],
        "lines": _lines(kernel),
        "code": _code(kernel),
    }


def _advice(kernel: KernelAdvice, number: int) -> dict[str, Any]:
    advice = kernel.advice[number]
    low, high = interval(advice)
    places = [place(kernel, spot) for spot in advice.match.hotspots[:6]]
    return {
        "name": advice.optimizer.name,
        "speedup": f"{advice.speedup:.2f} ({low:.2f} to {high:.2f})",
        "text": text(kernel, advice),
        "places": [
            {"address": f"{p['address']:#06x}", "label": f"{p['address']:#06x} ({100 * p['share']:.1f} %)"}
            for p in places
        ],
    }


def _parts(reasons: dict[str, float]) -> list[tuple[str, str]]:
    total = sum(reasons.values()) or 1.0
    order = sorted(reasons, key=lambda r: -reasons[r])
    return [(COLOURS.get(r, OTHER), f"{100 * reasons[r] / total:.2f}") for r in order]


def _lines(kernel: KernelAdvice) -> list[dict[str, Any]]:
    """Blame by line, the most first: stalls at their causes, issued samples at their own instruction."""
    by_line: dict[int | None, dict[str, float]] = {}
    if kernel.blamed is not None and kernel.code is not None:
        for b in kernel.blamed.blame:
            reasons = by_line.setdefault(kernel.code.line(b.cause), {})
            reasons[b.reason] = reasons.get(b.reason, 0.0) + b.samples
    else:
        by_line = {row.line or row.address: dict(row.stalled) for row in kernel.samples.rows}
    most = max((sum(r.values()) for r in by_line.values()), default=1.0) or 1.0
    order = sorted(by_line, key=lambda line: -sum(by_line[line].values()))[:FLAME_LINES]
    return [
        {
            "line": "" if line is None else line,
            "samples": f"{sum(by_line[line].values()):,.0f}",
            "width": f"{300 * sum(by_line[line].values()) / most:.0f}",
            "parts": _parts(by_line[line]),
            "text": kernel.samples.source.get(line or 0, ""),
        }
        for line in order
    ]


def _code(kernel: KernelAdvice) -> list[dict[str, Any]]:
    code = kernel.code
    if code is None or kernel.blamed is None:
        return []
    rows = {code.number[row.address]: row for row in kernel.samples.rows}
    blamed = kernel.blamed.by_cause()
    most = max((row.samples for row in rows.values()), default=1) or 1
    told = []
    for n, instruction in enumerate(code.instructions):
        row = rows.get(n)
        here = 0 if row is None else row.samples
        reasons = {} if row is None else {r: float(c) for r, c in row.stalled.items()}
        line = code.line(n)
        loop = code.innermost_loop(n)
        indent = "  " * (0 if loop is None else loop.depth)
        told.append(
            {
                "line": "" if line is None else line,
                "address": f"{instruction.address:#06x}",
                "samples": f"{here:,}" if here else "",
                "blamed": f"{blamed[n]:,.0f}" if blamed.get(n, 0) >= 0.5 else "",
                "width": f"{200 * here / most:.0f}",
                "parts": _parts(reasons) if SELECTED in reasons or reasons else [],
                "text": f"{indent}{instruction}",
            }
        )
    return told
