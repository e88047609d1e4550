"""Is a file read as it was written, or refused with the place of what is wrong?"""

import csv
import gzip
import io
import re

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.io
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import dump_svmlight_file, load_svmlight_file

from fwflow._validation import InputError
from fwflow.tables import FORMATS, read, read_frame, read_target, readers


def write(tmp_path, content, name="a.csv"):
    path = tmp_path / name
    data = content if isinstance(content, bytes) else content.encode()
    path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    return path


def refused(path, *arguments, **options):
    with pytest.raises(ValueError, match=re.escape(str(path))) as error:
        read(path, *arguments, **options)
    assert str(error.value).startswith(str(path))
    return str(error.value).removeprefix(str(path)).lstrip(",: ")


def is_number(name):
    try:
        float(name)
    except ValueError:
        return False
    return True


LETTERS = st.characters(codec="utf-8", exclude_categories=("Cc", "Cs", "Zl", "Zp"), include_characters='\n",;\t')
NAMES = st.text(LETTERS, min_size=1, max_size=8).map(str.strip).filter(lambda name: name and not is_number(name))
NUMBERS = st.floats(allow_nan=False, allow_infinity=False) | st.integers(-(2**60), 2**60)


@st.composite
def tables(draw):
    names = draw(st.lists(NAMES, min_size=2, max_size=5, unique=True).filter(lambda names: names[0][0] != "#"))
    rows = draw(st.lists(st.lists(NUMBERS, min_size=len(names), max_size=len(names)), min_size=1, max_size=12))
    return names, rows, draw(st.integers(0, len(names) - 1))


@given(
    tables(),
    st.sampled_from([",", ";", "\t"]),
    st.sampled_from(["\n", "\r\n"]),
    st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]),
    st.sampled_from(["", "\ufeff"]),
    st.booleans(),
    st.integers(1, 7),
)
@settings(max_examples=150, deadline=None)
def test_csv_comes_back_as_it_was_written(tmp_path_factory, table, sign, end, quoting, mark, packed, cells):
    names, rows, t = table
    content = io.StringIO()
    writer = csv.writer(content, delimiter=sign, lineterminator=end, quoting=quoting)
    writer.writerows([names, *rows])
    name = "a.csv.gz" if packed else "a.csv"
    path = write(tmp_path_factory.getbasetemp(), mark + content.getvalue(), name)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(readers, "_CELLS", cells)
        found = read(path, names[t])
    X = np.array(rows, dtype=float)
    assert found.names == (*names[:t], *names[t + 1 :])
    np.testing.assert_array_equal(found.X, np.delete(X, t, axis=1))
    np.testing.assert_array_equal(found.target, X[:, t])


@given(st.lists(st.lists(NUMBERS, min_size=3, max_size=3), min_size=1, max_size=9))
@settings(max_examples=50, deadline=None)
def test_without_a_header_columns_are_numbered_and_no_row_is_lost(tmp_path_factory, rows):
    path = write(tmp_path_factory.getbasetemp(), "".join(",".join(map(repr, row)) + "\n" for row in rows))
    table = read(path, "2")
    assert table.names == ("1", "3")
    np.testing.assert_array_equal(np.column_stack([table.X, table.target]), np.array(rows, float)[:, [0, 2, 1]])


@pytest.mark.parametrize(
    ("content", "target", "header"),
    [
        ("a,b,y\n1,2,3\n", "y", True),
        ("2019,2020,y\n1,2,3\n", "y", True),  # the target is a name, so these are names
        ("1,2,y\n4,5,6\n", "y", True),
        ("1,2,3\n4,5,6\n", "3", False),
        ("0.5,2,yes\n4,5,no\n", "3", False),
        ("# a remark\n\na,b,y\n1,2,3\n", "y", True),
    ],
)
def test_headers_are_found(tmp_path, content, target, header):
    rows = len([line for line in content.splitlines() if line and line[0] != "#"])
    assert read(write(tmp_path, content), target).X.shape[0] == rows - header


HEADERS = ["", "a,b,y", '"a","b, or c",y', "0,1,y", ",0,y", "a,,y", "a,2,3", "# a, remark\n\na,b,y", "\ufeffa,b,y"]


