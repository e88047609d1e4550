"""The choice among directory, cache and package, and the parsing of files."""

from __future__ import annotations

import gzip
import io
import socket
from pathlib import Path

import numpy as np
import pytest

from fwflow import datasets
from fwflow.datasets import DataError, loading, official
from fwflow.datasets.official import File, catalogue
from tests.datasets.files import CONTENT, Server, fill, small

# Choosing


def test_no_network_unless_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    import pooch

    def forbidden(*args: object, **kwargs: object) -> None:
        raise AssertionError("network access")

    for module, attribute in ((pooch, "create"), (pooch, "retrieve"), (socket.socket, "connect")):
        monkeypatch.setattr(module, attribute, forbidden)
    for name in (*catalogue, *loading.generated):
        for download in (None, False):
            datasets.load(name, download=download)
        datasets.where(name)
    datasets.available()


def test_unknown_names_and_splits_are_named() -> None:
    with pytest.raises(ValueError, match="name='gisete' is not known; did you mean 'gisette'"):
        datasets.load("gisete")
    with pytest.raises(ValueError, match="name='gisete'"):
        datasets.where("gisete")
    with pytest.raises(ValueError, match="split='test' is not known"):
        datasets.load("madelon", "test")
    with pytest.raises(ValueError, match="sensing is generated and has none"):
        datasets.load("sensing", "train")
    with pytest.raises(ValueError, match="name='sensing' is not a data set with files"):
        datasets.fetch("sensing")


@pytest.mark.parametrize("how", ["data_dir", "FWFLOW_DATA"])
def test_data_directory_must_exist(how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    missing = tmp_path / "nowhere"
    if how == "FWFLOW_DATA":
        monkeypatch.setenv(how, str(missing))
    with pytest.raises(ValueError, match=rf"^{how} must be a directory"):
        datasets.load("madelon", data_dir=missing if how == "data_dir" else None)


@pytest.mark.parametrize(
    ("name", "split", "advice"),
    [
        ("gisette", "train", ("fwflow data fetch gisette", "FWFLOW_DATA", "--data", "gisette_train.labels")),
        ("gisette", "train-reconstructed", ("gisette_train_reconstructed.npz", "FWFLOW_DATA", "--data")),
        ("movielens", None, ("fwflow data fetch movielens", "FWFLOW_DATA", "--data", "u.data")),
    ],
)
def test_missing_data_is_an_error_that_helps(name: str, split: str | None, advice: tuple[str, ...]) -> None:
    with pytest.raises(DataError) as error:
        datasets.load(name, split, stand_in=False)
    assert all(words in str(error.value) for words in advice)


def test_order_is_directory_then_cache_then_package(shipped: Path, tmp_path: Path, server: Server) -> None:
    given = tmp_path / "given"
    given.mkdir()
    source = datasets.load("madelon", data_dir=given).source
    assert "real data shipped with fwflow: made up, verified by checksum" in source
    assert "real data from the cache: the official files" in datasets.load("madelon", download=True).source
    assert "real data from the cache: the official files" in datasets.load("madelon", data_dir=given).source
    fill(given, CONTENT | {"SMALL/small_train.data": b"9 9 9\n" * 4})
    data = datasets.load("madelon", data_dir=given)
    assert (data["A"] == 9).all()
    assert data.kind == "real"
    assert "real data from the data directory: small_train.data differs from the official file, and only" in data.source
    assert server.requests == 1


def test_available_and_where_follow_the_files(shipped: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def rows(name: str) -> list[tuple[str, str, Path | None, int]]:
        return [(row.split, row.found, row.where, row.size) for row in datasets.available() if row.name == name]

    package = ("train", "real, embedded", shipped.parent, shipped.stat().st_size)
    assert datasets.where("madelon") == shipped.parent
    assert rows("madelon") == [package, ("valid", "missing", None, 0)]
    assert rows("movielens") == [("all", "stand-in", None, 0)]
    assert datasets.where("movielens") is None
    assert rows("sensing") == [("", "generated", None, 0)]
    folder = datasets.fetch("madelon")
    assert datasets.where("madelon") == folder
    assert rows("madelon")[0] == ("train", "real", folder, 37)
    given = fill(tmp_path / "given")
    monkeypatch.setenv("FWFLOW_DATA", str(given))
    assert datasets.where("madelon") == given / "small"
    assert all(row.terms for row in datasets.available())


# Reading


def test_part_of_a_split_is_an_error(server: Server, tmp_path: Path) -> None:
    given = fill(tmp_path)
    (given / "small" / "small_train.labels").unlink()
    with pytest.raises(DataError, match=r"only a part of madelon, train split.*small_train\.labels"):
        datasets.load("madelon", data_dir=given)
    assert datasets.load("madelon", "valid", data_dir=given).kind == "real"


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("small_train.data", b"1 2 3\n4 5 6\n7 8\n10 11 12\n", r"small_train\.data, line 3: 2 values where 3"),
        ("small_train.data", b"1 2 3\n4 x 6\n7 8 9\n10 11 12\n", r"small_train\.data, line 2: not a row of integers"),
        ("small_train.data", b"1 2 3\n4 5.5 6\n7 8 9\n1 1 1\n", r"small_train\.data, line 2: not a row of integers"),
        ("small_train.data", b"1 2 3\n\n7 8 9\n10 11 12\n", r"small_train\.data, line 2: 0 values where 3"),
        ("small_train.data", b"1 2 3\n4 5 6\n7 8 9\n", r"small_train\.data has 3 lines where 4"),
        ("small_train.data", b"1 2 3\n4 5 6\n7 8 9\n1 1000 1\n", r"line 4: 1000 is not accepted: from 0 to 999"),
        ("small_train.data", b"1 2 3\n4 5 6\n7 8 9\n1 %d 1\n" % 10**30, r"line 4: \d+ is not accepted: from 0 to 999"),
        ("small_train.data", b"\xff\xfe\n" * 4, r"line 1: not a row of integers"),
        ("small_train.data", b"1 2 3\n" * 10**4, r"small_train\.data has \d+ lines where 4"),
        (
            "small_train.labels",
            b"1\n0\n1\n1\n",
            r"small_train\.labels, line 2: 0 is not accepted: from -1 to 1 in steps",
        ),
    ],
)
def test_parse_errors_name_file_and_line(
    server: Server, tmp_path: Path, file: str, content: bytes, message: str
) -> None:
    given = fill(tmp_path)
    (given / "small" / file).write_bytes(content)
    with pytest.raises(DataError, match=message):
        datasets.load("madelon", data_dir=given)


