"""The problems of the explorer are what their names say; the page holds them exactly, is small, and fetches nothing."""

from __future__ import annotations

import json
import re
import webbrowser
from fractions import Fraction

import numpy as np
import pytest
from typer.testing import CliRunner

import fwflow as fw
from fwflow import cli
from fwflow.reproduction import explorer
from fwflow.reproduction.explorer.page import GENERATOR, contents, drawing
from fwflow.reproduction.explorer.scenes import SHAPES, objective, problems, scenes, solve

PROBLEMS = [(scene.key, place, shape) for scene, place, shape in problems()]


@pytest.fixture(scope="module")
def told():
    return json.loads(json.dumps(contents()))


@pytest.mark.parametrize(("key", "place", "shape"), PROBLEMS)
def test_solutions_are_where_the_names_say(key, place, shape):
    scene = scenes()[key]
    m, H, (x, _) = scene.places[place], SHAPES[shape], solve(scene, place, shape)
    slope = H @ (x - m)
    assert scene.C.contains(x)
    assert slope @ (x - np.asarray(scene.C.lmo(slope))) == pytest.approx(0, abs=1e-13)  # no feasible descent
    assert scene.C.contains(m) is (place not in ("outside", "corner"))
    assert (np.linalg.norm(slope) < 1e-15) == (place not in ("outside", "corner"))
    if scene.corners is None:
        assert (np.linalg.norm(scene.rotation.T @ x / scene.axes) > 1 - 1e-12) == (place != "inside")
        return
    nearest = np.linalg.norm(scene.corners - x, axis=1).min()
    assert (nearest < 1e-12) if place in ("vertex", "corner") else (nearest > 0.05)
    sides = np.roll(scene.corners, -1, axis=0) - scene.corners
    away = np.abs(sides[:, 0] * (x - scene.corners)[:, 1] - sides[:, 1] * (x - scene.corners)[:, 0]) / np.linalg.norm(
        sides, axis=1
    )
    assert (away.min() < 1e-12) == (place != "inside")


def test_every_start_is_a_vertex_and_corners_are_all_the_vertices():
    for scene in scenes().values():
        assert scene.C.contains(scene.x0)
        assert not scene.C.contains(1.01 * scene.x0)
        for angle in np.linspace(0.1, 6.3, 40) if scene.corners is not None else ():
            s = np.asarray(scene.C.lmo(np.array([np.cos(angle), np.sin(angle)])))
            assert np.abs(scene.corners - s).max(axis=1).min() == 0


def test_the_geometries_of_the_rates_are_there():
    keys = {(key, place) for key, place, _ in PROBLEMS}
    assert {("triangle", place) for place in ("inside", "edge", "outside", "vertex", "corner")} <= keys
    assert {(key, place) for key in ("disc", "ellipse") for place in ("inside", "edge", "outside")} <= keys


def test_the_page_holds_the_catalogue_in_exact_fractions(told):
    assert [*told["tableaus"]] == ["fw", *[*fw.tableaus][1:]]
    for name, scheme in fw.tableaus.items():
        text = told["tableaus"]["fw" if name == "euler" else name]["drawing"]
        rows = [[float(Fraction(entry)) for entry in line.split()] for line in text.splitlines()]
        assert text == drawing(scheme)
        assert [*map(len, rows)] == [*range(1, scheme.stages + 1)]
        assert rows[-1] == scheme.beta.tolist()
        assert rows[:-1] == [scheme.A[i, :i].tolist() for i in range(1, scheme.stages)]


def test_the_page_holds_the_problems_exactly(told):
    assert len(told["problems"]) == len(PROBLEMS)
    for key, place, shape in PROBLEMS:
        scene, found = scenes()[key], told["problems"][f"{key},{place},{shape}"]
        assert found["m"] == scene.places[place].tolist()
        assert told["scenes"][key]["start"] == scene.x0.tolist()
        f = objective(scene.places[place], shape)
        assert f.b.tolist() == found["b"]
        if scene.corners is None:
            assert found["events"] is None
            continue
        events = fw.exact_flow(f, scene.C, scene.x0).events
        assert [row[0] for row in found["events"]] == [event.tau for event in events]


def test_level_sets(told):
    for name, H in SHAPES.items():
        bowl = told["shapes"][name]
        assert bowl["H"] == H.tolist()
        angle = np.deg2rad(bowl["angle"])
        axes = [[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]]
        for axis, u in zip(bowl["axes"], np.array(axes), strict=True):
            assert axis**2 * (u @ H @ u) == pytest.approx(1, rel=1e-12)
    assert told["shapes"]["stretched"]["condition"] == 25


def test_a_page_is_small_and_asks_for_nothing(tmp_path):
    text = explorer.write(tmp_path / "page.html").read_text(encoding="utf-8")
    assert len(text) < 200_000
    assert "://" not in text
    assert set(re.findall(r"""(?:src|href)=["']?([^"'>\s]*)""", text)) == {"data:,"}
    assert not re.search(r"@import|\bfetch\(|XMLHttpRequest|WebSocket|\bimport\b", text)
    assert all(target.startswith("#") for target in re.findall(r"url\(([^)]*)\)", text))
    assert not re.search(r"<!-- \w+ -->", text)
    assert text.index(GENERATOR) < 2000


def test_pages_are_equal(tmp_path):
    first, again = (explorer.write(tmp_path / name).read_bytes() for name in ("a.html", "b.html"))
    assert first == again


def test_only_an_explorer_is_replaced(tmp_path):
    mine = tmp_path / "thesis.html"
    mine.write_text("<!doctype html><title>Mine</title>")
    with pytest.raises(FileExistsError, match="was not written by fwflow"):
        explorer.write(mine)
    assert mine.read_text() == "<!doctype html><title>Mine</title>"
    binary = tmp_path / "photo.html"
    binary.write_bytes(bytes(range(256)))
    with pytest.raises(FileExistsError):
        explorer.write(binary)
    old = tmp_path / "deep" / "er" / "page.html"
    assert explorer.write(old) == old
    old.write_text(old.read_text().replace("</body>", "<p>old</body>"))
    explorer.write(old)
    assert "<p>old" not in old.read_text()
    with pytest.raises(OSError, match="directory"):
        explorer.write(tmp_path)


def test_command_writes_and_opens(tmp_path, monkeypatch):
    calls, opened = [], []

    def write(path):
        calls.append(path)
        return path

    monkeypatch.setattr(explorer, "write", write)
    monkeypatch.setattr(webbrowser, "open", opened.append)
    page = tmp_path / "page.html"
    result = CliRunner().invoke(cli.app, ["explore", "--out", str(page)], catch_exceptions=False)
    assert (result.exit_code, result.stdout, opened) == (0, f"page: {page}\n", [])
    CliRunner().invoke(cli.app, ["explore", "--out", str(page), "--open"], catch_exceptions=False)
    assert opened == [page.as_uri()]
    assert calls == [page] * 2
