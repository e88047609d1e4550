"""The explorer in headless Chromium: what is drawn, every control, keyboard, pointer, touch, and the address."""

from __future__ import annotations

import re
import time

import numpy as np
import pytest

from fwflow.reproduction import explorer
from fwflow.reproduction.explorer import Grid, SceneChoice
from fwflow.reproduction.explorer.scenes import objective, record, weights
from tests.reproduction.test_browser import CHROMIUM, DRIVER, STICKING_OUT, Browser

pytestmark = pytest.mark.skipif(
    not (CHROMIUM and DRIVER), reason="needs Chromium and chromedriver on the path to open the explorer in a browser"
)

GRID = Grid(tableaus=("fw", "midpoint", "rk44"), c=(1.0, 2.0), delta=(1.0, 0.1), iterations=6)
SCENES = {scene.key: scene for scene in GRID.scenes}
LAST = GRID.iterations + 1
WIDE, NARROW = (1400, 800), (380, 800)
BASE = "#set=square&at=inside&f=round&a=fw,2,1,plain&b=rk44,2,1,plain&k=3"

#: Everything that shows numbers, as one text.
DRAWN = """return [...document.querySelectorAll('.plane, .weights, .note, .area, .values')]
    .filter(e => e.offsetParent !== null).map(e => e.innerHTML).join()"""
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
    return explorer.write(tmp_path_factory.mktemp("explorer") / "page.html", GRID).as_uri()


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


@pytest.mark.parametrize("fragment", ["", BASE, BASE + "&only=a", "#set=disc&at=outside&f=stretched&b=rk44,1,1,exact"])
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
def test_what_is_drawn_is_what_the_library_computed(browser, key):
    choices = {"a": SceneChoice("midpoint", c=1.0), "b": SceneChoice("rk44", variant="momentum")}
    k, scene = 4, SCENES[key]
    browser.open(f"#set={key}&at=edge&f=stretched&a={choices['a'].key}&b={choices['b'].key}&k={k}")
    for pane, choice in choices.items():
        run = record(scene, objective(scene.places["edge"], "stretched"), choice, GRID.iterations)
        label = browser.run(f"return document.querySelector('.{pane} .plane svg').getAttribute('aria-label')")
        assert f"iterate {k} at " in label
        x, y = (float(v.replace("−", "-")) for v in label.rsplit(" at ", 1)[1].split(","))
        np.testing.assert_allclose([x, y], run.x[k - 1], atol=1e-3)
        p = run.step[k - 1] * weights(choice.tableau, choice.c, choice.delta, GRID.iterations)[1][k - 1]
        values = browser.run(
            f"return [...document.querySelectorAll('.{pane} .weights text')].map(t => t.textContent.replace('−', '-'))"
        )
        shown = [float(v) for v in values if re.fullmatch(r"-?[\d.]+", v)]
        np.testing.assert_allclose(shown, p, atol=5.1e-3)
        # Dots and circles: in the figure as in the plane, up to one scale and one shift.
        dots = browser.run(
            f"""return [...document.querySelector('.{pane} .plane').querySelectorAll('.iterate, .current, .stage')].map(
                c => [c.cx.baseVal.value, c.cy.baseVal.value])"""
        )
        told = [*run.x[: k - 1], *run.stages[k - 1, 1:], run.x[k - 1]]
        assert len(dots) == len(told)
        (x, y), zero, one = np.transpose(told), np.zeros(len(told)), np.ones(len(told))
        similar = np.vstack([np.column_stack([x, one, zero]), np.column_stack([-y, zero, one])])
        scale, *_ = fit = np.linalg.lstsq(similar, np.transpose(dots).ravel(), rcond=None)[0]
        np.testing.assert_allclose(similar @ fit, np.transpose(dots).ravel(), atol=0.1)
        assert scale > 100  # pixels per unit
        targets = browser.run(f"return document.querySelectorAll('.{pane} .target').length")
        assert targets >= len(np.unique(run.targets[k - 1].round(1), axis=0)) - (scene.corners is None)
    gap = browser.run("return document.querySelector('[data-chart=gap] .value.a').textContent").split()[-1]
    run = record(scene, objective(scene.places["edge"], "stretched"), choices["a"], GRID.iterations)
    assert float(gap.replace("−", "-")) == pytest.approx(run.gap[k - 1], rel=0.06)


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
    assert len(pressed) == len(set(pressed)) == 5 + 2 * 4  # one option of every control
    assert len(options) == 5 + 4 + 2 + 3 + 2 + 2 * (3 + 2 + 2 + 4)
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
    for scene, place, shape in GRID.problems:
        browser.paste(f"#set={scene.key}&at={place}&f={shape}&k=4")
        seen.add(browser.drawn())
    assert len(seen) == len(GRID.problems)
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
    assert browser.run(f"return document.querySelector(`{selector(None, 'place', 'vertex')}`).disabled")


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
    browser.press(" ")  # from the start again, and to the end
    assert browser.run(slider) == 1
    browser.until(f"document.querySelector('#k').value == {LAST}")
    browser.until("document.querySelector('#play').ariaLabel === 'Play'")
    assert browser.k() == LAST
    assert browser.console() == []


def test_keys_do_what_the_focus_says(browser):
    browser.open(BASE)
    browser.run("document.querySelector('#k').focus()")
    browser.press("ArrowRight")
    assert browser.k() == 4  # the slider's own step, and no other
    browser.run(f"document.querySelector(`{selector('a', 'tableau', 'midpoint')}`).focus()")
    browser.press(" ")
    browser.settle()
    assert "a=midpoint,2,1,plain" in browser.hash()
    assert browser.run("return document.querySelector('#play').ariaLabel") == "Play"
    focused = browser.run(
        "return [document.activeElement.dataset.value, document.activeElement.matches(':focus-visible')]"
    )
    assert focused == ["midpoint", True]
    assert browser.run("return parseFloat(getComputedStyle(document.activeElement).outlineWidth)") >= 2
    browser.press("ArrowRight")
    assert browser.k() == 5


def test_after_a_click_the_keys_are_the_page_s(browser):
    browser.open(BASE)
    x, y = browser.centre(selector("a", "tableau", "midpoint"))
    for kind in ("mousePressed", "mouseReleased"):
        browser.mouse(kind, x, y)
    browser.settle()
    assert "a=midpoint,2,1,plain" in browser.hash()
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
    ["#set=moebius&a=__proto__&b=rk44,2,1&k=-3&zoom=1e9&theme=pink", "#k=NaN&set=constructor", "#%%%", "#k=1e9"],
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
    nameless = """return [...document.querySelectorAll('button, input, svg[role=img], [role=group], section')].filter(
        e => !(e.getAttribute('aria-label') || e.textContent.trim())).map(e => e.outerHTML.slice(0, 80))"""
    assert browser.run(nameless) == []
    repeated = """const ids = [...document.querySelectorAll('[id]')].map(e => e.id);
        return ids.filter((id, i) => ids.indexOf(id) !== i)"""
    assert browser.run(repeated) == []
