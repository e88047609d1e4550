"""How are findings shown? Figures as files, and one self-contained HTML page in light and dark."""

from __future__ import annotations

import dataclasses
import html
import io
import os
import platform
import re
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure as MatplotlibFigure

from fwflow.experiments.framework import Claim, Figure, Findings, Table, Verdict, replacing
from fwflow.experiments.style import FAINT, INK, RC

Section = tuple[str, str, Any, Findings]

_MARKS = {Verdict.HOLDS: "✓", Verdict.FAILS: "✗", Verdict.UNTESTABLE: "?"}

_CSS = """
:root { color-scheme: light dark; --ink: #1b1d21; --paper: #ffffff; --faint: #d5d8dd; --soft: #f5f6f8;
  --muted: #5b6270; --good: #00734f; --bad: #b3261e; --link: #0b5cad; }
@media (prefers-color-scheme: dark) { :root { --ink: #e7e9ee; --paper: #14161a; --faint: #3a3f48;
  --soft: #1d2026; --muted: #a2a9b6; --good: #4cc79a; --bad: #ff8a80; --link: #7db8ff; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1.5rem 1.25rem 4rem; max-width: 68rem; color: var(--ink); background: var(--paper);
  font: 16px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; }
h1, h2, h3, p, nav a { overflow-wrap: anywhere; }
h1 { font-size: 1.7rem; line-height: 1.2; margin: .5rem 0 .25rem; }
h2 { font-size: 1.25rem; margin: 3rem 0 .5rem; padding-top: .75rem; border-top: 1px solid var(--faint); }
h3 { font-size: 1rem; margin: 1.75rem 0 .4rem; }
p { max-width: 46rem; margin: .5rem 0; }
a { color: var(--link); }
.muted, figcaption, .note { color: var(--muted); font-size: .9rem; }
nav a { display: inline-block; margin: 0 .9rem .25rem 0; }
.scroll { overflow-x: auto; margin: .5rem 0; }
table { border-collapse: collapse; font-size: .88rem; font-variant-numeric: tabular-nums; width: 100%; }
th, td { text-align: left; padding: .35rem .7rem .35rem 0; border-bottom: 1px solid var(--faint); vertical-align: top; }
th { font-weight: 600; color: var(--muted); }
table:not(.claims) td { white-space: nowrap; }
.claims td:nth-child(3) { white-space: nowrap; font-weight: 600; }
.holds { color: var(--good); } .fails { color: var(--bad); } .untestable { color: var(--muted); }
figure { margin: 1.25rem 0; }
figure svg { width: 100%; height: auto; min-width: 34rem; color: var(--ink); }
figcaption { max-width: 46rem; }
details { margin: .75rem 0; } summary { cursor: pointer; color: var(--muted); font-size: .9rem; }
code { font-size: .85em; background: var(--soft); padding: .1em .35em; border-radius: 4px; overflow-wrap: anywhere; }
@media (max-width: 40rem) { body { padding: 1rem .9rem 3rem; }
  .claims, .claims tbody, .claims tr, .claims td { display: block; } .claims thead { display: none; }
  .claims td { border: 0; padding: .1rem 0; } .claims tr { padding: .6rem 0;
  border-bottom: 1px solid var(--faint); } }
"""


REPRODUCTION = (
    "A Multistep Frank-Wolfe Method, reproduced",
    "Every figure, table and proposition of Chen & Sun that a run can test, and what this one says.",
)


def write_report(
    out: Path, sections: Sequence[Section], quick: bool = False, heading: tuple[str, str] = REPRODUCTION
) -> Path:
    """Write ``out/index.html`` and ``out/figures/*.{svg,png,pdf}``; returns the path of the page."""
    figures = out / "figures"
    figures.mkdir(parents=True, exist_ok=True)
    for _, _, _, findings in sections:
        for figure in findings.figures:
            save_figure(figure.figure, figures / figure.name)
    page = out / "index.html"
    with replacing(page) as file:
        file.write(_page(sections, quick, *heading))
    return page


def save_figure(figure: MatplotlibFigure, stem: Path) -> None:
    """A figure for print, dark ink on white, as SVG, PDF and PNG; each file is whole or not there."""
    freeze(figure)
    for suffix in (".svg", ".pdf", ".png"):
        buffer = io.BytesIO()
        # Without dates, equal figures are equal files.
        metadata = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}.get(suffix, {})
        with mpl.rc_context(RC):
            figure.savefig(buffer, format=suffix[1:], dpi=200, facecolor="white", metadata=metadata)
        temporary = stem.with_suffix(suffix + ".part")
        temporary.write_bytes(buffer.getvalue())
        os.replace(temporary, stem.with_suffix(suffix))


