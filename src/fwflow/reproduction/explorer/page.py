"""The HTML page of the explorer: a template, and the numbers that it draws."""

from __future__ import annotations

import base64
import json
import math
import zlib
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from tqdm.auto import tqdm

import fwflow as fw
from fwflow._storage import replacing
from fwflow._validation import Array
from fwflow.methods.catalogue import METHODS
from fwflow.reproduction.explorer import scenes
from fwflow.reproduction.explorer.scenes import SHAPES, TABLEAUS, Grid, Run, Scene
from fwflow.reproduction.framework import filled

#: Line by which the explorer recognises its own pages.
GENERATOR = '<meta name="generator" content="fwflow explore">'

# Factors that turn coordinates (stage points are at most 7 from 0), logarithms to base 10, angles and step lengths into
# 16-bit integers.
SCALES = {"coordinate": 4500, "log": 1600, "angle": 10000, "step": 30000}
# Smaller gaps and distances are rounding, and are shown as this one.
_SMALLEST = 1e-16


def write(path: str | Path, grid: Grid | None = None, *, progress: bool = False) -> Path:
    """Write the explorer as one HTML page that loads no other file.

    Parameters
    ----------
    path : str or Path
        The page. An existing file is replaced only if it is an explorer.
    grid : Grid, optional
        Choices on the page; a smaller grid makes a smaller page in less time.
    progress : bool
        Show a progress bar.

    Examples
    --------
    >>> import tempfile
    >>> from fwflow.reproduction import explorer
    >>> few = explorer.Grid(tableaus=("fw", "rk44"), c=(2.0,), delta=(1.0,), iterations=5)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     page = explorer.write(f"{folder}/explorer.html", few)
    ...     page.name, page.stat().st_size < 200_000
    ('explorer.html', True)
    """
    path = Path(path)
    if path.exists() and GENERATOR not in path.read_text(encoding="utf-8", errors="replace")[:2000]:
        raise FileExistsError(f"{path} was not written by fwflow explore, so it is not replaced; choose another file")
    path.parent.mkdir(parents=True, exist_ok=True)
    data = json.dumps(contents(grid or Grid(), progress), separators=(",", ":")).replace("<", "\\u003c")
    with replacing(path) as file:
        file.write(filled(Path(__file__).with_suffix(".html"), generator=GENERATOR, data=data))
    return path


def contents(grid: Grid, progress: bool = False) -> dict[str, Any]:
    """Return the numbers of the page, ready for JSON."""
    n, times = grid.iterations, {choice.time: choice for choice in grid.choices}
    runs, row = {}, 2 * len(times)  # the first rows are the flow at the times of every schedule
    for choice in grid.choices:
        runs[choice.key] = row
        row += 3 * TABLEAUS[choice.tableau].stages + 3
    return {
        "version": fw.__version__,
        "iterations": n,
        "scales": SCALES,
        "discFlow": scenes.DISC_FLOW,
        "places": scenes.PLACES,
        "shapes": {name: _axes(SHAPES[name]) for name in grid.shapes},
        "tableaus": {name: TABLEAUS[name].stages for name in grid.tableaus},
        "labels": {name: METHODS[name].label for name in TABLEAUS},
        "c": grid.c,
        "delta": grid.delta,
        "variants": [*scenes.VARIANTS],
        "gammas": {
            key: _rounded([choice.schedule.stage_gammas(k, [0.0])[0] for k in range(n)])
            for key, choice in times.items()
        },
        "weights": {
            f"{name},{key}": _rounded(scenes.weights(name, choice.c, choice.delta, n)[1])
            for name, (key, choice) in product(grid.tableaus, times.items())
        },
        "flows": {key: 2 * i for i, key in enumerate(times)},
        "runs": runs,
        "scenes": {
            scene.key: {
                "label": scene.label,
                "corners": None if scene.corners is None else _rounded(scene.corners),
                "places": [*scene.places],
            }
            for scene in grid.scenes
        },
        "problems": {
            f"{scene.key},{place},{shape}": _problem(scene, place, shape, grid)
            for scene, place, shape in tqdm(grid.problems, disable=not progress, desc="explorer", unit="problem")
        },
    }


def _axes(H: Array) -> dict[str, Any]:
    """Return half-axes and direction of the ellipse f = 1/2, and the condition number of H."""
    size, axes = np.linalg.eigh(H)
    angle = np.degrees(np.arctan2(axes[1, 0], axes[0, 0]))
    return {"axes": _rounded(size**-0.5), "angle": _rounded(angle), "condition": _rounded(size[-1] / size[0])}


def _problem(scene: Scene, place: str, shape: str, grid: Grid) -> dict[str, Any]:
    m, n = scene.places[place], grid.iterations
    f = scenes.objective(m, shape)
    curve, flow = scenes.follow(scene, f, max(c * math.log((c + n + 1) / (c + 1)) for c in grid.c))
    times = {choice.time: flow(choice.tau(n)) for choice in grid.choices}
    runs = [_columns(scene, scenes.record(scene, f, choice, n), times[choice.time]) for choice in grid.choices]
    outline = scenes.directions(np.linspace(0, 2 * np.pi, 360)) if scene.corners is None else scene.corners
    around = np.vstack([outline, m])
    away = around - m
    furthest = math.sqrt(np.einsum("ki,ij,kj->k", away, SHAPES[shape], away).max())
    return {
        "m": _rounded(m),
        "box": _rounded([around.min(axis=0), around.max(axis=0)]),
        "optimum": _rounded(fw.minimize(f, scene.C, scene.x0, tol=1e-10).x),
        "levels": _rounded(furthest * np.arange(1, 13) / 9),
        "flow": _rounded(curve),
        "data": _packed(np.hstack([SCALES["coordinate"] * np.hstack([*times.values()]), *runs])),
    }


def _columns(scene: Scene, run: Run, flow: Array) -> Array:
    """Return a run in the units of the page: x, gap, distance to the flow, later stage points, targets, step."""
    if scene.corners is None:
        targets = SCALES["angle"] * np.arctan2(run.targets[..., 1], run.targets[..., 0])
    else:
        targets = np.linalg.norm(run.targets[..., None, :] - scene.corners, axis=-1).argmin(axis=-1)
    stages = run.stages[:, 1:].reshape(len(run.stages), -1)
    steps = np.hstack([SCALES["coordinate"] * stages, targets, SCALES["step"] * run.step[:, None]])
    errors = np.column_stack([run.gap, np.linalg.norm(run.x - flow, axis=1)])
    logs = SCALES["log"] * np.log10(np.maximum(errors, _SMALLEST))
    return np.hstack([SCALES["coordinate"] * run.x, logs, np.vstack([steps, steps[-1:]])])


def _packed(table: Array) -> str:
    """Return the columns as 16-bit differences, low bytes before high bytes, deflated and in base 64."""
    if not (np.abs(table) < 2**15 - 0.5).all():
        raise ValueError(f"the numbers of the page must fit into 16 bits; got {np.abs(table).max():g}")
    change = np.diff(np.round(table.T).astype(np.int16), axis=1, prepend=np.int16(0)).astype(np.int16)
    folded = (change << 1) ^ (change >> 15)  # zigzag coding: small numbers of either sign become small unsigned numbers
    planes = np.frombuffer(folded.astype("<i2").tobytes(), np.uint8).reshape(-1, 2).T
    return base64.b64encode(zlib.compress(planes.tobytes(), 9)).decode()


def _rounded(numbers: Any) -> Any:
    return np.round(numbers, 4).tolist()