@pytest.mark.parametrize("header", HEADERS)
@pytest.mark.parametrize(
    "rows", ["1,2,3\n4,5,6\n", '"1","2","3"\r\n"4","5","6"\r\n', " 1, 2, 3\n\n4 ,5 ,6", "1,2,3\n4,5,6"]
)
def test_no_row_of_numbers_is_left_out(tmp_path, header, rows):
    assert read(write(tmp_path, f"{header}\n{rows}")).X.tolist() == [[1, 2, 3], [4, 5, 6]]


@pytest.mark.parametrize("first", ["nan,1,2", "1,inf,2", "NA,1,2", "?,?,?", "1,,3", ",,"])
def test_a_first_row_without_names_is_not_a_header(tmp_path, first):
    assert "line 1, column" in refused(write(tmp_path, f"{first}\n3,4,5\n6,7,8\n"))


def test_headers_can_be_told(tmp_path):
    path = write(tmp_path, "yes,1,2\nno,1,2\n")
    assert read(path, "1", header=False).target == ("yes", "no")
    assert read(path, "yes", header=True).names == ("1", "2")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "is empty"),
        ("\n \n", "is empty"),
        ("a,b,y\n", "has no rows, only column names"),
        ("y\n1\n2\n", "has no column to predict from; it has column 'y'"),
        ("a,b,y\n1,,3\n4,5,6\n,,9\n", "line 2, column 2 ('b') is empty; 2 of 3 rows have missing cells: fill them in"),
        ("# of 2024\n\na,b,y\n1,,3\n", "line 4, column 2 ('b') is empty; 1 row has missing cells"),
        ("a,b,y\n1,NA,3\n", "line 2, column 2 ('b') is 'NA'; 1 row has missing cells"),
        ("a,b,y\n1,nan,3\n", "line 2, column 2 ('b') is 'nan'; 1 row has missing cells"),
        ("a,b,y\n1,2,3\n4,5,\n", "line 3: the target 'y' is missing"),
        ("a,b,y\n1,2,3\n4,-inf,6\n7,8,9\n", "line 3, column 2 ('b') must be a finite number; it is '-inf'"),
        ("a,b,y\n1,2,3\n4,5,1e999\n", "line 3: the target 'y' must be finite; it is inf"),
        ("a,b,y\n1,2,3\n4,5 kg,6\n7,8,9\n", "line 3, column 2 ('b') must be a finite number; it is '5 kg'"),
        ("a,b,y\n1,2,3\n\n4,5\n", "line 4 has 2 cells, where the first row has 3"),
        ('a,b,y\n1,"2\n",3\n4,x,6\n7,8,9\n', "line 4, column 2 ('b') must be a finite number; it is 'x'"),
        ("a,b,a,y\n1,2,3,4\n", "columns 1 and 3 are both called 'a'; rename one, or drop them"),
        (
            "a,city,y\n1,Rome,3\n4,Paris,6\n",
            "column 'city' holds no numbers ('city': line 2 is 'Rome'); drop it (--drop",
        ),
        ("p,q,y\nx,u,3\nx,u,6\n", "columns 'p', 'q' hold no numbers ('p': line 2 is 'x'); drop them"),
        ('a,b,y\n1,2,"3\n' + 50_000 * "4,5,6\n", "line "),
        (b"a,b,y\n1,2,3\n4,5,\xe9\n", "line 3 is not UTF-8"),
        ("a,b,y\n1,2,3\n".encode("utf-16"), "is not UTF-8, but perhaps UTF-16: save the file in UTF-8"),
        ("a,b,y\n1,2,3\n".encode("utf-16-le"), "is not UTF-8, but perhaps UTF-16: save the file in UTF-8"),
    ],
)
def test_what_is_wrong_in_csv_is_named(tmp_path, content, message):
    assert refused(write(tmp_path, content), "y").startswith(message)


def test_unknown_columns_are_answered_with_a_suggestion(tmp_path):
    path = write(tmp_path, "age,visits,Bought\n1,2,3\n")
    assert refused(path, "bought") == (
        "has no column 'bought' (--target); did you mean 'Bought'? it has columns 'age', 'visits', 'Bought'"
    )
    assert "did you mean 'visits'?" in refused(path, "Bought", drop=["vists"])
    assert refused(path, labelled=True).startswith("the column to predict must be named with --target; it has columns")


