"""The HTML page of the explorer: a template, and the problems that it shows."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

import fwflow as fw
from fwflow._numerics import dot
from fwflow._storage import replacing
from fwflow._validation import Array
from fwflow.reproduction.explorer.scenes import SHAPES, Scene, problems, scenes, solve
from fwflow.reproduction.framework import filled
from fwflow.tableau.catalogue import LABELS, tableaus

#: Line by which the explorer recognises its own pages.
GENERATOR = '<meta name="generator" content="fwflow explore">'

#: Constants c of the schedules, time steps, and numbers of steps that the page offers.
C, DELTA, STEPS = (1, 2, 4), (1, 0.3, 0.1), (40, 400, 4000)


def write(path: str | Path) -> Path:
    """Write the explorer as one HTML page that loads no other file.

    Parameters
    ----------
    path : str or Path
        The page. An existing file is replaced only if it is an explorer.

    Examples
    --------
    >>> import tempfile
    >>> from fwflow.reproduction import explorer
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     page = explorer.write(f"{folder}/explorer.html")
    ...     page.name, page.stat().st_size < 200_000
    ('explorer.html', True)
    """
    path = Path(path)
    if path.exists() and GENERATOR not in path.read_text(encoding="utf-8", errors="replace")[:2000]:
        raise FileExistsError(f"{path} was not written by fwflow explore, so it is not replaced; choose another file")
    path.parent.mkdir(parents=True, exist_ok=True)
    data = json.dumps(contents(), separators=(",", ":")).replace("<", "\\u003c")
    template = Path(__file__).with_suffix(".html")
    engine = template.with_name("engine.js").read_text(encoding="utf-8")
    with replacing(path) as file:
        file.write(filled(template, generator=GENERATOR, data=data, engine=engine))
    return path


def contents() -> dict[str, Any]:
    """Return what the page cannot compute itself, ready for JSON: choices, solutions and the events of the flow."""
    return {
        "version": fw.__version__,
        "tableaus": {
            "fw" if name == "euler" else name: {"label": LABELS[name], "drawing": drawing(scheme)}
            for name, scheme in tableaus.items()
        },
        "c": C,
        "delta": DELTA,
        "steps": STEPS,
        "shapes": {name: {"H": H.tolist(), **_level_set(H)} for name, H in SHAPES.items()},
        "scenes": {key: _set(scene) for key, scene in scenes().items()},
        "problems": {
            f"{scene.key},{place},{shape}": _problem(scene, place, shape) for scene, place, shape in problems()
        },
    }


def drawing(tableau: fw.Tableau) -> str:
    """Return a tableau of simple fractions as text: the rows of A below the diagonal, then beta."""
    rows = [row[:i] for i, row in enumerate(tableau.A.tolist())] + [tableau.beta.tolist()]
    return "\n".join(" ".join(str(Fraction(v).limit_denominator(10**6)) for v in row) for row in rows[1:])


def _level_set(H: Array) -> dict[str, Any]:
    """Return half-axes and direction of the ellipse f = 1/2, and the condition number of H."""
    size, axes = np.linalg.eigh(H)
    angle = float(np.degrees(np.arctan2(axes[1, 0], axes[0, 0])))
    return {"axes": (size**-0.5).tolist(), "angle": angle, "condition": round(float(size[-1] / size[0]), 6)}


def _set(scene: Scene) -> dict[str, Any]:
    parts = {"corners": scene.corners, "axes": scene.axes, "rotation": scene.rotation, "start": scene.x0}
    arrays = {name: value.tolist() for name, value in parts.items() if value is not None}
    return {"label": scene.label, "places": [*scene.places], **arrays}


def _problem(scene: Scene, place: str, shape: str) -> dict[str, Any]:
    m, (optimum, events) = scene.places[place], solve(scene, place, shape)
    return {"m": m.tolist(), "b": dot(SHAPES[shape], m).tolist(), "optimum": optimum.tolist(), "events": events}
