"""Are files replaced as a whole, and do compressed ones unpack only so far?"""

import errno
import gzip
import io
import os
import stat
import zipfile
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp

from fwflow import datasets, designs
from fwflow._storage import files, replacing
from fwflow._validation import InputError
from fwflow.datasets import DataError
from fwflow.reproduction.report import save_figure
from fwflow.sets import mps
from fwflow.tables import read, read_target
from fwflow.tables.model_files import FittedModel


class FullDisk(io.FileIO):
    def write(self, content):
        raise OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.parametrize("size", [1, 10_000], ids=["when closed", "while writing"])
def test_a_full_disk_leaves_no_half_file(tmp_path, monkeypatch, size):
    path = tmp_path / "a.csv"
    path.write_text("old")
    full = lambda path, mode, **options: io.TextIOWrapper(io.BufferedWriter(FullDisk(path, mode)), **options)  # noqa: E731
    monkeypatch.setattr(files, "open", full, raising=False)

    def write():
        with replacing(path) as file:
            file.write("x" * size)

    with pytest.raises(OSError, match=r"No space left.*not saved, and an earlier file is unchanged.*a\.csv"):
        write()
    assert [p.name for p in tmp_path.iterdir()] == ["a.csv"]
    assert path.read_text() == "old"


def write(path, text="new", error=None):
    with replacing(path) as file:
        file.write(text)
        if error:
            raise error


@pytest.mark.parametrize("error", [KeyboardInterrupt(), ValueError("wrong"), InputError("wrong")])
def test_an_error_leaves_the_old_file_and_nothing_else(tmp_path, error):
    path = tmp_path / "page"
    path.write_text("old")
    with pytest.raises(type(error)):
        write(path, error=error)
    assert (path.read_text(), len(list(tmp_path.iterdir()))) == ("old", 1)
    write(path)
    assert (path.read_text(), len(list(tmp_path.iterdir()))) == ("new", 1)


def test_an_error_about_another_file_stays_as_it_is(tmp_path):
    with pytest.raises(FileNotFoundError) as caught:
        write(tmp_path / "a", error=FileNotFoundError(errno.ENOENT, "No such file", "other"))
    assert caught.value.filename == "other"


def test_a_folder_that_is_not_there_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"No such file or directory; the file was not saved.*nowhere/a"):
        write(tmp_path / "nowhere" / "a")
    with pytest.raises(IsADirectoryError, match=str(tmp_path)):
        write(tmp_path)


@pytest.mark.parametrize("mask", [0o022, 0o077])
def test_permissions_are_those_of_open(tmp_path, mask):
    before = os.umask(mask)
    try:
        write(tmp_path / "new")
        (tmp_path / "other").touch()
    finally:
        os.umask(before)
    assert (tmp_path / "new").stat().st_mode == (tmp_path / "other").stat().st_mode
    (tmp_path / "new").chmod(0o640)
    write(tmp_path / "new", "newer")
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o640
    assert (tmp_path / "new").read_text() == "newer"


