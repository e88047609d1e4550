"""The explorer's numbers are those of the library: runs, stages, weights, the flow; and what the page may replace."""

from __future__ import annotations

import base64
import json
import re
import warnings
import webbrowser
import zlib
from functools import cache
from itertools import product

import numpy as np
import pytest
from scipy.integrate import solve_ivp
from typer.testing import CliRunner

import fwflow as fw
from fwflow import cli
from fwflow.methods.catalogue import METHODS
from fwflow.reproduction import explorer
from fwflow.reproduction.explorer import Grid, SceneChoice
from fwflow.reproduction.explorer.page import GENERATOR, SCALES, _problem, contents
from fwflow.reproduction.explorer.scenes import SHAPES, TABLEAUS, VARIANTS, follow, objective, record, weights

GRID = Grid()
SCENES = {scene.key: scene for scene in GRID.scenes}
FEW = Grid(
    scenes=(SCENES["triangle"], SCENES["disc"]), tableaus=("fw", "midpoint"), c=(2.0,), delta=(1.0, 0.1), iterations=6
)
TINY = Grid((SCENES["triangle"],), ("round",), ("fw",), c=(2.0,), delta=(1.0,), iterations=2)
SEARCHES = {"search": "aggressive", "exact": "exact"}
STEPS = [choice for choice in GRID.choices if choice.c == 2.0]


def ids(value):
    return value.key if isinstance(value, SceneChoice) else str(value)


@pytest.fixture(scope="module")
def few():
    return contents(FEW)


@cache
def flow_of(key, place, shape):
    return follow(SCENES[key], objective(SCENES[key].places[place], shape), 2.5)[1]


def unpacked(told, key):
    """The numbers of a problem, one row per quantity, read as the page does."""
    planes = np.frombuffer(zlib.decompress(base64.b64decode(told["problems"][key]["data"])), np.uint8)
    folded = planes.reshape(2, -1).T.copy().view("<u2").ravel()
    change = ((folded >> 1).astype(np.int16) ^ -(folded & 1).astype(np.int16)).reshape(-1, told["iterations"] + 1)
    return np.cumsum(change, axis=1, dtype=np.int16)


@pytest.mark.parametrize("choice", STEPS, ids=ids)
@pytest.mark.parametrize("key", SCENES)
def test_runs_are_those_of_minimize(key, choice):
    scene, n = SCENES[key], 7
    place, shape = list(scene.places)[STEPS.index(choice) % len(scene.places)], list(SHAPES)[STEPS.index(choice) % 2]
    f, points = objective(scene.places[place], shape), []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", fw.UncertifiedWarning)
        wanted = fw.minimize(
            f,
            scene.C,
            scene.x0,
            method=choice.tableau,
            schedule=fw.OpenLoop(c=choice.c, delta=choice.delta, k0=1),
            line_search=SEARCHES.get(choice.variant),
            momentum="nesterov" if choice.variant == "momentum" else None,
            tol=0.0,
            max_iter=n,
            callback=lambda state: points.append(state.x),
        )
    run = record(scene, f, choice, n)
    np.testing.assert_array_equal(run.x, np.stack(points))
    np.testing.assert_array_equal(run.gap, wanted.trace["gap"])
    np.testing.assert_array_equal(run.step, wanted.trace["step"][1:])


@pytest.mark.parametrize("choice", STEPS, ids=ids)
def test_a_step_is_the_mixture_that_is_drawn(choice):
    for scene in GRID.scenes:
        run = record(scene, objective(scene.places["edge"], "stretched"), choice, 10)
        p = run.step[:, None] * weights(choice.tableau, choice.c, choice.delta, 10)[1]
        moved = np.einsum("ki,kij->kj", p, run.targets - run.x[:-1, None])
        np.testing.assert_allclose(run.x[1:], run.x[:-1] + moved, atol=1e-13)


@pytest.mark.parametrize("choice", [c for c in STEPS if c.variant not in SEARCHES], ids=ids)
def test_stages_are_where_gradients_are_taken(choice):
    scene, H, n, asked = SCENES["polygon"], SHAPES["stretched"], 6, []
    m, tableau = scene.places["inside"], TABLEAUS[choice.tableau]

    def grad(x):
        asked.append(x)
        return H @ (x - m)

    run = record(scene, fw.Smooth(lambda x: (x - m) @ H @ (x - m) / 2, grad), choice, n)
    stages, targets = run.stages.reshape(-1, 2), run.targets.reshape(-1, 2)
    if choice.variant == "plain":
        np.testing.assert_allclose(stages, asked[: len(stages)], atol=1e-13)
        np.testing.assert_array_equal(targets, [np.asarray(scene.C.lmo(H @ (x - m))) for x in asked[: len(stages)]])
        return
    # At y = (1 - gamma_i) x_bar_i + gamma_i v with the last target v. One gradient per step is for the gap; at the
    # start it serves both.
    gamma = np.array([choice.schedule.stage_gammas(k, tableau.omega.tolist()) for k in range(n)]).reshape(-1, 1)
    y = (1 - gamma) * stages + gamma * np.concatenate([stages[:1], targets[:-1]])
    taken = np.stack([asked[0], *asked])[: n * (tableau.stages + 1)].reshape(n, -1, 2)
    np.testing.assert_allclose(y, taken[:, 1:].reshape(-1, 2), atol=1e-13)


