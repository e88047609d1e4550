"""Does the page of sets show every set of the catalogue, with a picture and what the set offers?"""

import re
import sys
from pathlib import Path

import numpy as np
import pytest

import fwflow as fw
from tests.catalogue import COMBINATORIAL, SETS

DOCS = Path(__file__).parents[2] / "docs"
sys.path.insert(0, str(DOCS / "_ext"))

import set_pictures  # noqa: E402

import catalogue  # noqa: E402

PAGE = catalogue.expand((DOCS / "sets.md").read_text(encoding="utf-8"), in_markdown=True)
NAMES = [*catalogue.SETS]
#: What these offer depends on their arguments, so their docstrings say it in words.
IN_WORDS = ("ScaledSet", "Translated", "Product", "MinkowskiSum", "LinearImage", "GroupBall", "Symmetric")


@pytest.mark.parametrize("name", NAMES)
def test_every_set_has_one_row_and_a_picture(name):
    assert PAGE.count(f"`{name}(") == 1
    assert (f"![{name}](figures/sets/{name}.png)" in PAGE) == (name not in catalogue.NOT_DRAWN)


def test_a_set_without_fields_is_refused(monkeypatch):
    class Nowhere(fw.L1Ball):
        """A ball that no family has.

        :Family: nowhere
        :Uses: none
        :Oracle: none
        :Cost: none
        """

    monkeypatch.setitem(catalogue.SETS, "Nowhere", Nowhere)
    with pytest.raises(ValueError, match="family of Nowhere is 'nowhere'"):
        catalogue.row("Nowhere")
    Nowhere.__doc__ = "A ball."
    with pytest.raises(ValueError, match="Nowhere needs fields"):
        catalogue.row("Nowhere")


@pytest.mark.parametrize("name", [name for name in NAMES if name not in IN_WORDS and name != "FlowPolytope"])
def test_what_the_page_says_holds_for_the_test_catalogue(name):
    instances = [(C, shape) for C, shape in (SETS | COMBINATORIAL).values() if type(C).__name__ == name]
    offered = {offer for C, shape in instances for offer in catalogue.offers(C, shape)}
    assert offered == set(catalogue.row(name)[-1].split(", ")) - {""}


def test_sets_whose_offers_are_in_words_are_named():
    assert {name for name in NAMES if "Offers" in catalogue.fields(catalogue.SETS[name])} == set(IN_WORDS)


@pytest.mark.parametrize("name", ["L1Ball", "Simplex"])
def test_pictures_are_drawn_again_only_when_their_sources_change(name, tmp_path):
    set_pictures.redraw(name, tmp_path)
    path = tmp_path / f"{name}.png"
    drawn = path.stat().st_mtime_ns
    assert path.read_bytes().startswith(b"\x89PNG")
    set_pictures.redraw(name, tmp_path)
    assert path.stat().st_mtime_ns == drawn


@pytest.mark.parametrize("name", ["GroupBall", "Ellipsoid", "Permutahedron", "HyperSimplex", "SchattenBall"])
def test_a_set_is_seen_by_default_as_in_the_example_of_its_docstring(name):
    C, shape, axes = set_pictures.default_view(catalogue.SETS[name])
    assert type(C).__name__ == name
    assert len(axes) in (2, 3)
    np.testing.assert_allclose(axes @ axes.T, np.eye(len(axes)), atol=1e-12)
    assert axes.shape[1] == np.prod(shape)


def test_pages_of_the_reference_are_up_to_date():
    for name, text in catalogue.reference_pages().items():
        assert (DOCS / name).read_text(encoding="utf-8") == text, f"{name}: run python docs/_ext/catalogue.py"


@pytest.mark.parametrize("what", ["losses", "line searches", "momenta"])
def test_tables_by_name_have_every_entry(what):
    header, rows = catalogue.table(what)
    assert header == ["name", "definition"]
    assert all(re.fullmatch(r'``"[\w-]+"``', name) and said for name, said in rows)
    assert rows[0][0] in catalogue.expand(f".. catalogue: {what}", in_markdown=False)