def test_dropped_columns_may_hold_anything(tmp_path):
    path = write(tmp_path, "a,id,id,y\n1,x,,3\n")
    assert read(path, "y", drop=["id"]).names == ("a",)


def test_one_row_and_constant_columns_are_tables(tmp_path):
    assert read(write(tmp_path, "a,b,y\n1,1,3"), "y").X.tolist() == [[1, 1]]


@pytest.mark.parametrize("name", ["a.svm", "a.libsvm.gz", "a.txt"])
@pytest.mark.parametrize("zero_based", [True, False])
def test_libsvm_agrees_with_scikit_learn(tmp_path, name, zero_based):
    X = sp.random_array((20, 7), density=0.4, rng=np.random.default_rng(0)).tolil()
    X[0, 0], X[0, 6] = 1.5, 2.5
    y = np.arange(20) - 3.5
    content = io.BytesIO()
    dump_svmlight_file(X.tocsr(), y, content, zero_based=zero_based, comment="a remark")
    table = read(write(tmp_path, content.getvalue(), name))
    expected, labels = load_svmlight_file(io.BytesIO(content.getvalue()), zero_based=zero_based)
    np.testing.assert_array_equal(table.X.toarray(), expected.toarray())
    np.testing.assert_array_equal(table.target, labels)
    assert table.names == tuple(str(j + (not zero_based)) for j in range(7))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "is empty"),
        ("1 1:2\n1 1:2 x\n", "line 2, entry 2 must be INDEX:VALUE, with INDEX from 0 to 2147483647; it is 'x'"),
        ("1 1:2:3\n", "line 1, entry 1 must be INDEX:VALUE, with INDEX from 0 to 2147483647; it is '1:2:3'"),
        (
            "1 1:2\n# remark\n\n1 a:2\n",
            "line 4, entry 1 must be INDEX:VALUE, with INDEX from 0 to 2147483647; it is 'a:2'",
        ),
        ("1 1:2 3:nan\n", "line 1, column 3 is missing; 1 row has missing cells"),
        ("1 1:2\n1 2:5 7:-inf\n", "line 2, column 7 must be a finite number; it is -inf"),
        (f"1 1:2\n1 {2**31}:2\n", "line 2, entry 1 must be INDEX:VALUE, with INDEX from 0 to 2147483647; it is"),
        ("1 1:2\n1 -1:3\n", "line 2, entry 1 must be INDEX:VALUE, with INDEX from 0 to 2147483647; it is '-1:3'"),
        ("1 2:4\n1 1:2 3:1 03:3\n", "line 2 has the index 3 twice"),
        ("1:2 3:4\n", "line 1 must begin with a label; it begins with '1:2'"),
        (f"1 {10**30}:2\n", "line 1, entry 1 must be INDEX:VALUE, with INDEX from 0"),
    ],
)
def test_what_is_wrong_in_libsvm_is_named(tmp_path, content, message):
    assert refused(write(tmp_path, content, "a.svm")).startswith(message)


RANDOM = np.random.default_rng(0)
A, B = RANDOM.standard_normal((6, 3)), RANDOM.standard_normal(6)


@pytest.mark.parametrize("packed", ["", ".gz"])
@pytest.mark.parametrize("sparse", [False, True])
def test_arrays_come_back(tmp_path, packed, sparse):
    content = io.BytesIO()
    if sparse:
        sp.save_npz(content, sp.csr_array(A))
    else:
        np.savez(content, X=A, y=B, names=np.array(["a", "b", "c"]))
    table = read(write(tmp_path, content.getvalue(), f"a.npz{packed}"))
    np.testing.assert_array_equal(table.X.toarray() if sparse else table.X, A)
    assert table.names == (("1", "2", "3") if sparse else ("a", "b", "c"))
    assert table.target is None if sparse else (table.target == B).all()


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize(
    ("value", "message"),
    [(np.nan, "is missing; 1 row has missing cells"), (np.inf, "must be a finite number; it is inf")],
)
def test_entries_that_are_not_finite(tmp_path, sparse, value, message):
    path, X = tmp_path / "a.npz", A.copy()
    X[4, 1] = value
    if sparse:
        sp.save_npz(path, sp.csr_array(X))
    else:
        np.savez(path, X=X)
    assert refused(path, "1").startswith(f"row 5, column 2 {message}")
    assert refused(path, "2") == f"row 5: the target '2' must be finite; it is {value}"
    assert read(path, "1", drop=["2"]).names == ("3",)  # Dropped columns may hold anything.