def freeze(figure: MatplotlibFigure) -> None:
    """Lay the figure out once and for all: a layout engine moves things a little each time it draws."""
    if figure.get_layout_engine() is not None:
        FigureCanvasAgg(figure)
        figure.draw_without_rendering()
        figure.set_layout_engine("none")


def _svg(figure: MatplotlibFigure) -> str:
    freeze(figure)
    buffer = io.StringIO()
    with mpl.rc_context(RC):
        figure.savefig(buffer, format="svg", metadata={"Date": None})
    return buffer.getvalue()


def _inline_svg(figure: Figure) -> str:
    """SVG that takes its ink from the page, with names of its own."""
    svg = _svg(figure.figure)
    svg = svg[svg.index("<svg") :].replace(INK, "currentColor").replace(FAINT, "var(--faint)")
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    prefix = re.sub(r"\W", "", figure.name)
    svg = re.sub(r'\bid="([^"]+)"', rf'id="{prefix}-\1"', svg)
    svg = re.sub(r'(xlink:href="#|url\(#)', rf"\g<1>{prefix}-", svg)
    return svg.replace("<svg ", f'<svg role="img" aria-label="{html.escape(figure.caption)}" ', 1)


def _page(sections: Sequence[Section], quick: bool, title: str, lead: str) -> str:
    names = {"numpy", "scipy", "matplotlib"}
    versions = ", ".join(f"{name} {version(name)}" for name in sorted(names))
    claims = [(name, claim) for name, _, _, findings in sections for claim in findings.claims]
    held = sum(claim.verdict is Verdict.HOLDS for _, claim in claims)
    nav = "".join(f'<a href="#{name}">{name} {html.escape(title)}</a>' for name, title, _, _ in sections)
    body = "".join(_section(*section) for section in sections)
    summary = (
        f'<h2 id="claims">Claims</h2><p>{held} of {len(claims)} statements hold in this run.</p>{_claims(claims)}'
        if claims
        else ""
    )
    speed = " Quick settings: smaller runs than the paper's." if quick else ""
    return f"""<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>{html.escape(title)}</title><style>{_CSS}</style></head>
<body>
<header><h1>{html.escape(title)}</h1>
<p>{html.escape(lead)}{speed}</p>
<nav>{nav}</nav></header>
<main>
{summary}
{body}
</main>
<footer><p class="muted">fwflow {version("fwflow")}, {versions}, Python {platform.python_version()}.</p></footer>
</body>
</html>
"""


def _claims(claims: Sequence[tuple[str, Claim]]) -> str:
    rows = "".join(
        f'<tr><td><a href="#{name}">{name}</a></td><td>{html.escape(claim.statement)}</td>'
        f'<td class="{claim.verdict.name.lower()}">{_MARKS[claim.verdict]} {claim.verdict.value}</td>'
        f"<td>{html.escape(claim.evidence)}</td></tr>"
        for name, claim in claims
    )
    head = "<tr><th></th><th>statement of the paper</th><th>verdict</th><th>evidence</th></tr>"
    return f'<div class="scroll"><table class="claims"><thead>{head}</thead><tbody>{rows}</tbody></table></div>'


def _section(name: str, title: str, settings: Any, findings: Findings) -> str:
    parts = [f'<section><h2 id="{name}">{name}: {html.escape(title)}</h2><p>{html.escape(findings.summary)}</p>']
    parts += [f'<p class="note">Data: {html.escape(sentence)}</p>' for sentence in findings.data]
    for figure in findings.figures:
        caption = html.escape(figure.caption)
        parts.append(
            f'<figure><div class="scroll">{_inline_svg(figure)}</div><figcaption>{caption}</figcaption></figure>'
        )
    parts += [_table(table) for table in findings.tables]
    shown = "; ".join(f"{f.name} = {getattr(settings, f.name)}" for f in dataclasses.fields(settings))
    parts.append(f"<details><summary>Settings</summary><p><code>{html.escape(shown)}</code></p></details></section>")
    return "".join(parts)


def _table(table: Table) -> str:
    head = "".join(f"<th>{html.escape(cell)}</th>" for cell in table.header)
    rows = "".join("<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>" for row in table.rows)
    note = f'<p class="note">{html.escape(table.caption)}</p>' if table.caption else ""
    return (
        f'<h3>{html.escape(table.title)}</h3><div class="scroll"><table><thead><tr>{head}</tr></thead>'
        f"<tbody>{rows}</tbody></table></div>{note}"
    )
