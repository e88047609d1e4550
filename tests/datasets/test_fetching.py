"""Downloads: their archives, their cache and their failures."""

from __future__ import annotations

import dataclasses
import hashlib
import logging
import socket
import sys
from pathlib import Path

import numpy as np
import pytest

from fwflow import datasets
from fwflow.datasets import DataError, loading
from fwflow.datasets.official import catalogue
from tests.datasets.files import CONTENT, Server, files_in, missing, small, zipped


def test_fetch_keeps_the_expected_files_only(server: Server, cache: Path) -> None:
    folder = datasets.fetch("madelon")
    assert folder == cache / "small"
    assert files_in(cache) == sorted(Path(member).name for member in CONTENT if member != "Dataset.pdf")
    assert [path.name for path in cache.iterdir()] == ["small"]
    data = datasets.load("madelon", stand_in=False)
    assert data["A"].tolist() == [[1, 2, 3], [4, 5, 6], [7, 8, 9], [10, 11, 12]]
    assert data["b"].tolist() == [1, -1, -1, 1]
    assert data["A"].dtype == data["b"].dtype == np.float64
    assert datasets.load("madelon", "valid")["A"].tolist() == [[0, 0, 999], [5, 5, 5]]


def test_fetch_once(server: Server) -> None:
    datasets.fetch("madelon")
    datasets.fetch("madelon")
    datasets.load("madelon", download=True)
    assert server.requests == 1


def test_a_fetched_cache_serves_as_a_data_directory(server: Server, cache: Path, tmp_path: Path) -> None:
    datasets.fetch("madelon")
    copy = cache.rename(tmp_path / "copied")
    assert datasets.load("madelon", data_dir=copy).source.count("the official files, verified by checksum") == 1


def test_platform_cache_is_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    import pooch

    monkeypatch.delenv("FWFLOW_CACHE")
    assert loading.cache_dir() == Path(pooch.os_cache("fwflow"))
    monkeypatch.setitem(sys.modules, "pooch", None)
    assert loading.cache_dir() is None
    assert datasets.load("movielens").kind == "stand-in"
    with pytest.raises(DataError, match="pooch is not installed"):
        datasets.fetch("movielens")


@pytest.mark.parametrize("announce_length", [True, False])
def test_fetch_is_silent_unless_asked(
    server: Server, cache: Path, capsys: pytest.CaptureFixture[str], announce_length: bool
) -> None:
    import pooch

    server.announce_length = announce_length
    log = pooch.get_logger()
    handler = logging.StreamHandler(sys.stderr)  # pooch's own keeps the stderr of the day it was imported
    log.addHandler(handler)
    datasets.fetch("madelon")
    log.removeHandler(handler)
    assert capsys.readouterr() == ("", "")
    (cache / "small" / "small_train.data").unlink()
    datasets.fetch("madelon", progress=True)
    assert "B/s" in capsys.readouterr().err


BAD_ARCHIVES = {
    "truncated": (zipped(CONTENT)[:-40], "not a complete zip archive"),
    "web page": (b"<html>try later</html>", "not a complete zip archive"),
    "empty": (b"", "not a complete zip archive"),
    "member damaged": (zipped(CONTENT).replace(b"SMALL/small_train.data", b"SMALL/small_train.dat?", 1), "is damaged"),
    "member missing": (zipped({k: v for k, v in CONTENT.items() if "valid" not in k}), "holds 0 files named"),
    "member twice": (zipped(CONTENT | {"COPY/small_train.data": b"1"}), "holds 2 files named small_train.data"),
    "wrong content": (zipped(CONTENT | {"small_valid.labels": b"1\n1\n"}), "labels is not the official file; its SHA-"),
    "bomb": (zipped(CONTENT | {"SMALL/small_train.data": bytes(10**7)}), "data is not the official file; its SHA-"),
}


@pytest.mark.parametrize("case", BAD_ARCHIVES)
@pytest.mark.parametrize("before", ["empty", "damaged"])
def test_bad_archive_leaves_the_cache_as_it_was(server: Server, cache: Path, case: str, before: str) -> None:
    if before == "damaged":
        datasets.fetch("madelon")
        (cache / "small" / "small_train.data").write_bytes(b"1 2 3\n")
    present = files_in(cache)
    body, message = BAD_ARCHIVES[case]
    server.bodies = [body]
    with pytest.raises(DataError, match=message) as error:
        datasets.load("madelon", download=True)
    assert server.url in str(error.value)
    assert "FWFLOW_DATA" in str(error.value)
    assert files_in(cache) == present
    if before == "empty":
        assert missing("madelon")


