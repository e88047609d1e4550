"""Report of findings: figures as files, and one self-contained HTML page in light and dark."""

from __future__ import annotations

import csv
import io
import math
import platform
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from html import escape
from importlib.metadata import version
from pathlib import Path
from typing import Any

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure as MatplotlibFigure

from fwflow._storage import replacing
from fwflow.methods.catalogue import METHODS
from fwflow.reproduction.claims import HOW_JUDGED, Claim, Topic, Verdict
from fwflow.reproduction.framework import MAKER, Figure, Findings, ResultTable, filled, refuse_foreign
from fwflow.reproduction.style import FAINT, INK, as_csv, colours, in_style, in_words, label, legend_below, subplots

Section = tuple[str, str, Any, Findings]

_MARKS = {Verdict.HOLDS: "✓", Verdict.PARTLY: "◐", Verdict.FAILS: "✗", Verdict.UNTESTABLE: "?"}
_VOTES = {1: ("for", "✓"), 0: ("neither", "·"), -1: ("against", "✗")}

REPRODUCTION = (
    "A Multistep Frank-Wolfe Method, reproduced",
    "The statements of Chen & Sun and the results of this run: a summary, then all claims, then all experiments.",
)
#: Page of the explorer. The report links to it if both are in the same folder.
EXPLORER = "explorer.html"


def write_report(
    out: Path, sections: Sequence[Section], quick: bool = False, heading: tuple[str, str] = REPRODUCTION
) -> Path:
    """Write ``index.html``, ``claims.csv`` and ``figures/*.{svg,png,pdf,csv}``; return the path of the page."""
    figures, page = out / "figures", out / "index.html"
    figures.mkdir(parents=True, exist_ok=True)
    first = panels([findings for *_, findings in sections])
    drawn = (*first, *(figure for *_, findings in sections for figure in findings.figures))
    for path in (page, *((figures / f.name).with_suffix(s) for f in drawn for s in _CREDITS)):
        refuse_foreign(path)
    for figure in drawn:
        save_figure(figure.figure, figures / figure.name)
    if any(findings.claims for *_, findings in sections):
        with replacing(out / "claims.csv") as file:
            csv.writer(file).writerows([_CLAIM_COLUMNS, *_claim_rows(sections)])
    with replacing(page) as file:
        file.write(_page(sections, first, quick, (out / EXPLORER).exists(), *heading))
    return page


# Metadata of the figures, without dates, so that equal figures are equal files.
_CREDITS: dict[str, dict[str, str | None]] = {
    ".svg": {"Creator": MAKER, "Date": None},
    ".pdf": {"Creator": MAKER, "CreationDate": None},
    ".png": {"Software": MAKER},
}

_CLAIM_COLUMNS = ("experiment", "statement", "source", "verdict", "case", "says", "number", "paper")


def _claim_rows(sections: Sequence[Section]) -> Iterator[tuple[Any, ...]]:
    """Yield a row for every case of every claim."""
    for name, _, _, findings in sections:
        for claim in findings.claims:
            for case, vote in zip(claim.cases, claim.votes, strict=True):
                printed = "" if math.isnan(case.printed) else case.printed
                about = (name, claim.statement, claim.source, claim.verdict.value)
                yield *about, case.name, _VOTES[vote][0], case.value, printed


@in_style
def save_figure(figure: MatplotlibFigure, stem: Path) -> None:
    """Write a figure for print, dark on white, as SVG, PDF and PNG, and its data as CSV."""
    # The layout is computed once, because a layout engine moves things a little each time it draws.
    FigureCanvasAgg(figure)
    figure.draw_without_rendering()
    figure.set_layout_engine("none")
    for suffix, metadata in _CREDITS.items():
        buffer = io.BytesIO()
        figure.savefig(buffer, format=suffix[1:], dpi=200, facecolor="white", metadata=metadata)
        with replacing(stem.with_suffix(suffix), "wb") as file:
            file.write(buffer.getvalue())
    with replacing(stem.with_suffix(".csv")) as text:
        text.write(as_csv(figure))