@pytest.mark.parametrize("present", [True, False])
def test_links_are_followed(tmp_path, present):
    (tmp_path / "folder").mkdir()
    target = tmp_path / "folder" / "target"
    if present:
        target.write_text("old")
    (tmp_path / "link").symlink_to(target)
    write(tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    assert target.read_text() == "new"


def test_pipes_are_written_to(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with ThreadPoolExecutor(1) as reader:
        read_all = reader.submit(pipe.read_text)
        write(pipe)
        assert pipe.is_fifo()
        assert read_all.result(10) == "new"


def save_model(path):
    model = FittedModel(
        np.ones(1), ("a",), 0.0, "squared", "l1:1", "y", None, (), "", 1, "fw", "", True, 0.0, 0.0, 1, 1.0, 1.0, ""
    )  # fmt: skip
    model.save(path)


def save_plot(path):
    from matplotlib.figure import Figure

    figure = Figure()
    figure.subplots().plot([1, 2], label="a")
    save_figure(figure, path.with_suffix(""))


WRITERS = {"a.csv": write, "a.npz": save_model, "a.svg": save_plot}


@pytest.mark.parametrize("name", WRITERS)
def test_files_of_the_user_beside_are_left_alone(tmp_path, name):
    others = [tmp_path / f"{name}{end}" for end in (".part", ".tmp", "~", ".bak")] + [tmp_path / f".{name}.part"]
    for other in others:
        other.write_text("mine")
    WRITERS[name](tmp_path / name)
    WRITERS[name](tmp_path / name)
    assert (tmp_path / name).stat().st_size > 0
    assert [other.read_text() for other in others] == ["mine"] * len(others)


# Compressed files

MANY = 400_000


def bomb_csv(path):
    path.write_bytes(gzip.compress(b"a,b\n" + b"0,0\n" * MANY))


def bomb_libsvm(path):
    path.write_bytes(gzip.compress(b"0 1:0\n" * MANY))


def bomb_mtx(path):
    path.write_bytes(gzip.compress(b"%%MatrixMarket matrix array real general\n%d 1\n" % MANY + b"0\n" * MANY))


def bomb_npz(path):
    np.savez_compressed(path, X=np.zeros((MANY, 1)), y=np.zeros(2))


def bomb_gz_npz(path):
    archive = io.BytesIO()
    np.savez(archive, X=np.zeros((MANY, 1)), y=np.zeros(2))
    path.write_bytes(gzip.compress(archive.getvalue()))


def bomb_npy(path):
    with gzip.open(path, "wb") as file:
        np.save(file, np.zeros(MANY))


def bomb_parquet(path):
    pq.write_table(pa.table({"a": np.zeros(MANY), "b": np.zeros(MANY)}), path)


def bomb_sparse(path):
    sp.save_npz(path, sp.csr_array(np.ones((1, 1))).reshape(1, 1))
    arrays = dict(np.load(path)) | {"data": np.zeros(MANY)}
    np.savez_compressed(path, **arrays)


def bomb_mps(path):
    start = b"NAME T\nROWS\n N COST\n L R1\nCOLUMNS\n X COST 1 R1 1\n"
    path.write_bytes(gzip.compress(start + b"* a remark\n" * MANY + b"RHS\n RHS R1 4\nENDATA\n"))


BOMBS = {
    "a.csv.gz": (bomb_csv, read),
    "a.svm.gz": (bomb_libsvm, read),
    "a.mtx.gz": (bomb_mtx, read),
    "a.npz": (bomb_npz, read),
    "a.npz.gz": (bomb_gz_npz, read),
    "sparse.npz": (bomb_sparse, read),
    "a.npy.gz": (bomb_npy, read_target),
    "a.parquet": (bomb_parquet, read),
    "b.parquet": (bomb_parquet, designs.open),
    "a.mps.gz": (bomb_mps, mps.read),
}


@pytest.mark.parametrize("name", BOMBS)
def test_a_file_that_unpacks_to_far_more_than_its_size_is_refused(tmp_path, monkeypatch, name):
    make, reader = BOMBS[name]
    make(tmp_path / name)
    monkeypatch.setattr(files, "_FLOOR", 2**17)
    with pytest.raises(InputError, match=rf"{name} has \d+ bytes and unpacks to more than.*FWFLOW_MAX_UNPACKED"):
        reader(tmp_path / name)


def test_the_limit_can_be_set(tmp_path, monkeypatch):
    path = tmp_path / "a.csv.gz"
    path.write_bytes(gzip.compress(b"a,b\n" + b"0,0\n" * 30_000))
    assert read(path).X.shape == (30_000, 2)  # small files may be of any ratio
    monkeypatch.setenv("FWFLOW_MAX_UNPACKED", "30000")
    with pytest.raises(InputError, match="unpacks to more than 30000;"):
        read(path)
    monkeypatch.setenv("FWFLOW_MAX_UNPACKED", "300000")
    assert read(path).X.shape == (30_000, 2)
    monkeypatch.setenv("FWFLOW_MAX_UNPACKED", "1_000")
    with pytest.raises(InputError, match="FWFLOW_MAX_UNPACKED must be a number of bytes"):
        read(path)


def test_files_with_a_usual_ratio_have_no_limit(monkeypatch):
    monkeypatch.delenv("FWFLOW_MAX_UNPACKED", raising=False)
    files.check_unpacked("a", 100 * 10**12, 10**12)
    files.check_unpacked("a", 2**27, 10)
    with pytest.raises(InputError):
        files.check_unpacked("a", 2**27 + 1, 10)


def test_the_reconstructed_split_has_the_limit(tmp_path, monkeypatch):
    (tmp_path / "gisette").mkdir()
    bomb_npz(tmp_path / "gisette" / "gisette_train_reconstructed.npz")
    monkeypatch.setattr(files, "_FLOOR", 2**17)
    with pytest.raises(DataError, match="unpacks to more than"):
        datasets.load("gisette", "train-reconstructed", data_dir=tmp_path)


def test_models_are_not_compressed(tmp_path):
    save_model(tmp_path / "model.npz")
    with zipfile.ZipFile(tmp_path / "model.npz") as archive:
        assert all(member.compress_type == zipfile.ZIP_STORED for member in archive.infolist())


@pytest.mark.parametrize("name", ["a.npy", "a.npz", "b.npz"])
def test_a_header_that_declares_more_than_there_is(tmp_path, name):
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "<f8", "fortran_order": False, "shape": (10**12,)})
    if name == "a.npz":
        with zipfile.ZipFile(tmp_path / name, "w") as archive:
            archive.writestr("X.npy", header.getvalue())
    else:
        (tmp_path / name).write_bytes(header.getvalue())
    with pytest.raises(InputError, match=r"its header declares an array of shape \(1000000000000,\)"):
        read_target(tmp_path / name)
