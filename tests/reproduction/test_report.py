from __future__ import annotations

import csv
import re
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import matplotlib as mpl
import matplotlib.image
import numpy as np
import pytest

import fwflow as fw
from fwflow.reproduction import framework, report
from fwflow.reproduction.claims import HOW_DATA, HOW_FIXED, HOW_JUDGED, Case, Claim, Data, Topic, VerdictRule
from fwflow.reproduction.framework import Figure, Findings, ResultTable
from fwflow.reproduction.report import write_report
from fwflow.reproduction.style import FAINT, INK, RC, legend_below, subplots

VOID = {"meta", "br", "hr", "img", "input", "link"}
NASTY = """<b>"bold"</b> & 'x' &amp; </style><script>alert(1)</script> ‖x‖² → Δ"""


@dataclass(frozen=True)
class Settings:
    methods: tuple[str, ...] = ("fw", "rk44")
    note: str = NASTY


def drawing():
    """A figure with what makes identifiers in SVG: markers, clipping and text."""
    figure, grid = subplots(1, 1, 3.0, 2.0)
    with mpl.rc_context(RC):
        grid[0, 0].plot([1, 2, 3], [1, 3, 2], "o-", label=NASTY)
        grid[0, 0].set(xlabel="k", title="gap")
    legend_below(figure, {"FW": "#D55E00"}, {})
    return figure


def claim(statement, *values, source="Figure 3", **options):
    cases = tuple(
        Case(f"{method}, {NASTY}", value, 7.25) for method, value in zip(("RK44", "RK5"), values, strict=False)
    )
    options = {"data": Data.GENERATED, "note": f"note, {NASTY}", **options}
    return Claim(statement, source, VerdictRule.above(f"words, {NASTY}"), cases, f"number, {NASTY}", **options)


def findings(name):
    return Findings(
        summary=f"Summary of {name}: {NASTY}",
        data=[f"First data of {name}: {NASTY}", f"Second data of {name}."],
        figures=[Figure(f"{name}-drawing", drawing(), f"Caption of {name}: {NASTY}")],
        tables=[
            ResultTable(f"Table of {name}: {NASTY}", ("method", NASTY), [("FW", "1"), (NASTY, "2")], f"Note, {NASTY}")
        ],
        claims=[
            claim(f"Statement of {name}: {NASTY}", 2.0, 3.0, topic=Topic.FLOW, finding=f"finding of {name}, {NASTY}"),
            claim(f"Compromise of {name}", 2.0, 0.5, topic=Topic.RATE),
            claim(f"Denial of {name}", 1.0, 0.5),
            claim(f"Doubt of {name}"),
            claim(f"Extra of {name}", 1.0, source=""),
        ],
        overview=Figure(f"{name}-first", drawing(), f"First of {name}: {NASTY}", [Data.REAL]),
        kinds=[Data.GENERATED, Data.REAL],
    )


SECTIONS = [("E1", f"Title, {NASTY}", Settings(), findings("e1")), ("E2", "Other", Settings(), findings("e2"))]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    out = tmp_path_factory.mktemp("report")
    assert write_report(out, SECTIONS) == out / "index.html"
    return out


@pytest.fixture(scope="module")
def page(folder):
    return (folder / "index.html").read_text(encoding="utf-8")


class Page(HTMLParser):
    """Elements in order, as (tag, attributes, text within), and a check that they nest."""

    def __init__(self, text):
        super().__init__()
        self.open, self.elements = [], []
        self.feed(text)
        self.close()
        assert self.open == [], f"never closed: {self.open}"

    def handle_starttag(self, tag, attributes):
        assert len(dict(attributes)) == len(attributes), f"{tag} repeats an attribute"
        self.elements.append((tag, dict(attributes), []))
        if tag not in VOID:
            self.open.append((tag, self.elements[-1][2]))

    def handle_startendtag(self, tag, attributes):
        self.elements.append((tag, dict(attributes), []))

    def handle_endtag(self, tag):
        assert self.open, f"</{tag}> closes nothing"
        name, _ = self.open.pop()
        assert name == tag, f"</{tag}> closes <{name}>"

    def handle_data(self, data):
        for _, text in self.open:
            text.append(data)

    def texts(self, tag, **attributes):
        return [
            "".join(text) for name, given, text in self.elements if name == tag and attributes.items() <= given.items()
        ]


@pytest.fixture(scope="module")
def parsed(page):
    return Page(page)


def test_checker_sees_what_is_wrong():
    for wrong in ("<p><b></p></b>", "<p>", "</p>", '<p id="a" id="b"></p>'):
        with pytest.raises(AssertionError):
            Page(wrong)


