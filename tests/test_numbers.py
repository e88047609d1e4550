"""Is a number in a file or an option only what is written as one, whatever Python's float and int take?"""

import gzip

import numpy as np
import pytest

import fwflow as fw
from fwflow._validation import InputError, parsed
from fwflow.cli.models import _parse_radii
from fwflow.datasets import DataError
from fwflow.datasets.official import File, parse
from fwflow.networks import read_tntp
from fwflow.sets import mps
from fwflow.tables import column_names, read
from fwflow.tables.constraints import Constraint
from tests.cli.test_cli import main

#: What float() takes, or C's strtod takes a part of, and a table should not.
WRONG = [
    "1_000",
    "2020_01",
    "1_0.5",
    "1e1_0",
    "\u0661\u0662",
    "\uff11",
    "1\u00a0",
    "\u00a01",
    "\u20031",
    "\x1f1",
    "0x10",
]
WRONG += ["1,5", "1.5abc", "1.2.3", "--1", "1e", "\u22121", "1d3_0"]


@pytest.mark.parametrize("text", [*WRONG, " 1", "1 ", "", "\t1", "one", "1\n"])
def test_other_texts_are_no_numbers(text):
    assert parsed(text) is None


@pytest.mark.parametrize(
    "text", ["0", "-1", "+1.5", "1.", ".5", "1e5", "1E-5", "007", "-0", "1e999", "inf", "-Infinity"]
)
def test_numbers_are_those_of_float(text):
    assert parsed(text) == float(text)


def quoted(text):
    return f'"{text}"'


@pytest.mark.parametrize("text", WRONG)
def test_csv(tmp_path, text):
    path = tmp_path / "a.csv"
    path.write_text(f"a,b,y\n1,2,3\n4,{quoted(text)},6\n7,8,9\n", encoding="utf-8")
    with pytest.raises(InputError, match=r"line 3, column 2 \('b'\) must be a finite number; it is "):
        read(path, "y")


@pytest.mark.parametrize("text", WRONG)
def test_targets_are_text(tmp_path, text):
    path = tmp_path / "a.csv"
    path.write_text(f"a,y\n1,{quoted(text)}\n2,5\n", encoding="utf-8")
    assert read(path, "y").target == (text, "5")