def test_no_byte_of_an_archive_can_be_changed_unnoticed(server: Server, cache: Path) -> None:
    archive = cache.parent / "archive.zip"
    whole, rng = zipped(CONTENT), np.random.default_rng(0)
    for position in rng.choice(len(whole), size=200, replace=False):
        body = bytearray(whole)
        body[position] ^= int(rng.integers(1, 256))
        archive.write_bytes(body)
        try:
            unpacked = loading._unpack(catalogue["madelon"], archive)
        except DataError:
            continue
        expected = {Path(member).name: data for member, data in CONTENT.items() if member != "Dataset.pdf"}
        assert unpacked == expected, "only a byte that does not matter, such as a date, may change"


def test_paths_in_an_archive_are_not_used(server: Server, cache: Path, tmp_path: Path) -> None:
    content = {f"../../{Path(member).name}": data for member, data in CONTENT.items()}
    server.bodies = [zipped(content | {"../../evil.txt": b"", "/tmp/evil.txt": b""})]
    datasets.fetch("madelon")
    assert "evil.txt" not in files_in(tmp_path)
    assert list(tmp_path.rglob("small_train.data")) == [cache / "small" / "small_train.data"]


def test_archive_checksum_is_checked_where_one_is_published(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    right = "md5:" + hashlib.md5(server.bodies[0]).hexdigest()
    for archive_hash in ("md5:" + 32 * "0", right):
        monkeypatch.setitem(catalogue, "madelon", dataclasses.replace(small(server.url), archive_hash=archive_hash))
        if archive_hash == right:
            datasets.fetch("madelon")
        else:
            with pytest.raises(DataError, match="could not be downloaded"):
                datasets.fetch("madelon")


def test_interrupted_download_is_retried(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loading, "RETRIES", 2)
    monkeypatch.setattr("pooch.core.time.sleep", lambda seconds: None)
    server.bodies = [b"", server.bodies[0][:100], server.bodies[0]]
    assert datasets.load("madelon", download=True).kind == "real"
    assert server.requests == 3


def test_connection_lost_midway(server: Server, cache: Path) -> None:
    server.missing_bytes = 1000
    with pytest.raises(DataError, match="could not be downloaded"):
        datasets.fetch("madelon")
    assert files_in(cache) == []


def test_no_server(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unused.getsockname()[1]}/small.zip"
        monkeypatch.setitem(catalogue, "madelon", small(url))
        with pytest.raises(
            DataError, match=r"could not be downloaded.*Without internet.*DIR/small/.*FWFLOW_DATA.*--data"
        ):
            datasets.load("madelon", download=True)


@pytest.mark.parametrize("moment", ["download", "unpack", "replace"])
def test_interrupt_leaves_no_half_written_file(
    server: Server, cache: Path, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    def interrupt(*args: object, **kwargs: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        target = {
            "download": "pooch.HTTPDownloader.__call__",
            "unpack": "zipfile.ZipFile.open",
            "replace": "os.replace",
        }
        patch.setattr(target[moment], interrupt)
        with pytest.raises(KeyboardInterrupt):
            datasets.fetch("madelon")
    assert files_in(cache) == []
    assert missing("madelon")
    assert datasets.load("madelon", download=True).kind == "real"


def test_cache_that_cannot_be_written(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("FWFLOW_CACHE", str(tmp_path / "file" / "cache"))
    with pytest.raises(DataError, match=r"cannot be written.*FWFLOW_CACHE"):
        datasets.fetch("madelon")
    assert missing("madelon")


@pytest.mark.parametrize("content", [b"", b"1 2 3\n4 5 6\n7 8 9\n10 11 13\n"])
def test_damaged_cache_is_noticed_and_repaired(server: Server, cache: Path, content: bytes) -> None:
    datasets.fetch("madelon")
    (cache / "small" / "small_train.data").write_bytes(content)
    with pytest.raises(DataError, match=r"small_train\.data is damaged.*fwflow data fetch madelon"):
        datasets.load("madelon")
    assert datasets.load("madelon", "valid").kind == "real"
    assert datasets.load("madelon", download=True)["A"][3, 2] == 12
    assert datasets.load("madelon").kind == "real"


def test_incomplete_cache_counts_as_none(server: Server, cache: Path) -> None:
    datasets.fetch("madelon")
    (cache / "small" / "small_train.labels").unlink()
    assert missing("madelon")
    assert datasets.load("madelon", download=True).kind == "real"
