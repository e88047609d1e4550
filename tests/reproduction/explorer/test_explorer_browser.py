"""The explorer in headless Chromium: what is drawn, every control, keyboard, pointer, touch, and the address."""

from __future__ import annotations

import re
import time
import warnings

import numpy as np
import pytest

import fwflow as fw
from fwflow.reproduction import explorer
from fwflow.reproduction.explorer.page import DELTA, STEPS, C
from fwflow.reproduction.explorer.scenes import SHAPES, objective, problems, scenes
from tests.reproduction.test_browser import CHROMIUM, DRIVER, STICKING_OUT, Browser

pytestmark = pytest.mark.skipif(
    not (CHROMIUM and DRIVER), reason="needs Chromium and chromedriver on the path to open the explorer in a browser"
)

SCENES = scenes()
LAST = STEPS[0] + 1
WIDE, NARROW = (1400, 800), (380, 800)
BASE = "#set=square&at=inside&f=round&a=fw,2,1,plain&b=rk44,2,1,plain&k=3"

#: Everything that shows numbers, as one text.
DRAWN = """return [...document.querySelectorAll('.plane, .weights, .note, .area, .values')]
    .filter(e => e.offsetParent !== null).map(e => e.innerHTML).join()"""
OWN = "#set=square&at=inside&f=round&a=own,2,1,plain&b=rk44,2,1,plain&k=3&own_a=1/2;0_1"
KEYS = {" ": (32, "Space"), "ArrowLeft": (37,) * 2, "ArrowRight": (39,) * 2, "Home": (36,) * 2, "End": (35,) * 2}


class Explorer(Browser):
    """A browser with the explorer open."""

    page: str

    def open(self, fragment="", size=WIDE, theme="light", motion="no-preference"):
        width, height = size
        self.devtools(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 500
        )
        media = {"prefers-color-scheme": theme, "prefers-reduced-motion": motion}
        features = [{"name": name, "value": value} for name, value in media.items()]
        self.devtools("Emulation.setEmulatedMedia", features=features)
        self.call("/url", url="about:blank")  # a new fragment alone would not load the page anew
        self.call("/se/log", type="browser")
        self.call("/url", url=self.page + fragment)
        self.settle()
        frames = "const [done] = arguments; requestAnimationFrame(() => requestAnimationFrame(() => done()))"
        self.call("/execute/async", script=frames, args=[])  # what a new scroll bar changes is drawn, too

    def paste(self, fragment):
        """Another fragment for the page that is open."""
        script = """const [fragment, done] = arguments;
            if (location.hash === fragment) return done();
            addEventListener('hashchange', () => done(), {once: true});
            location.hash = fragment"""
        self.call("/execute/async", script=script, args=[fragment])
        self.settle()

    def until(self, condition):
        for _ in range(400):
            if self.run(f"return {condition}"):
                return
            time.sleep(0.025)
        raise TimeoutError(f"{condition} did not come true; the page is at {self.run('return location.hash')}")

    def settle(self):
        self.until("document.querySelector('main').getAttribute('aria-busy') === 'false'")

    def console(self):
        return self.call("/se/log", type="browser")

    def drawn(self):
        return self.run(DRAWN)

    def hash(self):
        return self.run("return location.hash")

    def text(self, selector):
        return self.run(f"return document.querySelector(`{selector}`).textContent")

    def select(self, pane, value):
        self.run(f"""const menu = document.querySelector('.{pane} select'); menu.value = '{value}';
            menu.dispatchEvent(new Event('change', {{bubbles: true}}))""")

    def type(self, pane, text):
        """Replace the text of the editor, as typing does."""
        self.run(f"document.querySelector('.{pane} textarea').select()")
        self.run("document.activeElement.focus()")
        self.devtools("Input.insertText", text=text)

    def k(self):
        return int(re.search(r"\bk=(\d+)", self.hash())[1])

    def click(self, selector):
        self.run(f"document.querySelector(`{selector}`).click()")
        self.settle()

    def press(self, key):
        code, *name = KEYS[key]
        event = {"key": key, "windowsVirtualKeyCode": code, "code": name[0] if key == " " else key}
        text = {"text": key} if key == " " else {}
        self.devtools("Input.dispatchKeyEvent", type="keyDown", **event, **text)
        self.devtools("Input.dispatchKeyEvent", type="keyUp", **event)

    def centre(self, selector, share=0.5):
        """A point of an element that is scrolled into view."""
        return self.run(
            f"""const e = document.querySelector(`{selector}`); e.scrollIntoView({{block: 'center'}});
            const r = e.getBoundingClientRect(); return [r.left + {share} * r.width, r.top + r.height / 2]"""
        )

    def mouse(self, kind, x, y):
        self.devtools("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", buttons=1, clickCount=1)

    def tap(self, x, y):
        self.devtools("Input.dispatchTouchEvent", type="touchStart", touchPoints=[{"x": x, "y": y}])
        self.devtools("Input.dispatchTouchEvent", type="touchEnd", touchPoints=[])


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    return explorer.write(tmp_path_factory.mktemp("explorer") / "page.html").as_uri()


