"""Figures that are kept in the repository, and the check that they are up to date.

A figure records its inputs: a hash of the script that draws it, and the numbers that are drawn. The build computes the
numbers again. It fails if the hash differs, or if a number differs by more than readers could see. The numbers are not
hashed, because their last digits depend on the machine.
"""

from __future__ import annotations

import hashlib
import json
import runpy
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from PIL import Image
from sphinx.application import Sphinx
from sphinx.errors import ExtensionError
from two_themes import inverted_greys

Curves = dict[str, np.ndarray]
#: Scripts of figures in the repository. Each defines one `Generated`.
SCRIPTS = ("figures/hero.py",)
#: Largest difference that readers cannot see, relative to the range of a curve.
VISIBLE = 0.02


@dataclass(frozen=True)
class Generated:
    """A figure, its script, the function that computes its numbers and the function that draws them.

    Examples
    --------
    >>> from dataclasses import replace
    >>> from tempfile import mkdtemp
    >>> folder = Path(mkdtemp())
    >>> _ = (folder / "line.py").write_text("the script")
    >>> def draw(curves, path, metadata):
    ...     figure = plt.figure()
    ...     figure.savefig(path, metadata=metadata)
    >>> line = Generated(folder / "line.png", folder / "line.py", lambda: {"y": np.array([0.0, 1.0])}, draw)
    >>> line.write()
    >>> line.is_current()
    True
    >>> replace(line, numbers=lambda: {"y": np.array([0.0, 1.1])}).is_current()
    False
    >>> _ = (folder / "line.py").write_text("the script, changed")
    >>> line.is_current()
    False
    """

    path: Path
    script: Path
    numbers: Callable[[], Curves]
    draw: Callable[[Curves, Path, dict[str, str]], Any]

    def write(self) -> None:
        """Draw the figure, and record its inputs in the file."""
        numbers = self.numbers()
        rounded = {name: np.round(values, 4).tolist() for name, values in numbers.items()}
        self.draw(numbers, self.path, {"Script": self._hash(), "Numbers": json.dumps(rounded)})
        dark = self.path.with_name(f"{self.path.stem}_dark.png")  # shown by the README; the site makes its own
        plt.imsave(dark, inverted_greys(plt.imread(self.path)))

    def is_current(self) -> bool:
        """Return whether the inputs are those of the figure."""
        with Image.open(self.path) as image:
            recorded = image.info
        if recorded.get("Script") != self._hash():
            return False
        then = {name: np.array(values) for name, values in json.loads(recorded["Numbers"]).items()}
        now = self.numbers()
        return then.keys() == now.keys() and all(_look_alike(then[name], now[name]) for name in now)

    def _hash(self) -> str:
        return hashlib.sha256(self.script.read_bytes()).hexdigest()


def _look_alike(a: np.ndarray, b: np.ndarray) -> bool:
    return a.shape == b.shape and np.allclose(
        a, b, rtol=0, atol=VISIBLE * float(np.nanmax(b) - np.nanmin(b)), equal_nan=True
    )


def check(app: Sphinx) -> None:
    """Raise an error if a figure is out of date."""
    for name in SCRIPTS:
        for figure in runpy.run_path(str(Path(app.srcdir) / name)).values():
            if isinstance(figure, Generated) and not figure.is_current():
                raise ExtensionError(f"docs/{name} changed, or its numbers did; run: python docs/{name}")


def setup(app: Sphinx) -> dict[str, bool]:
    """Check the figures before pages are read."""
    app.connect("builder-inited", check)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
