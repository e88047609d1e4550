"""Official files, where they are present."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest

from fwflow import datasets
from fwflow.datasets import DataError, official
from fwflow.datasets.official import catalogue
from tests.datasets.files import REAL, Server, missing, needs_real, zipped


@needs_real
@pytest.mark.parametrize(("split", "rows", "total"), [("train", 2000, 488083511), ("valid", 600, 146395833)])
def test_real_madelon(split: str, rows: int, total: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FWFLOW_DATA", str(REAL))
    data = datasets.load("madelon", split, stand_in=False)
    assert data.source.startswith(
        f"Madelon, {split} split, {rows} x 500, real data from the data directory: "
        "the official files, verified by checksum. UCI, doi:"
    )
    assert data["A"].sum() == total
    assert data["b"].sum() == 0
    assert len(data["b"]) == rows


@needs_real
def test_real_gisette_says_how_it_differs() -> None:
    data = datasets.load("gisette", data_dir=REAL, stand_in=False)
    A, b = data["A"], data["b"]
    assert A.shape == data.shape == (1000, 5000)
    assert b.sum() == 0
    assert (A.min(), A.max()) == (0, 999)
    if "verified" not in data.source:
        assert "recovered from the LIBSVM-scaled copy" in data.source
        assert (A.sum(), np.count_nonzero(A)) == (535024043, 657957)


@needs_real
def test_reconstructed_gisette_is_never_the_training_split(tmp_path: Path) -> None:
    if not (REAL / "gisette" / official.RECONSTRUCTED_FILE).exists():
        pytest.skip(f"{official.RECONSTRUCTED_FILE} is not there")
    if not official.find("gisette_train.data", REAL / "gisette"):
        assert missing("gisette", "train", data_dir=REAL)
    data = datasets.load("gisette", "train-reconstructed", data_dir=REAL)
    assert data.kind == "stand-in"
    assert "not the official split" in data.source
    assert data["A"].sum() == 3159042682
    assert data["b"].sum() == 0


@pytest.mark.parametrize("arrays", [None, {"X": np.zeros((2, 2)), "y": np.ones(2)}, {"Z": np.zeros(2)}])
def test_damaged_reconstruction(tmp_path: Path, arrays: dict[str, np.ndarray] | None) -> None:
    path = tmp_path / "gisette" / official.RECONSTRUCTED_FILE
    path.parent.mkdir()
    if arrays is None:
        path.write_bytes(b"PK\3\4 cut short")
    else:
        np.savez(path, **arrays)
    with pytest.raises(DataError, match=r"gisette_train_reconstructed\.npz"):
        datasets.load("gisette", "train-reconstructed", data_dir=tmp_path)


@needs_real
def test_real_movielens() -> None:
    data = datasets.load("movielens", data_dir=REAL, stand_in=False)
    assert data.source.startswith(
        "MovieLens 100K, 943 x 1682, real data from the data directory: "
        "the official files, verified by checksum. GroupLens, doi:"
    )
    assert data["rows"].min() == data["cols"].min() == 0
    assert (data["rows"].max() + 1, data["cols"].max() + 1) == data.shape == (943, 1682)
    assert np.bincount(data["values"].astype(int)).tolist() == [0, 6110, 11370, 27145, 34174, 21201]
    assert (data["rows"][0], data["cols"][0], data["values"][0]) == (195, 241, 3)


@needs_real
def test_real_files_through_the_whole_download(server: Server, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    genuine = catalogue["madelon"]
    monkeypatch.setenv("FWFLOW_CACHE", str(cache))
    monkeypatch.delenv("FWFLOW_DATA", raising=False)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setitem(catalogue, "madelon", dataclasses.replace(genuine, url=server.url))
    content = {}
    for file in genuine.files:
        path = official.find(file.name, REAL / "madelon")
        assert path is not None
        folder = "" if file.name == "madelon_valid.labels" else "MADELON/"
        content[folder + file.name] = official.read(file, path)
    server.bodies = [zipped(content)]
    data = datasets.load("madelon", "valid", download=True, stand_in=False)
    assert data["A"].sum() == 146395833