@pytest.fixture(scope="module")
def browser(page, tmp_path_factory):
    browser = Explorer(tmp_path_factory.mktemp("profile"))
    browser.page = page
    yield browser
    browser.quit()


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("size", [WIDE, NARROW, (800, 600)])
def test_console_is_silent_and_nothing_is_fetched(browser, size, theme):
    browser.open(BASE, size, theme)
    for key in ("ArrowRight", "End", "Home"):
        browser.press(key)
    assert browser.console() == []
    assert browser.run("return performance.getEntriesByType('resource').map(e => e.name)") == []
    paper = browser.run("return getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number)")
    assert (min(paper) > 200) if theme == "light" else (max(paper) < 60)


@pytest.mark.parametrize(
    "fragment", ["", BASE, BASE + "&only=a", "#set=disc&at=outside&f=stretched&b=dp5,1,1,exact&steps=4000", OWN]
)
@pytest.mark.parametrize("width", [320, 380, 700, 1000, 1400])
def test_no_window_scrolls_sideways(browser, width, fragment):
    browser.open(fragment, (width, 800))
    assert browser.run(STICKING_OUT) == [[], 0]


def test_panes_stack_in_a_narrow_window_and_fit_a_wide_one(browser):
    boxes = """return ['.pane.a', '.pane.b', '.charts'].map(s => {
        const r = document.querySelector(s).getBoundingClientRect(); return [r.left, r.top, r.bottom]})"""
    browser.open(BASE, NARROW)
    a, b, charts = browser.run(boxes)
    assert a[0] == b[0] == charts[0]
    assert a[2] <= b[1] < b[2] <= charts[1]
    browser.open(BASE, WIDE)
    a, b, charts = browser.run(boxes)
    assert a[0] < b[0] < charts[0]
    assert a[1] == b[1] == charts[1]
    transport = browser.run("return document.querySelector('#transport').getBoundingClientRect().top")
    assert max(a[2], b[2], charts[2]) <= transport


@pytest.mark.parametrize("key", SCENES)
def test_what_is_drawn_is_what_the_library_computes(browser, key):
    k, scene = 4, SCENES[key]
    browser.open(f"#set={key}&at=edge&f=stretched&a=midpoint,1,1,plain&b=rk44,2,1,momentum&k={k}")
    for pane, name, c, momentum in (("a", "midpoint", 1.0, None), ("b", "rk44", 2.0, "nesterov")):
        x, f = [], objective(scene.places["edge"], "stretched")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", fw.UncertifiedWarning)
            result = fw.minimize(
                f, scene.C, scene.x0, method=name, schedule=fw.OpenLoop(c=c, k0=1), momentum=momentum, tol=0.0,
                max_iter=k, callback=lambda state, x=x: x.append(np.array(state.x)),
            )  # fmt: skip
        label = browser.run(f"return document.querySelector('.{pane} .plane svg').getAttribute('aria-label')")
        assert f"iterate {k} at " in label
        where = [float(v.replace("−", "-")) for v in label.rsplit(" at ", 1)[1].split(",")]
        np.testing.assert_allclose(where, x[k - 1], atol=1e-3)
        p = fw.tableaus[name].certificate(c=c, k=k).p
        values = browser.run(
            f"return [...document.querySelectorAll('.{pane} .weights text')].map(t => t.textContent.replace('−', '-'))"
        )
        shown = [float(v) for v in values if re.fullmatch(r"-?[\d.]+", v)]
        np.testing.assert_allclose(shown, p, atol=5.1e-3)
        # Dots are in the figure as in the plane, up to one scale and one shift.
        dots = browser.run(
            f"""return [...document.querySelector('.{pane} .plane').querySelectorAll('.iterate, .current')].map(
                c => [c.cx.baseVal.value, c.cy.baseVal.value])"""
        )
        assert len(dots) == k
        (u, v), zero, one = np.transpose(x[:k]), np.zeros(k), np.ones(k)
        similar = np.vstack([np.column_stack([u, one, zero]), np.column_stack([-v, zero, one])])
        scale, *_ = fit = np.linalg.lstsq(similar, np.transpose(dots).ravel(), rcond=None)[0]
        np.testing.assert_allclose(similar @ fit, np.transpose(dots).ravel(), atol=0.1)
        assert scale > 80  # pixels per unit
        gap = browser.text(f"[data-chart=gap] .value.{pane}").split()[-1]
        if result.trace["gap"][k - 1] > 0:
            assert float(gap.replace("−", "-")) == pytest.approx(result.trace["gap"][k - 1], rel=0.06)
        d, H = x[k - 1] - scene.places["edge"], SHAPES["stretched"]
        error = browser.text(f"[data-chart=error] .value.{pane}").split()[-1]
        assert float(error.replace("−", "-")) == pytest.approx(d @ H @ d / 2, rel=0.06)


