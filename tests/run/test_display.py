import math
from xml.etree import ElementTree

import numpy as np
import pytest
from IPython.core.interactiveshell import InteractiveShell

import fwflow as fw
from fwflow.run import display

SVG = "{http://www.w3.org/2000/svg}"
A = np.random.default_rng(0).standard_normal((30, 8))
PROBLEM = fw.LinearModel(A, A.sum(axis=1)), fw.L1Ball(3.0)


def drawn(svg):
    """The points of the curve, from the lower left corner of the frame, in parts of its sides."""
    root = ElementTree.fromstring(svg)
    frame = {name: float(value) for name, value in root.find(f"{SVG}rect").attrib.items() if value[0].isdigit()}
    points = np.array([point.split(",") for point in root.find(f"{SVG}polyline").get("points").split()], dtype=float)
    across = (points[:, 0] - frame["x"]) / frame["width"]
    return across, 1 - (points[:, 1] - frame["y"]) / frame["height"]


def shown(value):
    """What a notebook would show."""
    return InteractiveShell.instance().display_formatter.format(value)[0]["text/html"]


def test_the_curve_is_the_gap_on_logarithmic_axes():
    k = np.arange(2001)
    across, up = drawn(display.convergence(k, 100.0 / np.maximum(k, 1) ** 2))
    assert across[0] == pytest.approx(0.0, abs=2e-3)
    assert across[-1] == pytest.approx(1.0, abs=2e-3)
    assert len(across) <= 201
    np.testing.assert_allclose(np.diff(up) / np.diff(across), (up[-1] - up[0]) / 1.0, atol=0.2)  # a straight line
    assert up[0] == pytest.approx(1.0, abs=2e-3)  # from 10^2 at the top ...
    assert up[-1] == pytest.approx((math.log10(100 / 2000**2) + 5) / 7, abs=2e-3)  # ... to 10^-4.6, the bottom is 10^-5


@pytest.mark.parametrize("gap", [[], [1.0], [np.nan] * 3, [1.0, 0.0, -1.0], [1.0, np.inf]], ids=str)
def test_no_gap_no_curve(gap):
    assert display.convergence(np.arange(len(gap)), np.array(gap)) == ""


def test_one_gap_is_a_point():
    root = ElementTree.fromstring(display.convergence(np.arange(2), np.array([np.nan, 0.1])))
    assert root.find(f"{SVG}circle") is not None


@pytest.mark.parametrize("method", ["fw", "apg", "corrective"])
def test_notebooks_show_results_and_traces(method):
    result = fw.minimize(*PROBLEM, method=method, max_iter=30)
    for value, words in ((result, (result.status.name, method, f"{result.gap:.3e}")), (result.trace, ("n_lmo",))):
        page = ElementTree.fromstring(shown(value))
        text = " ".join(page.itertext())
        assert [word for word in words if word not in text] == []
        assert len(list(page.iter(f"{SVG}svg"))) == 1


@pytest.mark.parametrize("steps", [0, 3, 7, 8, 50])
def test_traces_show_their_ends(steps):
    trace = fw.minimize(*PROBLEM, method="fw", tol=0, max_iter=steps).trace
    rows = [row[0].text for row in ElementTree.fromstring(shown(trace)).iter("tr")][1:]
    every = list(map(str, range(steps + 1)))
    assert rows == (every if steps < 8 else [*every[:4], "…", *every[-4:]])


def test_what_is_shown_is_escaped():
    assert "<b>" not in display.fields([("a", "<b>")]) + display.table(["<b>"], [["<b>"]])