@in_style
def _inline_svg(figure: Figure) -> str:
    """Return SVG with the colours of the page and with identifiers that are unique in it."""
    buffer = io.StringIO()
    figure.figure.savefig(buffer, format="svg", metadata={"Date": None})
    svg = buffer.getvalue()
    svg = svg[svg.index("<svg") :].replace(INK, "currentColor").replace(FAINT, "var(--faint)")
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    prefix = re.sub(r"\W", "", figure.name)
    svg = re.sub(r'\bid="([^"]+)"', rf'id="{prefix}-\1"', svg)
    svg = re.sub(r'(xlink:href="#|url\(#)', rf"\g<1>{prefix}-", svg)
    described = f'role="img" aria-label="{escape(figure.caption)}" aria-describedby="{figure.name}-words"'
    # An inch has the same width in every figure, so that all texts have the same size.
    width = f'style="max-width: {7 * figure.figure.get_figwidth():g}rem"'
    return svg.replace("<svg ", f"<svg {described} {width} ", 1)


def _page(
    sections: Sequence[Section], first: Sequence[Figure], quick: bool, explorer: bool, title: str, lead: str
) -> str:
    claims = [(name, claim) for name, _, _, findings in sections for claim in findings.claims]
    nav = f'<a class="explorer" href="{EXPLORER}">Explorer: the methods step by step</a>' if explorer else ""
    nav += '<a href="#claims">Claims</a>' if claims else ""
    nav += "".join(f'<a href="#{name}">{name} {escape(title)}</a>' for name, title, _, _ in sections)
    lead += " Quick settings: smaller runs than the paper's." if quick else ""
    versions = [f"{name} {version(name)}" for name in ("fwflow", "matplotlib", "numpy", "scipy")]
    return filled(
        Path(__file__).with_suffix(".html"),
        maker=MAKER,
        title=escape(title),
        lead=escape(lead, quote=False),
        summary=_summary([claim for _, claim in claims], first),
        nav=nav,
        claims=_claims(claims),
        sections="".join(_section(*section) for section in sections),
        versions=", ".join([*versions, f"Python {platform.python_version()}"]),
    )


def _summary(claims: Sequence[Claim], first: Sequence[Figure]) -> str:
    rows = "".join(
        f"<li>{_verdict('span', verdict)}<span>{escape(statement)}. "
        f'<span class="shows">{escape(evidence)}.</span></span></li>'
        for statement, verdict, evidence in sentences(claims)
    )
    says = f'<ol class="says">{rows}</ol>' if rows else ""
    return says + (f'<div class="panels">{"".join(map(_figure, first))}</div>' if first else "")


def sentences(claims: Sequence[Claim]) -> list[tuple[str, Verdict, str]]:
    """Return statement, verdict and evidence for every topic that has claims, whose cases are judged together."""
    out = []
    for topic in Topic:
        own = [claim for claim in claims if claim.topic is topic]
        votes = [vote for claim in own for vote in claim.votes]
        if votes:
            evidence = f"{votes.count(1)} of {len(votes)} cases speak for it"
            evidence += f" and {votes.count(-1)} against" if -1 in votes else ""
            findings = "; ".join(claim.finding for claim in own if claim.finding)
            out.append((topic.value, Verdict.of(votes), f"{evidence}: {findings}" if findings else evidence))
    return out


def panels(findings: Sequence[Findings]) -> list[Figure]:
    """Return the figures of the summary: those of experiments, and one of the gains by line search and momentum."""
    own = [found.overview for found in findings if found.overview is not None]
    return own + _gains([claim for found in findings for claim in found.claims if claim.cases])


@in_style
def _gains(claims: Sequence[Claim]) -> list[Figure]:
    shown = [claim for topic in (Topic.SEARCH, Topic.MOMENTUM) for claim in claims if claim.topic is topic]
    if not shown:
        return []
    methods = {label(m): m for m in METHODS if label(m) in {case.name for claim in shown for case in claim.cases}}
    colour = dict(zip(methods, colours(list(methods.values())).values(), strict=True))
    figure, grid = subplots(1, 1, 3.4, 3.0)
    ax = grid[0, 0]
    ax.axvline(1.0, color=INK, lw=0.8)
    for row, claim in enumerate(reversed(shown)):
        for case in claim.cases:
            ax.plot(case.value, row, "o", color=colour[case.name], ms=6, label=f"{case.name}, {claim.short}")
    ax.set_yticks(range(len(shown)), [claim.short.replace(", ", "\n") for claim in reversed(shown)])
    ax.set(xscale="log", xlabel="gain over FW's", title="Gains of multistep methods", ylim=(-0.6, len(shown) - 0.4))
    legend_below(figure, colour, {}, columns=2)
    caption = (
        "Gains of multistep methods by line search and by momentum along the run, relative to FW's gain. "
        "Right of the line they gain more than FW."
    )
    return [Figure("overview-gains", figure, caption)]