def test_negative_weights_are_seen(browser):
    browser.open("#a=midpoint,2,1,plain&b=rk44,2,1,plain&k=1")
    bars = """return [...document.querySelectorAll('.%s .bar')].map(b => [
        b.classList.contains('negative'), b.getBoundingClientRect().top, b.getBoundingClientRect().bottom])"""
    (first, top, bottom), (second, _, zero) = browser.run(bars % "a")
    assert (first, second) == (True, False)
    assert top == pytest.approx(zero, abs=0.2)  # one hangs from the line on which the other stands
    assert bottom > top + 3
    assert not any(negative for negative, *_ in browser.run(bars % "b"))
    assert "p₁ < 0" in browser.run("return document.querySelector('.a .note').textContent")


OPTIONS = """return [...document.querySelectorAll('main button[data-value]')].filter(b => !b.disabled).map(b => [
    b.closest('[data-pane]')?.dataset.pane ?? null, b.closest('[data-choice]').dataset.choice, b.dataset.value,
    b.getAttribute('aria-pressed')])"""


def selector(pane, choice, value):
    return f'{f".pane.{pane}" if pane else "#problem"} [data-choice="{choice}"] [data-value="{value}"]'


def test_every_option_changes_the_drawing_and_the_address(browser):
    browser.open(BASE)
    options = browser.run(OPTIONS)
    pressed = [tuple(o[:2]) for o in options if o[3] == "true"]
    assert len(pressed) == len(set(pressed)) == 6 + 2 * 3  # one option of every control
    assert len(options) == 6 + 5 + 2 + 3 + 3 + 2 + 2 * (len(C) + len(DELTA) + 4)
    before, address = browser.drawn(), browser.hash()
    drawings = set()
    for pane, choice, value, on in options:
        browser.click(selector(pane, choice, value))
        where = (pane, choice, value)
        drawings.add(browser.drawn())
        assert (browser.drawn() == before) is (on == "true"), where
        assert (browser.hash() == address) is (on == "true"), where
        assert browser.run(f"return document.querySelector(`{selector(*where)}`).ariaPressed") == "true"
        browser.paste(BASE)
    assert browser.drawn() == before
    assert len(drawings) == 1 + len(options) - len(pressed)  # no two alike
    assert browser.console() == []


def test_every_value_in_the_address_is_drawn_differently(browser):
    browser.open(BASE)
    seen = set()
    for scene, place, shape in problems():
        browser.paste(f"#set={scene.key}&at={place}&f={shape}&k=4")
        seen.add(browser.drawn())
    assert len(seen) == len(problems())
    assert browser.console() == []


