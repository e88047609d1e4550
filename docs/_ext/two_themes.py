"""Figures in two versions, for the light and the dark theme of the site.

Every PNG file of a page has a transparent background. The build adds a dark version, in which black, white and grey
have the opposite lightness and colours stay.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from docutils import nodes
from matplotlib.figure import Figure
from sphinx.application import Sphinx
from sphinx.transforms import SphinxTransform

#: Style of the figures that the build draws: pages with the directive ``drawn``, and the gallery.
STYLE: dict[str, Any] = {
    "axes.prop_cycle": plt.cycler(color=["#0072B2", "#009E73", "#D55E00", "#CC79A7", "#E69F00", "#56B4E9"]),
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlesize": 10,
    "font.size": 10,
    "legend.frameon": False,
}
#: Pixels per inch on the screen. Files have twice as many.
PIXELS = 100
#: Difference of the largest and the smallest channel above which a colour is not grey. The colours of Okabe and Ito,
#: which the figures use, differ by 0.45 or more.
GREY = 0.25


def inverted_greys(pixels: np.ndarray) -> np.ndarray:
    """Invert the lightness of the grey pixels of an RGBA image. Pale colours change in part.

    Examples
    --------
    >>> inverted_greys(np.array([[[0.0, 0.0, 0.0, 1.0], [0.0, 0.45, 0.7, 1.0]]])).tolist()
    [[[1.0, 1.0, 1.0, 1.0], [0.0, 0.45, 0.7, 1.0]]]
    """
    colour, alpha = pixels[..., :3], pixels[..., 3:]
    largest, smallest = colour.max(axis=-1, keepdims=True), colour.min(axis=-1, keepdims=True)
    share = np.clip(1 - (largest - smallest) / GREY, 0, 1)
    shifted = colour + share * (1 - largest - smallest)
    return np.concatenate([np.clip(shifted, 0, 1), alpha], axis=-1)


def save(figure: Figure, path: Path) -> None:
    """Save a figure with a transparent background."""
    figure.savefig(path, dpi=2 * PIXELS, transparent=True)


class DarkVersions(SphinxTransform):
    """Add the dark version of every PNG file of a page."""

    default_priority = 100

    def apply(self, **_: Any) -> None:
        folder = Path(self.env.doctreedir) / "dark"
        folder.mkdir(parents=True, exist_ok=True)
        for light in list(self.document.findall(nodes.image)):
            if "://" in light["uri"] or not light["uri"].endswith(".png"):
                continue
            path = Path(self.env.relfn2path(light["uri"], self.env.docname)[1])
            target = folder / f"{hashlib.sha1(path.read_bytes()).hexdigest()[:16]}.png"
            if not target.exists():
                plt.imsave(target, inverted_greys(plt.imread(path)))
            dark = light.deepcopy()
            dark["uri"] = "/" + Path(os.path.relpath(target, self.env.srcdir)).as_posix()
            light["classes"].append("only-light")
            dark["classes"].append("only-dark")
            light.parent.insert(light.parent.index(light) + 1, dark)


def description(figure: Figure) -> str:
    """Describe a figure by the titles or the labels of its axes, for readers who do not see it."""
    shown = [ax.get_title() or f"{ax.get_ylabel()} against {ax.get_xlabel()}" for ax in figure.axes if ax.has_data()]
    return "; ".join(" ".join(text.split()) for text in shown if text != " against ")


def scraper(block: Any, block_vars: dict[str, Any], gallery_conf: dict[str, Any]) -> str:
    """Save the figures of a cell of the gallery, and return the reStructuredText that shows them."""
    shown = []
    for number, path in zip(plt.get_fignums(), block_vars["image_path_iterator"], strict=False):
        figure = plt.figure(number)
        save(figure, Path(path))
        uri = Path(os.path.relpath(path, gallery_conf["src_dir"])).as_posix()
        width = round(PIXELS * figure.get_figwidth())
        shown.append(f"\n.. image:: /{uri}\n   :alt: {description(figure)}\n   :width: {width}px\n\n")
    plt.close("all")
    return "".join(shown)


def reset(gallery_conf: dict[str, Any], name: str) -> None:
    """Set the style before an example of the gallery runs."""
    plt.rcdefaults()
    plt.rcParams.update(STYLE)


def _get_sg_image_scraper() -> Any:
    """Return the scraper; sphinx-gallery calls this function by its name."""
    return scraper


def setup(app: Sphinx) -> dict[str, bool]:
    """Add dark versions when pages are read."""
    plt.switch_backend("Agg")
    app.add_transform(DarkVersions)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
