from __future__ import annotations

import csv
import json
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.request
from dataclasses import replace
from xml.etree import ElementTree

import numpy as np
import pytest

from fwflow.reproduction import e3_triangle, e6_sensing, report, runs
from fwflow.reproduction.claims import Case, Claim, Topic, VerdictRule
from fwflow.reproduction.framework import Findings, ResultTable
from fwflow.reproduction.report import write_report

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome", "chrome"))), None)
DRIVER = shutil.which("chromedriver")
pytestmark = pytest.mark.skipif(
    not (CHROMIUM and DRIVER), reason="needs Chromium and chromedriver on the path to open the report in a browser"
)

FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--host-resolver-rules=MAP * ~NOTFOUND",
)  # fmt: skip
WIDTHS = {"desktop": 1280, "phone": 375}
THEMES = ("light", "dark")


class Browser:
    """A headless Chromium, driven over WebDriver's plain HTTP protocol."""

    def __init__(self, profile):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        self.url = f"http://127.0.0.1:{port}"
        self.process = subprocess.Popen(
            [DRIVER, f"--port={port}"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        options = {"binary": CHROMIUM, "args": [*FLAGS, f"--user-data-dir={profile}"]}
        wanted = {"goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL"}}
        try:
            self.wait()
            session = self.call("/session", capabilities={"alwaysMatch": wanted})
        except BaseException:
            self.process.kill()
            self.process.wait()
            raise
        self.url += f"/session/{session['sessionId']}"

    def wait(self):
        for _ in range(600):
            try:
                with urllib.request.urlopen(f"{self.url}/status") as answer:
                    if json.load(answer)["value"]["ready"]:
                        return
            except urllib.error.URLError:
                time.sleep(0.05)
        raise TimeoutError("chromedriver did not start")

    def call(self, path, **parameters):
        request = urllib.request.Request(f"{self.url}{path}", json.dumps(parameters).encode())
        with urllib.request.urlopen(request) as answer:
            return json.load(answer)["value"]

    def devtools(self, command, **parameters):
        return self.call("/goog/cdp/execute", cmd=command, params=parameters)

    def show(self, page, width, theme):
        """Open the page; returns what the console said."""
        self.devtools(
            "Emulation.setDeviceMetricsOverride", width=width, height=800, deviceScaleFactor=1, mobile=width < 500
        )
        self.devtools("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": theme}])
        self.call("/url", url=page.as_uri())
        return self.call("/se/log", type="browser")

    def press(self, key):
        actions = [{"type": "keyDown", "value": key}, {"type": "keyUp", "value": key}]
        self.call("/actions", actions=[{"type": "key", "id": "keyboard", "actions": actions}])

    def run(self, script):
        return self.call("/execute/sync", script=script, args=[])

    def quit(self):
        try:
            urllib.request.urlopen(urllib.request.Request(self.url, method="DELETE")).close()
        finally:
            self.process.terminate()
            self.process.wait()


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    browser = Browser(tmp_path_factory.mktemp("profile"))
    yield browser
    browser.quit()


