"""Report of findings: figures as files, and one self-contained HTML page in light and dark."""

from __future__ import annotations

import csv
import io
import math
import platform
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from html import escape
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure as MatplotlibFigure

from fwflow._storage import replacing
from fwflow.methods.catalogue import METHODS
from fwflow.reproduction.claims import HOW_DATA, HOW_FIXED, HOW_JUDGED, LEADS, Claim, Data, Topic, Verdict, data_words
from fwflow.reproduction.framework import MAKER, Figure, Findings, ResultTable, filled, refuse_foreign
from fwflow.reproduction.style import FAINT, INK, as_csv, colours, in_style, in_words, label, legend_below, subplots

Section = tuple[str, str, Any, Findings]

_MARKS = {Verdict.HOLDS: "✓", Verdict.PARTLY: "◐", Verdict.FAILS: "✗", Verdict.UNTESTABLE: "?"}
_VOTES = {1: ("agrees", "✓"), 0: ("undecided", "·"), -1: ("disagrees", "✗")}

REPRODUCTION = (
    "Reproduction of “A Multistep Frank-Wolfe Method”",
    "This report compares the statements of Chen & Sun with the results of this run. It has a summary, a table of all "
    "statements, and a section for each experiment.",
)
#: Experiment whose section says which methods to use. The summary links to it if it is in the report.
ADVICE = "E9"
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

_CLAIM_COLUMNS = ("experiment", "statement", "source", "verdict", "test", "result", "number", "paper", "data", "rule")


def _claim_rows(sections: Sequence[Section]) -> Iterator[tuple[Any, ...]]:
    """Yield a row for every case of every claim."""
    for name, _, _, findings in sections:
        for claim in findings.claims:
            for case, vote in zip(claim.cases, claim.votes, strict=True):
                printed = "" if math.isnan(case.printed) else case.printed
                about = (name, claim.statement, claim.source, claim.verdict.value)
                judged = (case.name, _VOTES[vote][0], case.value, printed)
                yield *about, *judged, data_words(filter(None, [case.data])), claim.rule.words


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
    nav = f'<a class="explorer" href="{EXPLORER}">Explorer: steps of the methods</a>' if explorer else ""
    nav += '<a href="#claims">Statements</a>' if claims else ""
    nav += "".join(f'<a href="#{name}">{name} {escape(title)}</a>' for name, title, _, _ in sections)
    lead += " Quick settings are used: the runs are shorter than those of the paper." if quick else ""
    versions = [f"{name} {version(name)}" for name in ("fwflow", "matplotlib", "numpy", "scipy")]
    return filled(
        Path(__file__).with_suffix(".html"),
        maker=MAKER,
        title=escape(title),
        lead=escape(lead, quote=False),
        summary=_summary(claims, first, any(name == ADVICE for name, *_ in sections)),
        nav=nav,
        claims=_claims(claims),
        sections="".join(_section(*section) for section in sections),
        versions=", ".join([*versions, f"Python {platform.python_version()}"]),
    )


def _summary(claims: Sequence[tuple[str, Claim]], first: Sequence[Figure], advice: bool) -> str:
    rows = "".join(map(_headline, headlines(claims)))
    says = f'<ol class="says">{rows}</ol>' if rows else ""
    if advice:
        says += f'<p class="advice"><a href="#{ADVICE}">Which method for which optimum</a></p>'
    figures = "".join(_figure(f, "The rules are in the table of statements.") for f in first)
    return says + (f'<div class="panels">{figures}</div>' if first else "")


class Headline(NamedTuple):
    """Main statement of the paper, its verdict and evidence, the kinds of data of its tests, and its claims."""

    statement: str
    verdict: Verdict
    evidence: str
    kinds: set[Data]
    claims: list[tuple[str, Claim]]


def headlines(claims: Sequence[tuple[str, Claim]]) -> list[Headline]:
    """Return a headline for every topic that has claims, whose cases are judged together."""
    out = []
    for topic in Topic:
        own = [(name, claim) for name, claim in claims if claim.topic is topic and claim.cases]
        votes = [vote for _, claim in own for vote in claim.votes]
        if votes:
            evidence = f"{votes.count(1)} of {len(votes)} tests agree"
            if contra := votes.count(-1):
                evidence += f" and {contra} {'disagrees' if contra == 1 else 'disagree'}"
            found = [claim.finding for _, claim in own if claim.finding]
            lead = [f"{LEADS[topic]}: {'; '.join(found)}"] if found and topic in LEADS else found
            shown = ". ".join([evidence, *(text[0].upper() + text[1:] for text in lead)])
            kinds = {kind for _, claim in own for kind in claim.kinds}
            out.append(Headline(topic.value, Verdict.of(votes), shown, kinds, own))
    return out