def test_gzipped_files_read_the_same(server: Server, tmp_path: Path) -> None:
    given = fill(tmp_path)
    plain = datasets.load("madelon", data_dir=given)
    for path in (given / "small").iterdir():
        path.with_name(path.name + ".gz").write_bytes(gzip.compress(path.read_bytes()))
        path.unlink()
    again = datasets.load("madelon", data_dir=given)
    np.testing.assert_array_equal(plain["A"], again["A"])
    assert plain.source == again.source


@pytest.mark.parametrize("damage", [lambda data: data[:-12], lambda data: b"plain text", lambda data: data[:15] + b"?"])
def test_damaged_gzip_names_the_file(server: Server, tmp_path: Path, damage: object) -> None:
    given = fill(tmp_path)
    path = given / "small" / "small_train.data"
    path.unlink()
    path.with_name(path.name + ".gz").write_bytes(damage(gzip.compress(CONTENT["SMALL/small_train.data"])))  # type: ignore[operator]
    with pytest.raises(DataError, match=r"small_train\.data\.gz"):
        datasets.load("madelon", data_dir=given)


def test_nothing_unbounded_is_decompressed(tmp_path: Path) -> None:
    bomb = tmp_path / "small_train.data.gz"
    bomb.write_bytes(gzip.compress(bytes(10**7)))
    file = small("").splits["train"][0]
    assert len(official.read(file, bomb)) == file.limit + 1


def test_a_wide_file_is_read_as_numpy_reads_it() -> None:
    table = np.random.default_rng(0).integers(0, 1000, size=(20, 5000))
    content = "\n".join(" ".join(map(str, row)) for row in table.tolist()).encode()
    parsed = official.parse(File("wide", "", 20, [range(1000)] * 5000), content, Path("wide"))
    np.testing.assert_array_equal(parsed, np.loadtxt(io.BytesIO(content), dtype=np.int64))