def test_page_is_valid(parsed, page):
    assert page.startswith("<!doctype html>")
    assert parsed.texts("html", lang="en")
    assert [a for tag, a, _ in parsed.elements if tag == "meta"] == [
        {"charset": "utf-8"},
        {"name": "viewport", "content": "width=device-width, initial-scale=1"},
        {"name": "generator", "content": framework.MAKER},
    ]
    assert [len(parsed.texts(tag)) for tag in ("h1", "title", "main", "body")] == [1, 1, 1, 1]


def test_identifiers_are_unique_and_links_resolve(parsed):
    ids = [a["id"] for _, a, _ in parsed.elements if "id" in a]
    assert len(set(ids)) == len(ids)
    links = [a[name] for _, a, _ in parsed.elements for name in ("href", "xlink:href") if name in a]
    assert {"#E1", "#E2", "#claims"} < set(links)
    assert {link.removeprefix("#") for link in links} <= set(ids)
    described = [a["aria-describedby"] for tag, a, _ in parsed.elements if tag == "svg"]
    assert len(set(described) & set(ids)) == len(described) == 4
    used = {
        match for _, a, _ in parsed.elements for v in a.values() for match in re.findall(r"url\(#([^)]*)\)", v or "")
    }
    assert used
    assert used <= set(ids)


def test_figures_refer_to_themselves_only(page):
    figures = re.findall(r"<svg .*?</svg>", page, flags=re.DOTALL)
    assert len(figures) == 4
    for svg in figures:
        ids = set(re.findall(r'\bid="([^"]+)"', svg))
        assert set(re.findall(r'(?:xlink:href="|url\()#([^")]+)', svg)) <= ids
        ElementTree.fromstring(svg)  # well-formed


def test_page_fetches_nothing(page, parsed):
    assert not {"link", "img", "iframe", "object", "embed"} & {tag for tag, _, _ in parsed.elements}
    assert [a for tag, a, _ in parsed.elements if tag == "script"] == [{}]  # inline, and nothing else is one
    assert not re.search(r"fetch|XMLHttp|import|https?:", parsed.texts("script")[0])
    attributes = [(name, value) for _, a, _ in parsed.elements for name, value in a.items()]
    assert not [name for name, _ in attributes if name in ("src", "srcset", "data", "poster") or name.startswith("on")]
    assert all(value.startswith("#") for name, value in attributes if name in ("href", "xlink:href"))
    assert "@import" not in page
    assert set(re.findall(r"url\((.)", page)) == {"#"}
    namespaces = {"http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"}
    assert set(re.findall(r"""https?://[^\s"'<]+""", page)) <= namespaces


def test_text_is_shown_as_it_is(parsed):
    summary = "Data: real. The rules are in the table of statements."
    sections = [
        f"Data: real and generated. The rules are in the list of statements judged in {n}." for n in ("E1", "E2")
    ]
    assert parsed.texts("figcaption") == [
        f"First of e1: {NASTY} {summary}", f"First of e2: {NASTY} {summary}",
        f"Caption of e1: {NASTY} {sections[0]}", f"Caption of e2: {NASTY} {sections[1]}",
    ]  # fmt: skip
    assert f"E1: Title, {NASTY}" in parsed.texts("h2")
    assert f"Summary of e1: {NASTY}" in parsed.texts("p")
    assert f"Table of e2: {NASTY}" in parsed.texts("h3")
    assert NASTY in parsed.texts("th")
    assert NASTY in parsed.texts("td")
    notes = parsed.texts("p", **{"class": "note"})
    assert notes[:2] == [f"{HOW_JUDGED} {HOW_DATA}", HOW_FIXED]
    assert notes[2:5] == [
        f"Data: First data of e1: {NASTY}", "Data: Second data of e1.", f"Note, {NASTY} {sections[0]}"
    ]  # fmt: skip
    assert parsed.texts("code")[0] == f"methods = ('fw', 'rk44'); note = {NASTY}"
    labels = [a["aria-label"] for tag, a, _ in parsed.elements if tag == "svg"]
    assert labels == parsed.texts("figcaption")