def _headline(headline: Headline) -> str:
    rules = "".join(
        f'<p><a href="#{name}-statements">{name}</a>: {escape(claim.statement)}. {_rule(claim)}</p>'
        for name, claim in headline.claims
    )
    return (
        f'<li>{_verdict("span", headline.verdict)}<span><span class="statement">{escape(headline.statement)}. </span>'
        f'<span class="shows">{escape(headline.evidence)}. Data: {data_words(headline.kinds)}. </span>'
        f"<details><summary>Rules of the verdict</summary>{rules}</details></span></li>"
    )


def _rule(claim: Claim) -> str:
    """Return the description of the numbers of a claim, its rule and its data."""
    return f"Number: {escape(claim.number)}. Rule: {escape(claim.rule.words)}. Data: {data_words(claim.kinds)}."


def panels(findings: Sequence[Findings]) -> list[Figure]:
    """Return the figures of the summary: those of experiments, and one of the gains by line search and momentum."""
    own = [
        replace(found.overview, kinds=found.overview.kinds or found.kinds)
        for found in findings
        if found.overview is not None
    ]
    return own + _gains([claim for found in findings for claim in found.claims if claim.cases])


@in_style
def _gains(claims: Sequence[Claim]) -> list[Figure]:
    """Return a figure of the gains from line search and momentum, with a panel for each kind of equal cost."""
    shown = [claim for topic in (Topic.SEARCH, Topic.MOMENTUM) for claim in claims if claim.topic is topic]
    if not shown:
        return []
    names = [claim.short for claim in reversed(shown)]
    costs = {cost: [c for c in claims if c.cost == cost] for cost in dict.fromkeys(c.cost for c in claims if c.cost)}
    methods = {label(m): m for m in METHODS if label(m) in {case.name for claim in shown for case in claim.cases}}
    colour = dict(zip(methods, colours(list(methods.values())).values(), strict=True))
    panels = [("gain / gain of FW", "Gains from the option", shown)]
    panels += [("gap of FW / gap of the method", f"Gaps with the option,\n{cost}", own) for cost, own in costs.items()]
    figure, grid = subplots(1, len(panels), 2.7 * len(panels) + 1.1, 0.42 * len(shown) + 1.4, sharey=True)
    for ax, (xlabel, title, own) in zip(grid[0], panels, strict=True):
        ax.axvline(1.0, color=INK, lw=0.8)
        for claim in own:
            for case in claim.cases:
                name = f"{case.name}, {claim.short}"
                ax.plot(case.value, names.index(claim.short), "o", color=colour[case.name], ms=5.5, label=name)
        ax.set(xscale="log", xlabel=xlabel, title=title, ylim=(-0.6, len(shown) - 0.4))
    grid[0, 0].set_yticks(range(len(names)), names)
    legend_below(figure, colour, {}, columns=4)
    caption = (
        "Multistep methods with line search or momentum. Left: the gain of a method from the option, divided by the "
        "gain of FW. The other panels show the gap of FW divided by the gap of the method, both with the option, as a "
        "geometric mean along the run: at equal iterations, and at equal numbers of gradients. Multistep methods to "
        "the right of the line are better than FW."
    )
    return [Figure("overview-gains", figure, caption, [kind for *_, own in panels for c in own for kind in c.kinds])]


def _verdict(tag: str, verdict: Verdict) -> str:
    return f'<{tag} class="{verdict.name.lower()}">{_MARKS[verdict]} {verdict.value}</{tag}>'


