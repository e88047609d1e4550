from __future__ import annotations

import dataclasses
import gzip
import hashlib
import io
import logging
import lzma
import os
import pickle
import socket
import subprocess
import sys
import threading
import zipfile
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.sparse.linalg import svds

import fwflow as fw
from fwflow import datasets
from fwflow.datasets import DataError, archives, embedded, loading, official, standins
from fwflow.datasets.embedded import Packed
from fwflow.datasets.official import File, Official, catalogue

REAL = Path(os.environ.get("FWFLOW_DATA") or Path(__file__).parents[3] / "shared" / "data")
needs_real = pytest.mark.skipif(
    not REAL.is_dir(), reason="no real data: set FWFLOW_DATA, or put it in ../shared/data beside the repository"
)

#: A data set small enough to serve, in the layout of UCI's archives.
CONTENT = {
    "SMALL/small_train.data": b"1 2 3\n4 5 6\n7 8 9\n10 11 12\n",
    "SMALL/small_train.labels": b"1\n-1\n-1\n1\n",
    "SMALL/small_valid.data": b"0 0 999\n5 5 5\n",
    "small_valid.labels": b"-1\n1\n",
    "Dataset.pdf": b"not asked for",
}


def small(url: str) -> Official:
    def file(member: str, rows: int, columns: list[range]) -> File:
        return File(Path(member).name, hashlib.sha256(CONTENT[member]).hexdigest(), rows, columns)

    features, labels = [range(1000)] * 3, [range(-1, 2, 2)]
    return dataclasses.replace(
        catalogue["madelon"],
        title="Small",
        folder="small",
        url=url,
        splits={
            "train": (file("SMALL/small_train.data", 4, features), file("SMALL/small_train.labels", 4, labels)),
            "valid": (file("SMALL/small_valid.data", 2, features), file("small_valid.labels", 2, labels)),
        },
        embedded={},
    )


def missing(name: str, split: str | None = None, data_dir: Path | None = None) -> bool:
    """Whether the data is nowhere."""
    try:
        datasets.load(name, split, data_dir=data_dir)
    except DataError as error:
        return "is not here" in str(error)
    return False


def zipped(content: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in content.items():
            archive.writestr(name, data)
    return buffer.getvalue()


class Server(ThreadingHTTPServer):
    """Answers every request with the next of ``bodies``, the last one from then on."""

    daemon_threads = True
    bodies: list[bytes]
    requests: int
    missing_bytes: int
    announce_length: bool

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/small.zip"


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        body = self.server.bodies.pop(0) if len(self.server.bodies) > 1 else self.server.bodies[0]
        self.server.requests += 1
        self.send_response(200)
        if self.server.announce_length:
            self.send_header("Content-Length", str(len(body) + self.server.missing_bytes))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: object) -> None: ...