def test_claims_have_verdicts_cases_rules_and_the_papers_numbers(parsed):
    cells = parsed.texts("td")
    shown = f"Number: number, {NASTY}. Rule: words, {NASTY}. Data: generated."
    source = f"Figure 3note, {NASTY}"
    yes, no = f"✓ agrees: RK44, {NASTY} 2 (paper 7.25)", f"✗ disagrees: RK5, {NASTY} 0.5 (paper 7.25)"
    assert cells[:16] == [
        "E1", f"Statement of e1: {NASTY}{source}", "✓ holds", f"{yes}✓ agrees: RK5, {NASTY} 3 (paper 7.25){shown}",
        "E1", f"Compromise of e1{source}", "◐ holds in part", f"{yes}{no}{shown}",
        "E1", f"Denial of e1{source}", "✗ does not hold", f"· undecided: RK44, {NASTY} 1 (paper 7.25){no}{shown}",
        "E1", f"Doubt of e1{source}", "? not testable here", shown,
    ]  # fmt: skip
    for name, text in (
        ("partly", "◐ holds in part"),
        ("fails", "✗ does not hold"),
        ("untestable", "? not testable here"),
    ):
        assert parsed.texts("td", **{"class": name})[:2] == [text] * 2
    tally = "8 statements were tested. Holds: 2; holds in part: 2; does not hold: 2; not testable here: 2."
    assert tally in parsed.texts("p")