def _claims(claims: Sequence[tuple[str, Claim]]) -> str:
    if not claims:
        return ""
    paper, beyond = ([(name, c) for name, c in claims if bool(c.source) is own] for own in (True, False))
    count = Counter(claim.verdict for _, claim in paper)
    tally = "; ".join(f"{verdict.value}: {count[verdict]}" for verdict in Verdict if count[verdict])
    return (
        f'<h2 id="claims">Statements of the paper</h2><p>{len(paper)} statements were tested. {tally.capitalize()}.</p>'
        f'<p class="note">{escape(HOW_JUDGED)} {escape(HOW_DATA)}</p>'
        f'<p class="note">{escape(HOW_FIXED)}</p>{_claims_table(paper, "statement of the paper")}'
        + (f"<h3>Statements beyond the paper</h3>{_claims_table(beyond, 'statement')}" if beyond else "")
    )


def _claims_table(claims: Sequence[tuple[str, Claim]], what: str) -> str:
    rows = "".join(
        f'<tr><td><a href="#{name}">{name}</a></td>'
        f"<td>{escape(claim.statement)}<small>{escape(claim.source)}</small>"
        + (f"<small>{escape(claim.note)}</small>" if claim.note else "")
        + f'</td>{_verdict("td", claim.verdict)}<td><ul class="cases">{_cases(claim)}</ul>'
        f"<small>{_rule(claim)}</small></td></tr>"
        for name, claim in claims
    )
    head = f"<tr><th></th><th>{what}</th><th>verdict</th><th>tests, with their numbers</th></tr>"
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


def _provenance(caption: str, kinds: Iterable[Data], rules: str) -> str:
    """Return a caption with the kinds of its data and the place of the rules. A comparison of methods has neither."""
    shown = set(kinds)
    return " ".join(filter(None, [caption, f"Data: {data_words(shown)}." if shown else "", rules]))


def _figure(figure: Figure, rules: str) -> str:
    figure = replace(figure, caption=_provenance(figure.caption, figure.kinds, rules))
    words = "".join(f"<p>{escape(sentence)}</p>" for sentence in in_words(figure.figure))
    name = escape(figure.name)
    return (
        f'<figure data-name="{name}" style="--inches: {figure.figure.get_figwidth():g}">'
        f'<div class="scroll">{_inline_svg(figure)}</div>'
        f"<figcaption>{escape(figure.caption)}</figcaption>"
        '<div class="tools" hidden><button>Enlarge</button><button>SVG</button><button>Data (CSV)</button></div>'
        f'<details id="{name}-words"><summary>In words</summary>{words}</details>'
        f"<pre hidden>{escape(as_csv(figure.figure))}</pre></figure>"
    )


def _section(name: str, title: str, settings: Any, findings: Findings) -> str:
    parts = [f'<section><h2 id="{name}">{name}: {escape(title)}</h2><p>{escape(findings.summary)}</p>']
    parts += [f'<p class="note">Data: {escape(sentence)}</p>' for sentence in findings.data]
    rules = ""
    if findings.claims:
        parts.append(f'<h3 id="{name}-statements">Statements judged in {name}</h3>')
        parts.append(f'<ul class="judged">{"".join(map(_judged, findings.claims))}</ul>')
        rules = f"The rules are in the list of statements judged in {name}."
    parts += [_figure(replace(f, kinds=f.kinds or findings.kinds), rules) for f in findings.figures]
    parts += [_table(replace(t, kinds=t.kinds or findings.kinds), rules) for t in findings.tables]
    shown = "; ".join(f"{setting} = {value}" for setting, value in vars(settings).items())
    parts.append(f"<details><summary>Settings</summary><p><code>{escape(shown)}</code></p></details></section>")
    return "".join(parts)


def _judged(claim: Claim) -> str:
    """Return a statement with its verdict, the explanation, and the rule as a text that unfolds."""
    note = f'<span class="shows">{escape(claim.note)}</span>' if claim.note else ""
    return (
        f"<li>{_verdict('span', claim.verdict)}<span>{escape(claim.statement)}.{note}"
        f"<details><summary>Rule, data: {data_words(claim.kinds)}</summary><p>{_rule(claim)}</p></details></span></li>"
    )


def _table(table: ResultTable, rules: str) -> str:
    head = "".join(f"<th>{escape(cell)}</th>" for cell in table.header)
    rows = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in table.rows)
    caption = _provenance(table.caption, table.kinds, rules)
    note = f'<p class="note">{escape(caption)}</p>' if caption else ""
    return (
        f'<h3>{escape(table.title)}</h3><div class="scroll"><table><thead><tr>{head}</tr></thead>'
        f"<tbody>{rows}</tbody></table></div>{note}"
    )
