"""Power grids that ship with the package."""

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

from fwflow import datasets
from fwflow.datasets import grids
from fwflow.datasets.official import Packed
from tests.datasets.files import REAL, needs_real


@pytest.mark.parametrize(("buses", "lines"), [(2000, 2667), (10_000, 12_217), (70_000, 83_318)])
def test_lines_are_a_simple_connected_graph(buses, lines):
    grid = datasets.power_grid(buses)
    tails, heads = grid["tails"], grid["heads"]
    assert grid.shape == (buses, buses)
    assert len(tails) == len(heads) == lines
    assert (tails < heads).all()
    assert tails.min() >= 0
    assert heads.max() < buses
    assert len(np.unique(tails * buses + heads)) == lines
    A = sp.csr_array((np.ones(lines), (tails, heads)), (buses, buses))
    assert connected_components(A, directed=False)[0] == 1
    assert "CC BY 4.0" in grid.source


@needs_real
@pytest.mark.parametrize("buses", [2000, 10_000, 70_000])
def test_lines_agree_with_the_original_files(buses):
    name = {2000: "2000", 10_000: "10k", 70_000: "70k"}[buses]
    with np.load(REAL / "graphs" / f"ACTIVSg{name}.npz") as original:
        numbers = original["i"].astype(np.int64) * buses + original["j"]
    grid = datasets.power_grid(buses)
    assert (np.sort(numbers) == np.sort(grid["tails"] * buses + grid["heads"])).all()


@pytest.mark.parametrize("buses", [0, 2001, "many", None])
def test_other_sizes_are_refused(buses):
    with pytest.raises(ValueError, match="buses must be one of 2000, 10000, 70000"):
        datasets.power_grid(buses)


def test_a_damaged_file_is_refused(monkeypatch):
    monkeypatch.setitem(grids.FILES, 2000, Packed("grid_2000.npy.xz", "0" * 64, ""))
    with pytest.raises(datasets.DataError, match="is damaged"):
        datasets.power_grid(2000)