@pytest.mark.parametrize("sparse", [False, True])
def test_matrix_market_comes_back(tmp_path, sparse):
    content = io.BytesIO()
    scipy.io.mmwrite(content, sp.coo_array(A) if sparse else A, precision=17)
    path = write(tmp_path, content.getvalue(), "a.mtx.gz")
    table = read(path, "2")
    np.testing.assert_array_equal(table.X.toarray() if sparse else table.X, A[:, [0, 2]])
    np.testing.assert_array_equal(table.target, A[:, 1])


@pytest.mark.parametrize("suffix", ["npy", "npz", "csv", "txt", "mtx"])
def test_a_target_in_a_file_of_its_own(tmp_path, suffix):
    path = tmp_path / f"y.{suffix}"
    match suffix:
        case "npy":
            np.save(path, B)
        case "npz":
            np.savez(path, B)
        case "mtx":
            scipy.io.mmwrite(path, B[:, None], precision=17)
        case _:
            path.write_text("y\n" + "".join(f"{b!r}\n" for b in B.tolist()))
    np.testing.assert_array_equal(read_target(path), B)


def test_a_target_file_with_more_is_refused(tmp_path):
    with pytest.raises(ValueError, match="must hold one column; it holds 2"):
        read_target(write(tmp_path, "1,2\n3,4\n"))


def parquet(tmp_path, **columns):
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table(columns), path)
    return path


def test_parquet_comes_back(tmp_path):
    path = parquet(
        tmp_path, a=A[:, 0], n=[1, 2, 3, 4, 5, 6], flag=[True, False] * 3, **{"b.c": A[:, 1]}, y=list("nynyny")
    )
    table = read(path, "y")
    assert table.names == ("a", "n", "flag", "b.c")
    np.testing.assert_array_equal(table.X, np.column_stack([A[:, 0], np.arange(1, 7), [1, 0] * 3, A[:, 1]]))
    assert table.target == tuple("nynyny")


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (
            {"a": [1.0, None, 2.0], "b": [None, None, 1], "y": [1, 2, 3]},
            "row 1, column 2 ('b') is missing; 2 of 3 rows",
        ),
        ({"a": [1.0, np.inf], "y": [1, 2]}, "row 2, column 1 ('a') must be a finite number; it is inf"),
        ({"a": ["u", "v"], "b": [1, 2], "y": [1, 2]}, "column 'a' holds no numbers ('a': string)"),
        ({"a": [1, 2], "y": [1, None]}, "row 2: the target 'y' must be finite; it is nan"),
        ({"a": [1, 2], "y": ["u", None]}, "row 2: the target 'y' is missing"),
    ],
)
def test_what_is_wrong_in_parquet_is_named(tmp_path, columns, message):
    assert refused(parquet(tmp_path, **columns), "y").startswith(message)


@pytest.mark.parametrize("name", [f"a{suffix}{packed}" for suffix in FORMATS for packed in ("", ".gz")])
def test_damaged_files_are_refused(tmp_path, name):
    path = tmp_path / name
    path.write_bytes(b"PK\x03\x04\x00\xff and no more")
    with pytest.raises((ValueError, OSError), match=r"a\.|gzip"):
        read(path, "y")


def test_a_compressed_file_that_was_cut_short_is_refused(tmp_path):
    path = tmp_path / "a.csv.gz"
    path.write_bytes(gzip.compress(b"a,y\n" + 1000 * b"1,2\n")[:-12])
    assert refused(path, "y").startswith("is truncated or damaged")


def test_columns_are_matched_by_name(tmp_path):
    table = read(write(tmp_path, "b,a,y\n1,2,3\n"), "y")
    assert table.columns(("a", "b")).tolist() == [[2, 1]]
    assert table.columns(("a",)).tolist() == [[2]]  # Further columns are ignored.
    with pytest.raises(ValueError, match=r"lacks columns 'c', 'd'; it has columns 'b', 'a'"):
        table.columns(("a", "c", "d"))