def _verdict(tag: str, verdict: Verdict) -> str:
    return f'<{tag} class="{verdict.name.lower()}">{_MARKS[verdict]} {verdict.value}</{tag}>'


def _claims(claims: Sequence[tuple[str, Claim]]) -> str:
    if not claims:
        return ""
    paper, beyond = ([(name, c) for name, c in claims if bool(c.source) is own] for own in (True, False))
    count = Counter(claim.verdict for _, claim in paper)
    tally = "; ".join(f"{verdict.value}: {count[verdict]}" for verdict in Verdict if count[verdict])
    return (
        f'<h2 id="claims">Claims</h2><p>{len(paper)} statements of the paper. {tally.capitalize()}.</p>'
        f'<p class="note">{escape(HOW_JUDGED)}</p>{_claims_table(paper, "statement of the paper")}'
        + (f"<h3>Beyond the paper</h3>{_claims_table(beyond, 'statement')}" if beyond else "")
    )


def _claims_table(claims: Sequence[tuple[str, Claim]], what: str) -> str:
    rows = "".join(
        f'<tr><td><a href="#{name}">{name}</a></td>'
        f"<td>{escape(claim.statement)}<small>{escape(claim.source)}</small></td>"
        f'{_verdict("td", claim.verdict)}<td><ul class="cases">{_cases(claim)}</ul>'
        f"<small>Shown: {escape(claim.number)}. Rule: {escape(claim.rule.words)}.</small></td></tr>"
        for name, claim in claims
    )
    head = f"<tr><th></th><th>{what}</th><th>verdict</th><th>for which methods and data</th></tr>"
    return f'<div class="scroll"><table class="claims"><thead>{head}</thead><tbody>{rows}</tbody></table></div>'


def _cases(claim: Claim) -> str:
    """Return the cases as a list: those for the statement, then those that are neither, then those against it."""
    out = []
    for vote, case in sorted(zip(claim.votes, claim.cases, strict=True), key=lambda pair: -pair[0]):
        word, mark = _VOTES[vote]
        paper = "" if math.isnan(case.printed) else f" <i>(paper {case.printed:.3g})</i>"
        out.append(
            f'<li><span class="{word}">{mark}<span class="hidden"> {word}:</span></span> '
            f"{escape(case.name)} <b>{claim.shown(case)}</b>{paper}</li>"
        )
    return "".join(out)


def _figure(figure: Figure) -> str:
    words = "".join(f"<p>{escape(sentence)}</p>" for sentence in in_words(figure.figure))
    name = escape(figure.name)
    return (
        f'<figure data-name="{name}"><div class="scroll">{_inline_svg(figure)}</div>'
        f"<figcaption>{escape(figure.caption)}</figcaption>"
        '<div class="tools" hidden><button>Enlarge</button><button>SVG</button><button>Data (CSV)</button></div>'
        f'<details id="{name}-words"><summary>In words</summary>{words}</details>'
        f"<pre hidden>{escape(as_csv(figure.figure))}</pre></figure>"
    )


def _section(name: str, title: str, settings: Any, findings: Findings) -> str:
    parts = [f'<section><h2 id="{name}">{name}: {escape(title)}</h2><p>{escape(findings.summary)}</p>']
    parts += [f'<p class="note">Data: {escape(sentence)}</p>' for sentence in findings.data]
    parts += map(_figure, findings.figures)
    parts += [_table(table) for table in findings.tables]
    shown = "; ".join(f"{setting} = {value}" for setting, value in vars(settings).items())
    parts.append(f"<details><summary>Settings</summary><p><code>{escape(shown)}</code></p></details></section>")
    return "".join(parts)


def _table(table: ResultTable) -> str:
    head = "".join(f"<th>{escape(cell)}</th>" for cell in table.header)
    rows = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in table.rows)
    note = f'<p class="note">{escape(table.caption)}</p>' if table.caption else ""
    return (
        f'<h3>{escape(table.title)}</h3><div class="scroll"><table><thead><tr>{head}</tr></thead>'
        f"<tbody>{rows}</tbody></table></div>{note}"
    )
