"""Are folders that are empty, of another kind or mixed refused in words?"""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zarr

from fwflow import designs
from fwflow._validation import InputError

A = np.arange(6.0).reshape(3, 2)


def parquet(path, **columns):
    pq.write_table(pa.table(columns or {"a": A[:, 0], "b": A[:, 1]}), path)


def store(path):
    zarr.save_array(path, A)


@pytest.mark.parametrize("name", ["folder", "a.parquet", "a.npy", "a.zarr"])
def test_empty(tmp_path, name):
    (tmp_path / name).mkdir()
    with pytest.raises(InputError, match=rf"{name} must be a .*folder of Parquet files.*; it is empty"):
        designs.open(tmp_path / name)


@pytest.mark.parametrize("name", ["folder", "a.parquet"])
@pytest.mark.parametrize("other", ["a.csv", "notes.txt", "year=2020"])
def test_of_another_kind(tmp_path, name, other):
    (tmp_path / name / other).mkdir(parents=True)
    with pytest.raises(InputError, match=rf"{name} must be a .*folder of Parquet files.*; it (also )?holds '{other}'"):
        designs.open(tmp_path / name)


@pytest.mark.parametrize("other", ["a.csv", "A.npy", "notes.txt", "folder", "z.parquet.crc"])
def test_mixed(tmp_path, other):
    parquet(tmp_path / "b.parquet")
    (tmp_path / other).mkdir()
    with pytest.raises(InputError, match=f"must hold Parquet files only; it also holds '{other}'"):
        designs.open(tmp_path)


def test_a_store_and_parquet(tmp_path):
    store(tmp_path)
    assert designs.open(tmp_path).shape == (3, 2)
    parquet(tmp_path / "b.parquet")
    with pytest.raises(InputError, match="holds a Zarr store and Parquet files"):
        designs.open(tmp_path)


def test_what_other_programs_leave_beside_is_no_data(tmp_path):
    for name in ("_SUCCESS", "_metadata", ".part-0.crc"):
        (tmp_path / name).touch()
    parquet(tmp_path / "b.parquet")
    parquet(tmp_path / "c.PQ")
    assert designs.open(tmp_path).shape == (6, 2)


def test_files_that_do_not_belong_together(tmp_path):
    parquet(tmp_path / "a.parquet")
    parquet(tmp_path / "b.parquet", a=A[:, 0], b=A[:, 1], c=A[:, 1])
    with pytest.raises(InputError, match=r"b\.parquet has the column 'c', which .*a\.parquet lacks"):
        designs.open(tmp_path)
    assert designs.open(tmp_path, columns=["b", "a"]).shape == (6, 2)
    parquet(tmp_path / "b.parquet", a=A[:, 0])
    with pytest.raises(InputError, match=r"b\.parquet has no column 'b'"):
        designs.open(tmp_path)
    parquet(tmp_path / "b.parquet", a=A[:, 0], b=["x", "y", "z"])
    with pytest.raises(InputError, match=r"b\.parquet: column 'b' does not hold numbers"):
        designs.open(tmp_path)


@pytest.mark.parametrize("content", [b"", b"PAR1", b"no parquet at all"])
def test_damaged_files_are_named(tmp_path, content):
    parquet(tmp_path / "a.parquet")
    (tmp_path / "b.parquet").write_bytes(content)
    with pytest.raises(InputError, match=r"b\.parquet is not a Parquet file that can be read"):
        designs.open(tmp_path)


def test_stores_that_hold_no_array(tmp_path):
    group = zarr.open_group(tmp_path / "group", mode="w")
    group.create_array("a", data=A)
    with pytest.raises(InputError, match="group is not a Zarr store with one array"):
        designs.open(tmp_path / "group")
    assert designs.open(tmp_path / "group" / "a").shape == (3, 2)
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "zarr.json").write_text("{")
    with pytest.raises(InputError, match="broken is not a Zarr store with one array"):
        designs.open(tmp_path / "broken")
    (tmp_path / "a.zip").write_bytes(b"no archive")
    with pytest.raises(InputError, match=r"a\.zip is not a Zarr store with one array"):
        designs.open(tmp_path / "a.zip")


def test_a_chunk_that_unpacks_to_far_more_than_is_stored(tmp_path):
    zarr.create_array(tmp_path / "a", shape=(10**5, 10**5), chunks=(10**5, 10**5), dtype="f8")
    with pytest.raises(InputError, match="unpacks to more than"):
        designs.open(tmp_path / "a")
