"""Is every set on the page of sets, with a picture, and does it offer what the page says?"""

import re
from pathlib import Path

import numpy as np
import pytest

import fwflow as fw
from tests.catalogue import SETS

DOCS = Path(__file__).parents[2] / "docs"
#: name -> the last column of its row
ROWS = {
    name: line.split(" | ")[-1].strip(" |")
    for line in (DOCS / "sets.md").read_text(encoding="utf-8").splitlines()
    if line.startswith("| ")
    for name in re.findall(r"`(?:[^`]*\(`)?([A-Z]\w+)[`(\[]", line.split(" | ")[1] if "![" in line else line)[:1]
}
COMBINED = ("ScaledSet", "Translated", "Product", "MinkowskiSum", "LinearImage")
NAMES = sorted({type(C).__name__ for C, _ in SETS.values()})


def offers(C, shape):
    g, x = np.random.default_rng(0).standard_normal(shape), np.asarray(C.start(shape))
    return {
        "projection": C.project(x) is not None,
        "ranking": len(C.best_vertices(g, 2, C.lmo(g))) > 1,
        "faces": C.away_vertex(g, x) is not None and C.max_step(x, 0 * x) is not None,
        "mixtures": C.decomposed(x) is not None,
        "bounds": C.bounds(shape) is not None,
        "certified": type(C).lower_bound is not fw.ConstraintSet.lower_bound,
        "factored": C.factored,
    }


@pytest.mark.parametrize("name", NAMES)
def test_every_set_has_a_row_and_a_picture(name):
    page = (DOCS / "sets.md").read_text(encoding="utf-8")
    assert f"figures/sets/{name}.png" in page
    assert (DOCS / "figures" / "sets" / f"{name}.png").exists()


def test_pictures_on_the_page_exist():
    for picture in re.findall(r"\((figures/[^)]+)\)", (DOCS / "sets.md").read_text(encoding="utf-8")):
        assert (DOCS / picture).exists()


@pytest.mark.parametrize("name", [name for name in NAMES if name not in COMBINED])
def test_sets_offer_what_the_page_says(name):
    instances = [offers(C, shape) for C, shape in SETS.values() if type(C).__name__ == name]
    offered = {what for what in instances[0] if any(answers[what] for answers in instances)}
    assert offered == {what for what in instances[0] if what in ROWS[name]}