def test_names_that_python_would_read_as_numbers(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("2020_01,2020_02,sales\n1,2,3\n4,5,6\n")
    assert column_names(path) == ["2020_01", "2020_02", "sales"]
    assert read(path, "sales").X.tolist() == [[1, 2], [4, 5]]
    path.write_text("2020_01,2020_02\n1,2\n4,5\n")
    assert read(path, "2020_02").X.tolist() == [[1], [4]]


def test_cells_may_have_blanks_around(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text('a,b,y\n 1,\t2 , "3"\n"4 "," 5",6\t\n')
    assert read(path, "y").X.tolist() == [[1, 2], [4, 5]]


@pytest.mark.parametrize("spelling", ["inf", "-inf", "Infinity", "+INF", "-nan", "1e999"])
def test_numbers_that_are_not_finite_are_refused(tmp_path, spelling):
    path = tmp_path / "a.csv"
    path.write_text(f"a,y\n1,2\n{spelling},3\n4,5\n")
    with pytest.raises(InputError, match="line 3, column 1"):
        read(path, "y")


@pytest.mark.parametrize("pair", [*(f"2:{text}" for text in WRONG), "1_0:2", "\u0662:2", "+2:1", "0x2:1", "\u00a02:1"])
def test_libsvm(tmp_path, pair):
    path = tmp_path / "a.svm"
    path.write_text(f"1 1:2\n-1 {pair}\n", encoding="utf-8")
    with pytest.raises(InputError, match=r"a\.svm, line 2"):
        read(path)


@pytest.mark.parametrize("text", WRONG)
@pytest.mark.parametrize("kind", ["array", "coordinate"])
@pytest.mark.parametrize("end", ["", ".gz"])
def test_matrix_market(tmp_path, text, kind, end):
    place = "" if kind == "array" else "2 1 "
    size = "3 1" if kind == "array" else "3 1 3"
    rows = [f"{place and '1 1 '}1", f"{place}{text}", f"{place and '3 1 '}3"]
    content = "\n".join([f"%%MatrixMarket matrix {kind} real general", "% 1_000", size, *rows, ""]).encode()
    path = tmp_path / f"a.mtx{end}"
    path.write_bytes(gzip.compress(content) if end else content)
    with pytest.raises(InputError, match=rf"a\.mtx{end}, line 5 must hold numbers; it is "):
        read(path)


def test_matrix_market_as_it_is_written(tmp_path):
    path = tmp_path / "a.mtx"
    for content in ("2 2\n1.5\n-2e-3\n.5\n4.\n", "% x_y\n\n2 2\r\n 1.5 \r\n-2E-3\r\n.5\r\n4"):
        path.write_bytes(b"%%MatrixMarket matrix array real general\n" + content.encode())
        assert read(path).X.tolist() == [[1.5, 0.5], [-2e-3, 4]]


MPS = """NAME T
ROWS
 N COST
 L R1
 G R2
COLUMNS
 M1 'MARKER' 'INTORG'
 X COST {} R1 1
 M1 'MARKER' 'INTEND'
 Y COST 1 R1 {}   $ a_remark
* another_1
 Y R2 1
RHS
 RHS R1 4 R2 {}
BOUNDS
 UP BND X {}
 FR BND Y
ENDATA
"""


@pytest.mark.parametrize(
    "text", [word for word in WRONG if len(word.split()) == 1 and word.strip() == word] + ["nan", "x"]
)
@pytest.mark.parametrize("place", range(4))
def test_mps(tmp_path, text, place):
    values = ["1"] * 4
    path = tmp_path / "a.mps"
    path.write_text(MPS.format(*values), encoding="utf-8")
    assert mps.read(path).names == ["X", "Y"]
    values[place] = text
    path.write_text(MPS.format(*values), encoding="utf-8")
    if place == 0 and text[0] not in "+-.0123456789":
        return  # the middle of a line may be a part of a name
    with pytest.raises(InputError, match=r"a\.mps, line \d+ must hold numbers as values"):
        mps.read(path)


def test_mps_in_fixed_format_with_spaces_in_names(tmp_path):
    path = tmp_path / "a.mps"
    path.write_text(
        "NAME          T\nROWS\n N  COST\n L  R 1\nCOLUMNS\n    X Y       COST         1.0D0 R 1          2.0\n"
        "RHS\n    RHS       R 1          4.0\nBOUNDS\n UP BND       X Y          4\nENDATA\n"
    )
    assert mps.read(path).names == ["X Y"]


@pytest.mark.parametrize("text", WRONG)
def test_tntp(tmp_path, text):
    zones = "<NUMBER OF ZONES> 2\n"
    tags = f"{zones}<NUMBER OF NODES> 2\n<FIRST THRU NODE> 1\n<NUMBER OF LINKS> 1\n<END OF METADATA>\n"
    (tmp_path / "net").write_text(f"{tags}1 2 100 1 6 0.15 4 0 0 1 ;", encoding="utf-8")
    (tmp_path / "trips").write_text(f"{zones}<END OF METADATA>\nOrigin 1\n 2 : 1{text};", encoding="utf-8")
    with pytest.raises(ValueError, match="trips, line 4"):
        read_tntp(tmp_path / "net", tmp_path / "trips")


@pytest.mark.parametrize("text", [*WRONG, "1.0", "inf"])
def test_ratings(tmp_path, text):
    file = File("u.data", "", 1, [range(100), range(100)])
    with pytest.raises(DataError):
        parse(file, f"{text}\t2\n".encode(), tmp_path / "u.data")


@pytest.mark.parametrize("text", [text for text in WRONG if text != "1,5"])
def test_tableaus(tmp_path, text):
    (tmp_path / "a.json").write_text(f'{{"A": [[0, 0], [{quoted(text)}, 0]], "beta": [0, 1]}}', encoding="utf-8")
    with pytest.raises(ValueError, match=r"must hold finite numbers|Invalid control"):
        fw.Tableau.from_file(tmp_path / "a.json")


@pytest.mark.parametrize("text", WRONG)
def test_sets_and_radii(text):
    with pytest.raises(InputError):
        Constraint.parse(f"l1:{text}")
    if text == "1,5":
        return
    with pytest.raises(InputError):
        Constraint.parse(f"box:0,{text}")
    with pytest.raises(InputError):
        _parse_radii(text)
    with pytest.raises(InputError):
        _parse_radii(f"1,{text}")


OPTIONS = {
    "solve": ("--tol", "--rtol", "--rho", "--max-iter", "--max-time", "--every", "--largest"),
    "path": ("--rtol", "--rho", "--max-iter"),
    "compare": ("--iterations", "--rho", "--workers"),
}


@pytest.mark.parametrize("text", ["1_000", "\u0661", "1\u00a0", "one", "0x10", "1e", ""])
@pytest.mark.parametrize(("command", "option"), [(name, option) for name, some in OPTIONS.items() for option in some])
def test_options(capsys, monkeypatch, tmp_path, command, option, text):
    path = tmp_path / "a.csv"
    path.write_text("1,2\n3,4\n")
    given = {"solve": ("--set", "l1:1", "--target", "2"), "path": ("--target", "2"), "compare": ()}[command]
    code, _, error = main(capsys, monkeypatch, command, path, *given, option, text)
    assert code == 2
    assert option in error.replace("'", "")


def test_whole_options(capsys, monkeypatch, tmp_path):
    for text in ("1.5", "1e3", "inf"):
        code, _, error = main(capsys, monkeypatch, "compare", "triangle", "-n", text, "--out", tmp_path)
        assert (code, "is not an integer" in error) == (2, True)
    assert np.isfinite(parsed("1e3"))