def test_short_steps_and_additions_exclude_each_other(browser):
    browser.open(BASE)
    browser.click(selector("a", "delta", "0.1"))
    assert "a=fw,2,0.1,plain&" in browser.hash()
    browser.click(selector("a", "variant", "momentum"))
    assert "a=fw,2,1,momentum&" in browser.hash()
    browser.click(selector("a", "delta", "0.1"))
    assert "a=fw,2,0.1,plain&" in browser.hash()
    browser.open(BASE.replace("inside", "vertex"))
    browser.click(selector(None, "set", "disc"))
    assert "set=disc&at=edge&" in browser.hash()
    assert browser.run(f"return document.querySelector(`{selector(None, 'place', 'vertex')}`)") is None


def test_buttons_and_slider_step(browser):
    browser.open(BASE)
    drawings = {browser.drawn()}
    for button, k in (("forward", 4), ("end", LAST), ("forward", LAST), ("back", LAST - 1), ("start", 1), ("back", 1)):
        browser.click(f"#{button}")
        assert browser.k() == k
        drawings.add(browser.drawn())
    assert len(drawings) == 5
    browser.run("const s = document.querySelector('#k'); s.value = 6; s.dispatchEvent(new Event('input'))")
    assert browser.k() == 6
    assert browser.run("return document.querySelector('#now').textContent") == f"k = 6 of {LAST}"


def test_keys_step_and_play(browser):
    browser.open(BASE)
    for key, k in (("ArrowRight", 4), ("ArrowLeft", 3), ("End", LAST), ("Home", 1), ("ArrowRight", 2)):
        browser.press(key)
        assert browser.k() == k
    slider = "return Number(document.querySelector('#k').value)"
    browser.press(" ")
    assert browser.run("return document.querySelector('#play').ariaLabel") == "Pause"
    browser.until("document.querySelector('#k').value > 3")
    browser.press(" ")
    stopped = browser.run(slider)
    time.sleep(0.7)
    assert (browser.run(slider), browser.k()) == (stopped, stopped)
    browser.press("End")
    browser.press(" ")  # from the start again
    assert browser.run(slider) == 1
    browser.press("End")
    browser.until("document.querySelector('#play').ariaLabel === 'Play'")
    assert browser.k() == LAST
    assert browser.console() == []


def test_keys_do_what_the_focus_says(browser):
    browser.open(BASE)
    browser.run("document.querySelector('#k').focus()")
    browser.press("ArrowRight")
    assert browser.k() == 4  # the slider's own step, and no other
    browser.run(f"document.querySelector(`{selector('a', 'variant', 'momentum')}`).focus()")
    browser.press(" ")
    assert "a=fw,2,1,momentum" in browser.hash()
    assert browser.run("return document.querySelector('#play').ariaLabel") == "Play"
    focused = browser.run(
        "return [document.activeElement.dataset.value, document.activeElement.matches(':focus-visible')]"
    )
    assert focused == ["momentum", True]
    assert browser.run("return parseFloat(getComputedStyle(document.activeElement).outlineWidth)") >= 2
    browser.press("ArrowRight")
    assert browser.k() == 5
    browser.run("document.querySelector('.a select').focus()")
    browser.press("ArrowRight")  # the menu's own key
    assert browser.k() == 5
    assert browser.run("return document.activeElement.tagName") == "SELECT"


def test_after_a_click_the_keys_are_the_page_s(browser):
    browser.open(BASE)
    x, y = browser.centre(selector("a", "variant", "momentum"))
    for kind in ("mousePressed", "mouseReleased"):
        browser.mouse(kind, x, y)
    assert "a=fw,2,1,momentum" in browser.hash()
    browser.press(" ")
    assert browser.run("return document.querySelector('#play').ariaLabel") == "Pause"
    browser.press(" ")


def test_the_cursor_follows_pointer_and_finger(browser):
    browser.open(BASE)
    x, y = browser.centre("[data-chart=gap] .area", 0.3)
    browser.mouse("mousePressed", x, y)
    first = browser.k()
    browser.mouse("mouseMoved", x + 100, y)
    dragged = browser.k()
    browser.mouse("mouseReleased", x + 100, y)
    browser.mouse("mouseMoved", x, y)
    assert 1 < first < dragged == browser.k() < LAST
    browser.open(BASE, NARROW)
    browser.tap(*browser.centre("[data-chart=distance] .area", 0.97))
    assert browser.k() == LAST
    browser.tap(*browser.centre("#back"))
    browser.until(f"location.hash.includes('k={LAST - 1}')")
    browser.tap(*browser.centre(selector("b", "c", "1")))
    browser.until("location.hash.includes('b=rk44,1,1,plain')")
    assert browser.console() == []