def run(gap, calls=1):
    k = np.arange(60)
    x = np.exp(-k / 5) * np.cos(k) / 2
    return {
        "k": k,
        "calls": calls * k,
        "passes": k,
        "time": 0.01 * k,
        "fun": 1 / (1 + k),
        "gap": gap / (1 + k),
        "x": x,
        "y": 1 / (1 + k),
    }


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """A report with a wide figure, a tall one, wide and narrow tables, and long words everywhere."""
    triangle, sensing = e3_triangle.Settings(iterations=59), e6_sensing.Settings(iterations=59)
    results = {runs.key(m, v): run(1.0) for m in triangle.methods for v in e3_triangle.VARIANTS}
    results["flow"] = {name: 0.9 * run(1.0)[name][: triangle.drawn + 1] for name in ("x", "y")}
    first = e3_triangle.findings(triangle, results)
    variants = e3_triangle.SEARCHES
    results = {runs.key(m, v): run(2.0) for m in sensing.methods for v in variants}
    second = runs.findings("e6", "Summary.", "Caption.", "Data. " * 30, sensing.methods, variants, results)
    wide = ResultTable("Wide", [f"column {i}" for i in range(14)], [["0.123456789"] * 14] * 3)
    second.tables.append(wide)
    second.overview = replace(first.overview, name="overview-other")
    cases = tuple(Case(f"a method on a data set, W = {w}", 1.0 / w, 0.123) for w in range(1, 9))
    words = "the gap shrinks by the factor 1.234, " * 8
    topics = (Topic.FLOW, Topic.ZIGZAG, Topic.RATE)
    second.claims += [
        Claim("A statement, " * 8, "Figure 9", VerdictRule.above(words), cases, words, words, t) for t in topics
    ]
    sections = [("E3", "Triangle", triangle, first), ("E6", "Sensing", sensing, second)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(report, "save_figure", lambda figure, stem: None)
        out = tmp_path_factory.mktemp("page")
        (out / "explorer.html").write_text("<!doctype html><title>explorer</title>")
        return write_report(out, sections, quick=True)


@pytest.fixture(scope="module", params=[(w, t) for w in WIDTHS for t in THEMES], ids="-".join)
def shown(request, browser, page):
    width, theme = request.param
    console = browser.show(page, WIDTHS[width], theme)
    return browser, width, theme, console


def test_console_is_silent_and_nothing_is_fetched(shown):
    browser, _, _, console = shown
    assert console == []
    assert browser.run("return performance.getEntriesByType('resource').map(e => e.name)") == []


#: Elements whose text ends beyond the right edge, unless it scrolls within a container, and by how much the page does.
STICKING_OUT = """
const page = document.documentElement, out = [];
const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
while (texts.nextNode()) {
    const parent = texts.currentNode.parentElement, range = document.createRange();
    range.selectNodeContents(texts.currentNode);
    if (!parent.closest('.scroll') && range.getBoundingClientRect().right > page.clientWidth) out.push(parent.tagName);
}
return [out, page.scrollWidth - page.clientWidth]"""


def test_page_has_the_width_of_the_screen(shown):
    browser, width, *_ = shown
    assert browser.run(STICKING_OUT) == [[], 0]
    assert browser.run("return innerWidth") == WIDTHS[width]


def test_long_names_do_not_widen_the_page(browser, tmp_path):
    # Names of the user's files appear in the title, the data and the settings of a runs.
    name = "a_data_file_of_mine_whose_name_has_no_space_in_it_whatsoever.csv"
    found = Findings(name, data=[name], tables=[ResultTable(name, ("a", "b"), [("1", name)], name)])
    page = write_report(tmp_path, [("comparison", name, e6_sensing.Settings(methods=(name,)), found)])
    browser.show(page, WIDTHS["phone"], "light")
    assert browser.run(STICKING_OUT) == [[], 0]


def test_wide_tables_scroll_within_their_containers(shown):
    browser, *_ = shown
    script = """return [...document.querySelectorAll('table')].map(t => [
        t.closest('.scroll') !== null, getComputedStyle(t.closest('.scroll')).overflowX,
        t.closest('.scroll').scrollWidth > t.closest('.scroll').clientWidth])"""
    tables = browser.run(script)
    assert len(tables) == 2 + 3 + 4
    assert all(inside and overflow == "auto" for inside, overflow, _ in tables)
    *_, wide = tables
    assert wide[2] is True
    assert [claims[2] for claims in tables[:2]] == [False, False]  # claims are read, not scrolled
    script = "const c = [...document.querySelectorAll('table')].at(-1).closest('.scroll');"
    assert browser.run(f"{script} c.scrollLeft = 1e6; return c.scrollLeft") > 0


def test_numbers_and_names_stay_on_one_line(shown):
    browser, *_ = shown
    script = """return [...document.querySelectorAll('td')].filter(cell => {
        const range = document.createRange(), size = parseFloat(getComputedStyle(cell).fontSize);
        range.selectNodeContents(cell);
        return !cell.textContent.includes(' ') && range.getBoundingClientRect().height > 2 * size
    }).map(cell => cell.textContent)"""
    assert browser.run(script) == []


def test_figures_are_seen(shown):
    browser, *_ = shown
    script = """return [...document.querySelectorAll('figure svg')].map(s => {
        const r = s.getBoundingClientRect(), b = s.viewBox.baseVal;
        return [r.width, r.height, r.width / r.height / (b.width / b.height)]})"""
    figures = browser.run(script)
    assert len(figures) == 3 + 1 + 2
    for width, height, distortion in figures:
        assert width >= 280
        assert height >= 100
        assert distortion == pytest.approx(1, abs=0.02)  # whole pixels
    # Curves are drawn, not clipped away: markers and lines refer to definitions of their own figure.
    script = """return [...document.querySelectorAll('figure svg use')].filter(u => {
        const target = document.querySelector(u.getAttribute('xlink:href'));
        return !target || target.closest('svg') !== u.closest('svg')}).length"""
    assert browser.run(script) == 0


def luminance(colour):
    return sum(float(c) for c in colour[colour.index("(") + 1 : -1].split(",")[:3]) / 3


def test_theme_follows_the_reader(shown):
    browser, _, theme, _ = shown
    script = "return ['backgroundColor', 'color'].map(name => getComputedStyle(document.body)[name])"
    paper, ink = map(luminance, browser.run(script))
    assert (paper > 200 > 100 > ink) if theme == "light" else (paper < 50 < 200 < ink)
    # The figures' ink is the page's.
    script = """return [...document.querySelectorAll('figure svg *')].flatMap(e => ['fill', 'stroke']
        .filter(name => e.style[name].toLowerCase() === 'currentcolor').map(name => getComputedStyle(e)[name]))"""
    colours = browser.run(script)
    assert len(colours) > 100
    assert {luminance(c) for c in colours} == {ink}


def test_text_does_not_overlap(shown):
    browser, *_ = shown
    script = """const names = 'h1, h2, h3, p, nav, .says, .panels, figure, .scroll, details';
    const blocks = [...document.querySelectorAll(names)]
        .filter(e => !e.parentElement.closest(names)).map(e => e.getBoundingClientRect());
    return blocks.slice(1).filter((r, i) => r.top < blocks[i].bottom - 0.5).length"""
    assert browser.run(script) == 0


def test_links_lead_to_their_sections(shown):
    browser, *_ = shown
    browser.run("""document.querySelector('nav a[href="#E6"]').click()""")
    heading = browser.run("return document.querySelector(location.hash).getBoundingClientRect().top")
    browser.run("scrollTo(0, 0)")
    assert abs(heading) < 100


def test_first_screen_holds_sentences_and_figure(shown):
    browser, width, *_ = shown
    script = """return ['.says', '.panels', 'nav', '#claims'].map(
        name => document.querySelector(name).getBoundingClientRect().top)"""
    tops = browser.run(script)
    assert tops == sorted(tops)
    if width == "desktop":
        assert tops[1] < 800  # the figure begins on the first screen
    first, second, gains = browser.run(
        "return [...document.querySelectorAll('.panels figure')].map(f => f.getBoundingClientRect().top)"
    )
    assert (first == second) is (width == "desktop")  # side by side, or one below the other
    assert gains > second  # it has three panels, and the whole width
    assert browser.run("return document.querySelector('nav a').getAttribute('href')") == "explorer.html"


BUTTON = "document.querySelectorAll('figure')[{figure}].querySelectorAll('.tools button')[{button}]"


@pytest.mark.parametrize("close", ["key", "button", "outside"])
def test_figures_are_enlarged_and_put_back(shown, close):
    browser, _, theme, _ = shown
    before = browser.run("return document.querySelectorAll('figure svg').length")
    width = "document.querySelectorAll('{}')[0].getBoundingClientRect().width"
    small = browser.run(f"return {width.format('figure svg')}")
    browser.run(f"{BUTTON.format(figure=0, button=0)}.click()")
    assert browser.run("return document.querySelector('dialog').open")
    assert browser.run(f"return {width.format('dialog svg')}") > 1.5 * small
    script = "return getComputedStyle(document.querySelector('dialog')).backgroundColor"
    assert (luminance(browser.run(script)) > 200) is (theme == "light")
    if close == "key":
        browser.press("\ue00c")
    elif close == "button":
        browser.run("document.querySelector('dialog button').click()")
    else:
        browser.run("document.querySelector('dialog').click()")
    assert not browser.run("return document.querySelector('dialog').open")
    for _ in range(100):  # the event of closing comes a little later
        if browser.run("return document.querySelectorAll('figure svg').length") == before:
            break
        time.sleep(0.02)
    assert browser.run(f"return {width.format('figure svg')}") == small


def test_tools_are_reached_by_keyboard(shown):
    browser, *_ = shown
    browser.run(f"{BUTTON.format(figure=0, button=0)}.focus()")
    browser.press("\ue007")  # enter
    assert browser.run("return document.querySelector('dialog').open")
    assert browser.run("return document.activeElement.textContent") == "Close"
    browser.press("\ue007")
    assert not browser.run("return document.querySelector('dialog').open")
    browser.press("\ue004")  # tab
    assert browser.run("return document.activeElement.textContent") == "SVG"


def downloaded(browser, folder, name, click):
    browser.devtools("Browser.setDownloadBehavior", behavior="allow", downloadPath=str(folder))
    browser.run(f"{click}.click()")
    for _ in range(500):
        if (folder / name).exists():
            return (folder / name).read_text(encoding="utf-8")
        time.sleep(0.02)
    raise TimeoutError(f"{name} was not downloaded")


def test_figures_are_downloaded(browser, page, tmp_path):
    browser.show(page, WIDTHS["desktop"], "dark")
    names = browser.run("return [...document.querySelectorAll('figure')].map(f => f.dataset.name)")
    figure = names.index("e3-triangle")
    svg = downloaded(browser, tmp_path, "e3-triangle.svg", BUTTON.format(figure=figure, button=1))
    root = ElementTree.fromstring(svg)
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    assert "currentColor" not in svg
    assert "var(" not in svg
    assert root[0].get("fill") == "#ffffff"  # dark on white, whatever the theme of the page
    data = downloaded(browser, tmp_path, "e3-triangle.csv", BUTTON.format(figure=figure, button=2))
    header, *rows = csv.reader(data.splitlines())
    assert header[:2] == ["FW, plain | the flow | x", "FW, plain | the flow | y"]
    assert len(rows) == 59
    assert {len(row) for row in rows} == {len(header)}


def test_downloaded_figure_can_be_opened(browser, page, tmp_path):
    browser.show(page, WIDTHS["desktop"], "light")
    downloaded(browser, tmp_path, "overview-triangle.svg", BUTTON.format(figure=0, button=1))
    assert browser.show(tmp_path / "overview-triangle.svg", WIDTHS["desktop"], "light") == []
    assert browser.run("return document.querySelectorAll('svg path').length") > 20


def test_words_describe_every_figure(shown):
    browser, *_ = shown
    script = """return [...document.querySelectorAll('figure svg')].map(s => [s.getAttribute('aria-label'),
        document.getElementById(s.getAttribute('aria-describedby')).textContent])"""
    for label, words in browser.run(script):
        assert label
        assert " at " in words


@pytest.mark.parametrize("theme", THEMES)
def test_page_is_printed_on_white_without_tools(browser, page, theme):
    browser.show(page, 720, theme)
    features = [{"name": "prefers-color-scheme", "value": theme}]
    browser.devtools("Emulation.setEmulatedMedia", media="print", features=features)
    try:
        assert browser.run("return getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
        script = """return [...document.querySelectorAll('.tools, nav, dialog, details')].filter(
            e => getComputedStyle(e).display !== 'none').length"""
        assert browser.run(script) == 0
        script = """const page = document.documentElement.clientWidth;
            return [...document.querySelectorAll('figure svg, .claims')].filter(
                e => e.getBoundingClientRect().right > page + 1).length"""
        assert browser.run(script) == 0
    finally:
        browser.devtools("Emulation.setEmulatedMedia", media="")
