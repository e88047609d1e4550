"""Data that the package contains."""

from __future__ import annotations

import hashlib
import lzma
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from fwflow import datasets
from fwflow.datasets import DataError, grids, official
from fwflow.datasets.official import catalogue
from tests.datasets.files import missing

EMBEDDED = [(name, split) for name, entry in catalogue.items() for split in entry.embedded]


def text(table: np.ndarray, end: str) -> bytes:
    """A table in the official layout."""
    return "".join(" ".join(map(str, row)) + end for row in table.astype(int).tolist()).encode()


@pytest.mark.parametrize(("name", "split"), EMBEDDED)
def test_embedded_numbers_are_those_of_the_official_files(name: str, split: str) -> None:
    data = datasets.load(name, split, stand_in=False)
    assert data.kind == "real"
    features, labels = catalogue[name].splits[split]
    assert official.is_official(labels, text(data["b"][:, None], "\n"))
    content = text(data["A"], " \n")
    if name == "gisette":
        assert hashlib.sha256(content).hexdigest() in official.known_variants
        assert "recovered from the LIBSVM-scaled copy" in data.source
    else:
        assert official.is_official(features, content)
    assert "real data shipped with fwflow" in data.source
    assert "Guyon, Gunn, Ben-Hur, Dror 2004; CC BY 4.0." in data.source
    assert data["A"].flags.c_contiguous
    assert data["A"].dtype == data["b"].dtype == np.float64


def test_embedded_files_are_few_small_and_credited() -> None:
    notice = Path(__file__).parents[2].joinpath("NOTICE").read_text(encoding="utf-8")
    packed = [catalogue[name].embedded[split] for name, split in EMBEDDED] + [*grids.FILES.values()]
    assert sorted(path.name for path in official.FOLDER.iterdir()) == sorted(file.name for file in packed)
    assert sum(file.path.stat().st_size for file in packed) < 2_700_000
    for file in packed:
        assert file.name in notice
        assert file.origin in notice
    for row in datasets.available():
        if row.found == "real, embedded":
            assert row.where == official.FOLDER
            assert row.size > 0
            assert "CC BY 4.0" in row.terms


def test_nothing_embedded_is_read_before_it_is_asked_for() -> None:
    script = """
import sys
def hook(event, arguments):
    if event == "open" and str(arguments[0]).endswith(".xz"):
        raise AssertionError(arguments[0])
sys.addaudithook(hook)
from fwflow import datasets
print([row.found for row in datasets.available()].count("real, embedded"))
try:
    datasets.load("madelon")
except AssertionError as error:
    print(error)
"""
    answer = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    count, path = answer.stdout.split()
    assert int(count) == len(EMBEDDED)
    assert path.endswith("madelon_train.npy.xz")


def test_packed_files_unpack(shipped: Path) -> None:
    data = datasets.load("madelon")
    assert data["A"].tolist() == [[1, 2, 3], [4, 5, 6], [7, 8, 9], [10, 11, 12]]
    assert data["b"].tolist() == [1, -1, -1, 1]
    assert missing("madelon", "valid")


def test_no_byte_of_a_packed_file_can_be_changed_unnoticed(shipped: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def forbidden(content: bytes) -> bytes:
        raise AssertionError("decompressed before it was checked")

    monkeypatch.setattr(lzma, "decompress", forbidden)
    whole = shipped.read_bytes()
    for position in range(len(whole)):
        shipped.write_bytes(whole[:position] + bytes([whole[position] ^ 1]) + whole[position + 1 :])
        with pytest.raises(DataError, match=r"small\.npy\.xz is damaged.*Reinstall fwflow"):
            datasets.load("madelon")
    shipped.unlink()
    with pytest.raises(DataError, match=r"small\.npy\.xz cannot be read.*Reinstall fwflow"):
        datasets.load("madelon")
    assert [row.found for row in datasets.available() if row.name == "madelon"] == ["missing", "missing"]