@pytest.mark.parametrize(
    "fragment",
    [
        "#set=polygon&at=vertex&f=stretched&a=midpoint,1,0.1,plain&b=fw,2,1,search&k=7",
        "#set=disc&at=edge&f=round&a=rk44,2,1,momentum&b=fw,1,1,exact&k=2&only=a&zoom=9&theme=dark",
        "#set=ellipse&at=outside&f=round&a=own,4,1,plain&b=own,2,1,search&k=90&own_a=1/2;-1_2;1/6_2/3_1/6&own_b=1&steps=400",
    ],
)
def test_the_address_can_be_shared(browser, fragment):
    browser.open(fragment)
    assert browser.hash() == fragment
    before = browser.drawn()
    browser.open(BASE)
    assert browser.drawn() != before
    browser.paste(fragment)  # into a page that is open
    assert browser.drawn() == before


@pytest.mark.parametrize(
    "fragment",
    [
        "#set=moebius&a=__proto__&b=rk44,2,1&k=-3&zoom=1e9&theme=pink",
        "#k=NaN&set=constructor",
        "#%%%",
        "#k=1e9",
        "#a=own,2,1,plain",
        "#a=own,2,1,plain&own_a=1;1/2_1/3",
        "#a=constructor,2,1,plain&b=fw,2,0.1,momentum&steps=7",
    ],
)
def test_a_wrong_address_does_no_harm(browser, fragment):
    browser.open()
    at_first = browser.hash().replace("k=4", f"k={LAST}" if fragment == "#k=1e9" else "k=4")
    browser.open(fragment)
    assert browser.hash() == at_first
    assert browser.console() == []


def test_the_theme_can_be_chosen(browser):
    browser.open(BASE)
    paper = "return getComputedStyle(document.body).backgroundColor"
    light, drawn = browser.run(paper), browser.drawn()
    browser.click("#theme")
    assert browser.run(paper) != light
    assert browser.drawn() == drawn  # the same drawing in other colours
    assert browser.hash().endswith("&theme=dark")
    browser.click("#theme")
    assert browser.run(paper) == light
    colours = "return [...'ab'].map(p => getComputedStyle(document.querySelector(`.${p} .current`)).fill)"
    assert len(set(browser.run(colours))) == 2


@pytest.mark.parametrize(("motion", "moves"), [("no-preference", True), ("reduce", False)])
def test_motion_is_reduced_on_request(browser, motion, moves):
    browser.open(BASE, motion=motion)
    browser.press("ArrowRight")
    moving = "return getComputedStyle(document.querySelector('.a .current')).animationName"
    assert browser.run(moving) == ("arrive" if moves else "none")
    browser.press("ArrowLeft")
    assert browser.run(moving) == "none"


def test_panes_follow_the_window(browser):
    browser.open(BASE)
    width = "return document.querySelector('.a .plane svg').viewBox.baseVal.width"
    before = browser.run(width)
    browser.devtools("Emulation.setDeviceMetricsOverride", width=1100, height=800, deviceScaleFactor=1, mobile=False)
    browser.until(f"document.querySelector('.a .plane svg').viewBox.baseVal.width !== {before}")
    fits = "const p = document.querySelector('.a .plane'); return [p.firstChild.viewBox.baseVal.width, p.clientWidth]"
    shown, room = browser.run(fits)
    assert shown == pytest.approx(room, abs=0.1)


def test_everything_has_a_name(browser):
    browser.open(BASE)
    nameless = """const kinds = 'button, input, select, svg[role=img], [role=group], section';
        return [...document.querySelectorAll(kinds)].filter(
        e => !(e.getAttribute('aria-label') || e.textContent.trim())).map(e => e.outerHTML.slice(0, 80))"""
    assert browser.run(nameless) == []
    repeated = """const ids = [...document.querySelectorAll('[id]')].map(e => e.id);
        return ids.filter((id, i) => ids.indexOf(id) !== i)"""
    assert browser.run(repeated) == []