def test_columns_that_libsvm_does_not_mention_are_zeros(tmp_path):
    table = read(write(tmp_path, "1 2:5\n1 2:6 3:7\n", "a.svm"))
    assert table.columns(("0", "2", "3", "4")).toarray().tolist() == [[0, 5, 0, 0], [0, 6, 7, 0]]
    assert table.columns(("1", "2")).toarray().tolist() == [[0, 5], [0, 6]]


@pytest.mark.parametrize("end", ["", ".gz"])
@pytest.mark.parametrize("kind", ["array", "coordinate"])
def test_a_matrix_market_file_that_declares_more_than_memory_holds(tmp_path, end, kind):
    size = "3 1000000000000" if kind == "array" else "3 3 1000000000000"
    content = f"%%MatrixMarket matrix {kind} real general\n{size}\n1\n".encode()
    path = tmp_path / f"a.mtx{end}"
    path.write_bytes(gzip.compress(content) if end else content)
    with pytest.raises(ValueError, match=r"does not fit into memory|is not a Matrix Market file"):
        read(path)


def test_a_file_that_is_no_gzip_file_is_named(tmp_path):
    path = tmp_path / "a.csv.gz"
    path.write_text("a,y\n1,2\n")
    with pytest.raises(ValueError, match=r"a\.csv\.gz is not a gzip file"):
        read(path)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.svm", f"1 1:2\n-1 {2**31 - 1}:3\n"),
        ("a.mtx", f"%%MatrixMarket matrix coordinate real general\n3 {2**31 - 1} 1\n1 1 2\n"),
        ("a.mtx", f"%%MatrixMarket matrix coordinate real general\n{2**31 - 1} 3 1\n1 1 2\n"),
    ],
)
def test_a_small_file_cannot_declare_a_huge_sparse_matrix(monkeypatch, tmp_path, name, content):
    assert "unpacks to more than" in refused(write(tmp_path, content, name))
    small = write(tmp_path, content.replace(str(2**31 - 1), "300"), name)
    assert 300 in read(small).X.shape or name == "a.svm"
    monkeypatch.setenv("FWFLOW_MAX_UNPACKED", "2399")
    assert "unpacks to more than 2399" in refused(small)


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_cells_are_divided_by_any_delimiter(tmp_path, delimiter):
    path = tmp_path / "a.csv"
    path.write_text(
        "\n".join(delimiter.join(row) for row in (["x", "city", "y"], ["1.5", "Rome", "2"], ["", "Oslo", "3"]))
    )
    frame = read_frame(path, "y")
    assert frame.names == ("x", "city")
    np.testing.assert_array_equal(frame.columns["x"], [1.5, np.nan])
    assert frame.columns["city"].tolist() == ["Rome", "Oslo"]


@pytest.mark.parametrize("cells", [["0,5", "1,25", ""], ["-1,5", "2", "3,5e2"], ["1,234.5", "2,000.0", "7.5"]])
def test_numbers_with_commas_are_refused(tmp_path, cells):
    """They would be read as text, that is as categories or as an identifier."""
    path = tmp_path / "a.csv"
    path.write_text("x;y\n" + "\n".join(f"{cell};1" for cell in cells))
    with pytest.raises(InputError, match=r"column 1 \('x'\) holds numbers with a comma"):
        read_frame(path, "y")
    assert read_frame(path, "y", text=["x"]).columns["x"].tolist() == cells
    path.write_text("x;y\n" + "\n".join(f"{cell};1" for cell in [*cells, "Rome, Italy"]))
    assert read_frame(path, "y").columns["x"].tolist() == [*cells, "Rome, Italy"]


@pytest.mark.parametrize(
    ("cells", "numbers"),
    [(["1", "", "2"], [1, np.nan, 2]), (["1", "NA", "2"], [1, np.nan, 2]), (["", "?", "nan"], [np.nan] * 3)],
)
def test_missing_cells_between_numbers(tmp_path, cells, numbers):
    path = tmp_path / "a.csv"
    path.write_text("x,y\n" + "\n".join(f"{cell},1" for cell in cells))
    np.testing.assert_array_equal(read_frame(path, "y").columns["x"], numbers)