@pytest.mark.parametrize("name", TABLEAUS)
def test_first_weights_are_those_that_the_paper_prints(name):
    W, p = weights(name, 2.0, 1.0, 3)
    for k in range(3):
        paper = TABLEAUS[name].certificate(c=2.0, k=k + 1)
        np.testing.assert_allclose(p[k] * 2 / (3 + k), paper.p, atol=1e-15)
        for i, row in enumerate(paper.W):
            np.testing.assert_allclose(W[k, i, :i], row, atol=1e-15)
        assert not np.triu(W[k]).any()


@pytest.mark.parametrize(("key", "place", "shape"), [(s.key, p, h) for s, p, h in GRID.problems])
def test_the_flow_solves_its_equation(key, place, shape):
    scene = SCENES[key]
    f, H, m = objective(scene.places[place], shape), SHAPES[shape], scene.places[place]
    tau = np.linspace(0, 2, 9)
    x = flow_of(key, place, shape)(tau)
    # Small steps of Frank-Wolfe follow it too, across kinks, to the order of the step.
    small = fw.minimize(f, scene.C, scene.x0, method="fw", schedule=fw.ConstantSchedule(0.005), tol=0, max_iter=400)
    np.testing.assert_allclose(small.x, x[-1], atol=0.02)
    np.testing.assert_allclose(x[0], scene.x0, atol=1e-12)
    if scene.corners is None and place != "inside":  # smooth: the gradient vanishes nowhere on the way

        def velocity(_, x):
            g = H @ (x - m)
            return -g / np.linalg.norm(g) - x

        known = solve_ivp(velocity, (0, 1.5), scene.x0, t_eval=tau[tau <= 1.5], rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(x[tau <= 1.5], known.y.T, atol=1e-3)


def test_the_flow_is_seen_at_the_times_of_the_iterates():
    seen = flow_of("triangle", "edge", "round")(SceneChoice("fw", c=2.0, delta=0.5).tau(5))
    t = 0.5 * np.arange(1, 7)
    np.testing.assert_allclose(seen, np.column_stack([np.zeros(6), (2.5 / (2 + t)) ** 2]), atol=1e-12)


def test_every_start_and_place_is_where_it_should_be():
    for scene in GRID.scenes:
        assert scene.C.contains(scene.x0)
        for place, m in scene.places.items():
            assert scene.C.contains(m) is (place != "outside"), (scene.key, place)
        assert scene.C.contains(scene.places["inside"] + 0.1 * (scene.places["inside"] - scene.x0))
        assert not scene.C.contains(scene.places["edge"] + 0.05 * (scene.places["edge"] - scene.places["inside"]))
        if scene.corners is not None:
            assert np.abs(scene.corners - scene.places["vertex"]).max(axis=1).min() == 0
            for angle in np.linspace(0.1, 6.3, 40):  # the corners are all the vertices, and no more
                s = np.asarray(scene.C.lmo(np.array([np.cos(angle), np.sin(angle)])))
                assert np.abs(scene.corners - s).max(axis=1).min() == 0


@pytest.mark.parametrize("choice", FEW.choices, ids=ids)
def test_what_is_packed_can_be_read(few, choice):
    for scene, place, shape in FEW.problems:
        f = objective(scene.places[place], shape)
        run = record(scene, f, choice, FEW.iterations)
        q = TABLEAUS[choice.tableau].stages
        r = few["runs"][choice.key]
        rows = unpacked(few, f"{scene.key},{place},{shape}")[r : r + 3 * q + 3].astype(float)
        half = 0.5001 / SCALES["coordinate"]
        np.testing.assert_allclose(rows[:2].T / SCALES["coordinate"], run.x, atol=half)
        seen = run.gap > 1e-15
        np.testing.assert_allclose(10 ** (rows[2] / SCALES["log"])[seen], run.gap[seen], rtol=1e-3)
        distance = np.linalg.norm(run.x - flow_of(scene.key, place, shape)(choice.tau(FEW.iterations)), axis=1)
        np.testing.assert_allclose(10 ** (rows[3] / SCALES["log"])[1:], distance[1:], rtol=1e-3, atol=1e-15)
        stages = rows[4 : 2 + 2 * q, :-1].T.reshape(FEW.iterations, q - 1, 2) / SCALES["coordinate"]
        np.testing.assert_allclose(stages, run.stages[:, 1:], atol=half)
        aims = rows[2 + 2 * q : 2 + 3 * q, :-1].T
        if scene.corners is None:
            targets = np.stack([np.cos(aims / SCALES["angle"]), np.sin(aims / SCALES["angle"])], axis=-1)
        else:
            targets = scene.corners[aims.astype(int)]
        np.testing.assert_allclose(targets, run.targets, atol=1e-4)
        np.testing.assert_allclose(rows[2 + 3 * q, :-1] / SCALES["step"], run.step, atol=1e-4)


def test_the_page_offers_every_combination(few):
    assert set(few["runs"]) == {
        f"{name},2,{step}"
        for name, step in product(FEW.tableaus, ["1,plain", "0.1,plain", *(f"1,{v}" for v in [*VARIANTS][1:])])
    }
    for scene, place, shape in FEW.problems:
        rows = unpacked(few, f"{scene.key},{place},{shape}")
        assert len(rows) == max(few["runs"].values()) + 3 * 2 + 3
    assert json.loads(json.dumps(few))["problems"].keys() == few["problems"].keys()


def test_the_page_has_the_labels_of_the_table_of_methods(few):
    assert few["labels"] == {name: METHODS[name].label for name in TABLEAUS}
    assert few["discFlow"]["method"] in few["labels"]


def test_solution_and_level_sets(few):
    for scene, place, shape in FEW.problems:
        told, H = few["problems"][f"{scene.key},{place},{shape}"], SHAPES[shape]
        f, x = objective(scene.places[place], shape), np.array(told["optimum"])
        best = fw.minimize(f, scene.C, scene.x0, tol=1e-9)
        np.testing.assert_allclose(x, best.x, atol=1e-4)
        bowl = few["shapes"][shape]
        angle = np.deg2rad(bowl["angle"])
        for axis, u in zip(
            bowl["axes"], ([np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]), strict=True
        ):
            point = told["levels"][2] * axis * np.array(u)  # on the drawn ellipse, from m
            assert point @ H @ point == pytest.approx(told["levels"][2] ** 2, rel=1e-2)
    assert few["shapes"]["stretched"]["condition"] == 25


def test_a_full_page_is_small():
    # Of three values of c one, of two shapes one, of four polygons the one with most corners.
    part = Grid(c=(2.0,))
    size = {
        key: sum(len(json.dumps(_problem(SCENES[key], m, "round", part))) for m in SCENES[key].places)
        for key in ("disc", "polygon")
    }
    assert 3 * 2 * (size["disc"] + 4 * size["polygon"]) < 2_900_000


def test_a_page_asks_for_nothing(tmp_path):
    text = explorer.write(tmp_path / "page.html", TINY).read_text(encoding="utf-8")
    assert "://" not in text
    assert set(re.findall(r"""(?:src|href)=["']?([^"'>\s]*)""", text)) == {"data:,"}
    assert not re.search(r"@import|\bfetch\(|XMLHttpRequest|WebSocket|\bimport\b", text)
    assert all(target.startswith("#") for target in re.findall(r"url\(([^)]*)\)", text))
    assert not re.search(r"<!-- \w+ -->", text)
    assert text.index(GENERATOR) < 2000


def test_equal_grids_make_equal_pages(tmp_path):
    first, again = (explorer.write(tmp_path / name, TINY).read_bytes() for name in ("a.html", "b.html"))
    assert first == again


def test_only_an_explorer_is_replaced(tmp_path):
    mine = tmp_path / "thesis.html"
    mine.write_text("<!doctype html><title>Mine</title>")
    with pytest.raises(FileExistsError, match="was not written by fwflow"):
        explorer.write(mine, TINY)
    assert mine.read_text() == "<!doctype html><title>Mine</title>"
    binary = tmp_path / "photo.html"
    binary.write_bytes(bytes(range(256)))
    with pytest.raises(FileExistsError):
        explorer.write(binary, TINY)
    old = tmp_path / "deep" / "er" / "page.html"
    assert explorer.write(old, TINY) == old
    old.write_text(old.read_text().replace("</body>", "<p>old</body>"))
    explorer.write(old, TINY)
    assert "<p>old" not in old.read_text()
    with pytest.raises(OSError, match="directory"):
        explorer.write(tmp_path, TINY)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"tableaus": ("rk4",)}, "tableaus: 'rk4' is not known.*rk44"),
        ({"shapes": ("square",)}, "shapes: 'square' is not known"),
        ({"delta": (0.1,)}, "delta must contain 1"),
        ({"iterations": 0}, "iterations"),
    ],
)
def test_grids_are_checked(given, message):
    with pytest.raises(ValueError, match=message):
        Grid(**given)


def test_command_writes_and_opens(tmp_path, monkeypatch):
    calls, opened = [], []

    def write(path, progress):
        calls.append((path, progress))
        return path

    monkeypatch.setattr(explorer, "write", write)
    monkeypatch.setattr(webbrowser, "open", opened.append)
    page = tmp_path / "page.html"
    result = CliRunner().invoke(cli.app, ["explore", "--out", str(page)], catch_exceptions=False)
    assert (result.exit_code, result.stdout, opened) == (0, f"page: {page}\n", [])
    CliRunner().invoke(cli.app, ["explore", "--out", str(page), "--open"], catch_exceptions=False)
    assert opened == [page.as_uri()]
    assert calls == [(page, True)] * 2