@pytest.fixture(scope="module")
def running() -> Iterator[Server]:
    with Server(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def server(running: Server, monkeypatch: pytest.MonkeyPatch) -> Server:
    """Serves the small data set as "madelon", without retries."""
    running.bodies, running.requests = [zipped(CONTENT)], 0
    running.missing_bytes, running.announce_length = 0, True
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setitem(catalogue, "madelon", small(running.url))
    monkeypatch.setattr(archives, "RETRIES", 0)
    return running


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Every test has an empty cache and no data directory."""
    monkeypatch.delenv("FWFLOW_DATA", raising=False)
    monkeypatch.setenv("FWFLOW_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def files_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.rglob("*") if path.is_file())


def fill(folder: Path, content: dict[str, bytes] = CONTENT) -> Path:
    """A user's directory with the small data set."""
    (folder / "small").mkdir(parents=True, exist_ok=True)
    for member, data in content.items():
        (folder / "small" / Path(member).name).write_bytes(data)
    return folder


# Generated problems


def test_sensing_is_what_its_docstring_says() -> None:
    data = datasets.sensing()
    A, b, x0 = data["A"], data["b"], data["x0"]
    assert data.kind == "generated"
    assert A.shape == data.shape == (500, 100)
    assert np.count_nonzero(x0) == 10
    assert 0.04 < np.std(b - A @ x0) < 0.06
    np.testing.assert_array_equal(data["labels"], np.where(b >= 0, 1.0, -1.0))
    assert abs(A.mean()) < 0.02
    assert abs(A.std() - 1) < 0.02


def test_sensing_depends_on_its_seed_only() -> None:
    np.testing.assert_array_equal(datasets.sensing()["b"], datasets.load("sensing")["b"])
    assert not np.array_equal(datasets.sensing(seed=0)["b"], datasets.sensing(seed=1)["b"])
    assert np.count_nonzero(datasets.sensing(m=3, n=4, sparsity=0.01)["x0"]) == 1


@pytest.mark.parametrize(
    ("argument", "value"),
    [("m", 0), ("n", -1), ("sparsity", 0.0), ("sparsity", 1.5), ("noise", -1.0), ("noise", np.nan)],
)
def test_sensing_names_a_wrong_argument(argument: str, value: float) -> None:
    with pytest.raises(ValueError, match=rf"^{argument} must"):
        datasets.sensing(**{argument: value})  # type: ignore[arg-type]


def test_triangle() -> None:
    data = datasets.triangle()
    assert data["vertices"].tolist() == [[-1, 0], [0, 1], [1, 0]]
    assert data["start"].tolist() == [0, 1]


def test_dataset_names_its_arrays_and_pickles() -> None:
    data = pickle.loads(pickle.dumps(datasets.triangle()))
    with pytest.raises(KeyError, match="did you mean 'vertices'"):
        data["vertexes"]
    assert "array" not in repr(data)


# standardize


def test_standardize_handles_constant_columns_and_keeps_float32() -> None:
    rng = np.random.default_rng(0)
    A = np.column_stack([rng.normal(1e6, 3.0, 50), np.full(50, 0.1), np.zeros(50), rng.integers(0, 9, 50)])
    before = A.copy()
    Z = datasets.standardize(A)
    np.testing.assert_array_equal(A, before)
    np.testing.assert_allclose(Z.mean(axis=0), 0, atol=1e-9)
    np.testing.assert_allclose(Z.std(axis=0), [1, 0, 0, 1], atol=1e-9)
    assert not Z[:, 1:3].any()
    assert datasets.standardize(A.astype(np.float32)).dtype == np.float32
    assert datasets.standardize([[1, 2], [3, 2]]).tolist() == [[-1, 0], [1, 0]]


@pytest.mark.parametrize("A", [[1.0, 2.0], [[np.nan]], np.zeros((0, 3)), [["a"]]])
def test_standardize_names_its_argument(A: object) -> None:
    with pytest.raises(ValueError, match=r"^A "):
        datasets.standardize(A)  # type: ignore[arg-type]


# The stand-in


def test_stand_in_is_seeded_and_says_what_it_is() -> None:
    data, again, other = datasets.load("movielens"), standins.movielens(), standins.movielens(seed=0)
    assert data.kind == "stand-in"
    assert data.source.startswith("A stand-in for MovieLens 100K, generated with seed 9, not the real ratings")
    for key, array in data.arrays.items():
        np.testing.assert_array_equal(array, again[key])
        assert not np.array_equal(array, other[key])


@pytest.mark.parametrize("seed", [0, 9])
def test_stand_in_has_the_published_figures(seed: int) -> None:
    data = standins.movielens(seed)
    rows, cols, values = data["rows"], data["cols"], data["values"]
    assert data.shape == (943, 1682)
    assert len(np.unique(rows * 1682 + cols)) == 100_000
    assert np.bincount(values.astype(int))[1:].tolist() == list(standins.HISTOGRAM)
    assert set(rows) == set(range(943))
    assert set(cols) == set(range(1682))
    for index, quantiles in ((rows, standins.PER_USER), (cols, standins.PER_ITEM)):
        found = np.percentile(np.bincount(index), standins.PERCENTILES)
        np.testing.assert_allclose(found, quantiles, rtol=0.1, atol=1)
    matrix = sp.csr_array((values - 3, (rows, cols)), data.shape)
    leading = np.sort(svds(matrix, len(standins.SINGULAR_VALUES), return_singular_vectors=False))[::-1]
    np.testing.assert_allclose(leading, standins.SINGULAR_VALUES, rtol=0.12)


@needs_real
def test_momentum_gains_on_the_stand_in_what_it_gains_on_the_real_ratings() -> None:
    def gain(data: datasets.Dataset) -> float:
        f = fw.MatrixCompletion(data["rows"], data["cols"], data["values"] - 3, data.shape, loss="huber", rho=10.0)
        plain, accelerated = (
            fw.minimize(f, fw.NuclearBall(1000.0), method="rk44", momentum=momentum, tol=0, max_iter=30).trace["gap"]
            for momentum in (None, "nesterov")
        )
        return float(np.exp(np.log(plain[1:] / accelerated[1:]).mean()))

    real, generated = gain(datasets.load("movielens", data_dir=REAL)), gain(standins.movielens())
    assert real > 1.2
    assert abs(np.log(generated / real)) < np.log(1.2)


# Embedded data


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
    packed = [catalogue[name].embedded[split] for name, split in EMBEDDED]
    assert sorted(path.name for path in embedded.FOLDER.iterdir()) == sorted(file.name for file in packed)
    assert sum(file.path.stat().st_size for file in packed) < 2_700_000
    for file in packed:
        assert file.name in notice
        assert file.origin in notice
    for row in datasets.available():
        if row.found == "real, embedded":
            assert row.where == embedded.FOLDER
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


def pack(table: np.ndarray) -> bytes:
    """How the packed files were made."""
    buffer = io.BytesIO()
    np.save(buffer, np.asfortranarray(table.astype("<i2")), allow_pickle=False)
    return lzma.compress(
        buffer.getvalue(),
        filters=[{"id": lzma.FILTER_LZMA2, "preset": 9 | lzma.PRESET_EXTREME, "lc": 3, "lp": 1, "pb": 1}],
    )


@pytest.fixture
def shipped(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The training split of the small data set, embedded."""
    content = pack(np.array([[1, 2, 3, 1], [4, 5, 6, -1], [7, 8, 9, -1], [10, 11, 12, 1]]))
    monkeypatch.setattr(embedded, "FOLDER", tmp_path / "package")
    packed = Packed("small.npy.xz", hashlib.sha256(content).hexdigest(), "made up")
    packed.path.parent.mkdir()
    packed.path.write_bytes(content)
    monkeypatch.setitem(catalogue, "madelon", dataclasses.replace(small(server.url), embedded={"train": packed}))
    return packed.path


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
        with pytest.raises(DataError, match=r"small\.npy\.xz is damaged.*Install fwflow anew"):
            datasets.load("madelon")
    shipped.unlink()
    with pytest.raises(DataError, match=r"small\.npy\.xz cannot be read.*Install fwflow anew"):
        datasets.load("madelon")
    assert [row.found for row in datasets.available() if row.name == "madelon"] == ["missing", "missing"]


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
    assert "real data shipped with fwflow: made up, verified" in datasets.load("madelon", data_dir=given).source
    assert "real data from the cache: the official files" in datasets.load("madelon", download=True).source
    assert "real data from the cache: the official files" in datasets.load("madelon", data_dir=given).source
    fill(given, CONTENT | {"SMALL/small_train.data": b"9 9 9\n" * 4})
    data = datasets.load("madelon", data_dir=given)
    assert (data["A"] == 9).all()
    assert data.kind == "real"
    assert "real data from your directory: small_train.data differs from the official file, and only" in data.source
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


# Downloading


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
    assert datasets.load("madelon", data_dir=copy).source.count("the official files, verified") == 1


def test_platform_cache_is_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    import pooch

    monkeypatch.delenv("FWFLOW_CACHE")
    assert archives.cache_dir() == Path(pooch.os_cache("fwflow"))
    monkeypatch.setitem(sys.modules, "pooch", None)
    assert archives.cache_dir() is None
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
            unpacked = archives._unpack(catalogue["madelon"], archive)
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
    monkeypatch.setattr(archives, "RETRIES", 2)
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


# The real files


@needs_real
@pytest.mark.parametrize(("split", "rows", "total"), [("train", 2000, 488083511), ("valid", 600, 146395833)])
def test_real_madelon(split: str, rows: int, total: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FWFLOW_DATA", str(REAL))
    data = datasets.load("madelon", split, stand_in=False)
    assert data.source.startswith(
        f"Madelon, {split} split, {rows} x 500, real data from your directory: the official files, verified. UCI, doi:"
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
    assert "not the official one" in data.source
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
        "MovieLens 100K, 943 x 1682, real data from your directory: the official files, verified. GroupLens, doi:"
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