def test_claims_are_a_table_of_numbers_too(folder):
    with open(folder / "claims.csv", encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 2 * (2 + 2 + 2 + 1)
    assert list(rows[3].values()) == [
        "E1", "Compromise of e1", "Figure 3", "holds in part", f"RK5, {NASTY}", "disagrees", "0.5", "7.25",
        "generated", f"words, {NASTY}",
    ]  # fmt: skip
    assert list(rows[3])[-2:] == ["data", "rule"]


def test_sections_judge_their_statements_where_they_explain_them(parsed):
    first = parsed.texts("ul", **{"class": "judged"})[0]
    rule = f"Rule, data: generatedNumber: number, {NASTY}. Rule: words, {NASTY}. Data: generated."
    assert first.startswith(f"✓ holdsStatement of e1: {NASTY}.note, {NASTY}{rule}◐ holds in partCompromise of e1.")
    assert first.count(rule) == 5


def test_summary_links_to_the_advice_if_it_is_there(tmp_path, page):
    assert "Which method for which optimum" not in page
    sections = [SECTIONS[0], (report.ADVICE, "Advice", Settings(), Findings("Use this."))]
    parsed = Page(write_report(tmp_path, sections).read_text())
    links = {"".join(text): a["href"] for tag, a, text in parsed.elements if tag == "a"}
    assert links["Which method for which optimum"] == "#E9"


def test_what_goes_beyond_the_paper_stands_apart(parsed, page):
    assert "Statements beyond the paper" in parsed.texts("h3")
    assert page.index("Denial of e2") < page.index("Statements beyond the paper") < page.index("Extra of e1")


def test_first_screen_then_claims_then_experiments(parsed, page):
    rows = parsed.texts("ol", **{"class": "says"})
    assert len(rows) == 1
    says = [text for text in parsed.texts("li") if "Rules of the verdict" in text]
    found = f"4 of 4 tests agree. Finding of e1, {NASTY}. Finding of e2, {NASTY}. Data: generated. "
    rule = f"Number: number, {NASTY}. Rule: words, {NASTY}. Data: generated."
    assert says == [
        f"✓ holds{Topic.FLOW.value}. {found}Rules of the verdict"
        f"E1: Statement of e1: {NASTY}. {rule}E2: Statement of e2: {NASTY}. {rule}",
        f"◐ holds in part{Topic.RATE.value}. 2 of 4 tests agree and 2 disagree. Data: generated. Rules of the verdict"
        f"E1: Compromise of e1. {rule}E2: Compromise of e2. {rule}",
    ]
    order = [
        'class="says"',
        'data-name="e1-first"',
        'data-name="e2-first"',
        "<nav>",
        'id="claims"',
        'id="E1"',
        'id="E2"',
    ]
    assert sorted(order, key=page.index) == order


def test_figures_have_their_data_and_words(parsed):
    data = parsed.texts("pre")
    assert len(data) == 4
    header = f"gap | {NASTY} | k,gap | {NASTY} | y".replace('"', '""')
    assert data[0].splitlines()[1:] == ["1,1", "2,3", "3,2"]
    assert data[0].splitlines()[0] == ",".join(f'"{cell}"' for cell in header.split(","))
    words = [text for text in parsed.texts("details") if text.startswith("In words")]
    assert words == [f"In wordsgap: y against k. First and last value of each series: {NASTY} 1 at 1, 2 at 3."] * 4
    assert parsed.texts("button") == ["Enlarge", "SVG", "Data (CSV)"] * 4 + ["Close"]


def test_link_to_the_explorer_is_there_if_it_is(tmp_path):
    sections = [("E1", "", Settings(), Findings("."))]
    assert 'href="explorer.html"' not in write_report(tmp_path, sections).read_text()
    (tmp_path / "explorer.html").touch()
    parsed = Page(write_report(tmp_path, sections).read_text())
    assert len(parsed.texts("a", href="explorer.html")) == 1


def test_tables_have_all_their_rows(parsed):
    assert len(parsed.texts("table")) == 4
    assert len(parsed.texts("tr")) == (1 + 8) + (1 + 2) + 2 * (1 + 2)


def test_page_follows_the_reader_in_light_and_dark(page):
    assert "color-scheme: light dark" in page
    assert "@media (prefers-color-scheme: dark)" in page
    assert INK not in page
    assert FAINT not in page
    svg = page[page.index("<svg") : page.index("</svg>")]
    assert "currentColor" in svg
    assert "var(--faint)" in svg
    used = set(re.findall(r"var\((--\w+)\)", page)) - {"--inches"}  # a size and not a colour
    light, dark = page.split("@media (prefers-color-scheme: dark)")
    printed = dark[dark.index("@media print") :]
    parts = (light, dark[: dark.index("} }")], printed[: printed.index("}")])
    defined = [re.findall(r"(--\w+): (#\w+)", part) for part in parts]
    assert used <= {name for name, _ in defined[0]}
    assert [name for name, _ in defined[0]] == [name for name, _ in defined[1]]
    assert defined[2] == defined[0]  # on paper the page is light


def test_page_says_what_made_it(parsed):
    footer = parsed.texts("footer")[0]
    assert f"fwflow {fw.__version__}," in footer
    assert f"numpy {np.__version__}," in footer


def test_quick_run_says_so(tmp_path, page):
    assert "Quick settings" not in page
    quick = write_report(tmp_path, [("E1", "", Settings(), Findings("."))], quick=True).read_text()
    assert "Quick settings are used: the runs are shorter than those of the paper." in quick


def test_figures_are_files_too(folder):
    begins = {".svg": b"<?xml", ".png": b"\x89PNG", ".pdf": b"%PDF", ".csv": b'"gap | '}
    expected = {f"{name}-{what}{suffix}" for name in ("e1", "e2") for what in ("drawing", "first") for suffix in begins}
    assert {path.name for path in (folder / "figures").iterdir()} == expected
    for path in (folder / "figures").iterdir():
        assert path.read_bytes().startswith(begins[path.suffix])


def test_figures_for_print_are_dark_on_white(folder):
    pixels = mpl.image.imread(folder / "figures" / "e1-drawing.png")
    assert (pixels[0, 0] == 1).all()
    assert pixels[..., :3].min() < 0.1
    svg = ElementTree.parse(folder / "figures" / "e1-drawing.svg").getroot()
    background = next(e for e in svg.iter("{http://www.w3.org/2000/svg}path"))
    assert "fill: #ffffff" in background.get("style")


def test_equal_findings_are_equal_files(tmp_path):
    for name in ("first", "second"):
        write_report(tmp_path / name, SECTIONS[:1])
    for path in (tmp_path / "first").rglob("*.*"):
        assert (tmp_path / "second" / path.relative_to(tmp_path / "first")).read_bytes() == path.read_bytes(), path.name


def test_page_is_replaced_whole_or_not_at_all(tmp_path, monkeypatch):
    sections = [("E1", "", Settings(), Findings("."))]
    page = write_report(tmp_path, sections)
    old = page.read_text()

    def stopped(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(report, "_section", stopped)
    with pytest.raises(KeyboardInterrupt):
        write_report(tmp_path, sections)
    assert page.read_text() == old
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == ["index.html"]


def test_figure_is_replaced_whole_or_not_at_all(tmp_path, monkeypatch):
    figure, path = drawing(), tmp_path / "a.pdf"
    path.write_text("old")

    def interrupted(file, **_):
        if isinstance(file, (str, Path)):
            Path(file).write_bytes(b"half")
        raise KeyboardInterrupt

    monkeypatch.setattr(figure, "savefig", interrupted)
    with pytest.raises(KeyboardInterrupt):
        report.save_figure(figure, tmp_path / "a")
    assert path.read_text() == "old"


def test_sections_without_figures_or_claims(tmp_path):
    parsed = Page(write_report(tmp_path, [("E1", "Bare", Settings(), Findings("Nothing."))]).read_text())
    assert parsed.texts("h2")[-1] == "E1: Bare"
    assert parsed.texts("figure") == []
    parsed = Page(write_report(tmp_path, []).read_text())
    assert parsed.texts("section") == []