def test_every_tableau_of_the_catalogue_is_offered(browser):
    browser.open(BASE)
    names = browser.run("return [...document.querySelectorAll('.a select option')].map(o => o.value)")
    assert names == ["fw", *[*fw.tableaus][1:], "own"]
    drawings = set()
    for name in names[:-1]:
        browser.select("a", name)
        assert f"a={name},2,1,plain" in browser.hash()
        drawings.add(browser.run("return document.querySelector('.a .plane').innerHTML"))
        scheme = fw.tableaus["euler" if name == "fw" else name]
        certificate, facts = scheme.certificate(k=3), browser.text(".a .facts").replace("−", "-")
        assert facts.startswith(f"Order {scheme.order}, {scheme.stages} stage")
        assert ("Steps at large k are not convex" in facts) is (certificate.feasible_from is None)
        z = [float(v) for v in re.search(r"z = ([^;]*);", facts)[1].split(",")]
        np.testing.assert_allclose(z, certificate.z, rtol=6e-3)
        assert ("stage points stay in the set" in facts) is certificate.stages_feasible
    assert len(drawings) == len(names) - 1
    assert browser.console() == []


def test_a_tableau_is_typed(browser):
    browser.open(BASE)
    assert browser.run("return document.querySelector('.a .editor').hidden")
    browser.select("a", "own")
    assert not browser.run("return document.querySelector('.a .editor').hidden")
    assert browser.run("return document.querySelector('.a textarea').value") == "1"  # the tableau that was shown
    browser.type("a", "1/2\n-1 2\n1/6 2/3 1/6")
    assert "own_a=1/2;-1_2;1/6_2/3_1/6" in browser.hash()
    typed = browser.run("return document.querySelector('.a .plane').innerHTML.replaceAll('Your tableau', 'Kutta 3')")
    assert browser.text(".a .facts").startswith("Order 3, 3 stages. Certificate for c = 2, Δ = 1: All steps are")
    assert browser.run("return document.activeElement.tagName") == "TEXTAREA"
    browser.press("ArrowLeft")
    browser.press(" ")
    assert browser.k() == 3  # keys belong to the text
    assert browser.run("return document.querySelector('#play').ariaLabel") == "Play"
    browser.select("a", "kutta3")
    assert browser.run("return document.querySelector('.a .plane').innerHTML") == typed
    assert browser.console() == []


def test_mistakes_are_explained_while_typing(browser):
    browser.open(OWN)
    before, address = browser.drawn(), browser.hash()
    browser.type("a", "1/2\n1/2 1/3")
    assert browser.text(".a .mistake") == "Beta must sum to 1; it sums to 5/6."
    assert browser.run("return document.querySelector('.a textarea').getAttribute('aria-invalid')") == "true"
    assert (browser.drawn(), browser.hash()) == (before, address)  # the last valid tableau
    browser.type("a", "1/2\n1/2 1/2")
    assert browser.text(".a .mistake") == ""
    assert browser.drawn() != before
    assert browser.run("return document.querySelector('.b .editor').hidden")
    assert browser.console() == []


def test_a_diverging_tableau_does_no_harm(browser):
    browser.open("#set=square&at=inside&f=round&a=own,1,1,plain&own_a=100;-99_100&b=rk44,2,1,plain&k=41")
    assert "The run stops at k = " in browser.text(".a .note")
    assert "NaN" not in browser.drawn()
    assert browser.console() == []


def test_lines_of_the_rates_are_drawn(browser):
    browser.open("#set=disc&at=outside&f=round&a=fw,2,1,plain&b=fw,4,1,plain&steps=4000&k=4001")
    labels = browser.run("return [...document.querySelectorAll('[data-chart=error] text')].map(t => t.textContent)")
    assert {"k⁻¹", "k⁻²", "bound, c = 2", "bound, c = 4"} <= set(labels)
    ends = """return ['.rate.power', '.rate.bound', '.a .current'].map(s => {
        const e = document.querySelectorAll(`[data-chart=error] ${s}`);
        return [...e].map(l => l.points ? [...l.points].at(-1).y : l.cy.baseVal.value)})"""
    (one, two), (c2, _), (reached,) = browser.run(ends)
    assert one < two
    assert one < c2 < reached  # the bound decreases faster than 1/k, and the error is below it
    starts = """return [...document.querySelectorAll('[data-chart=error] .rate')].map(l => l.points[0].y)"""
    assert len(set(browser.run(starts))) == 1
