"""Sets read from MPS files against HiGHS, which solves the same files."""

import gzip
import sys

import highspy
import numpy as np
import pytest

import fwflow as fw
from fwflow.sets.mps import read

# Rows of every kind: at most, at least, equal, two ranges, and one without sides that is left out.
PROGRAM = """NAME example
ROWS
 N cost
 L most
 G least
 E equal
 L range
 G other
 N ignored
COLUMNS
{marker}    x cost 1.0 most 1.0
    x equal 1.0 range 2.0
    y cost -2.0 most 1.0
    y least 1.0 other 1.0
{end}    z cost 0.5 equal -1.0
    z range 1.0 ignored 3.0
    w cost -1.0 most 1.0
    w least 2.0 other 1.0
RHS
    rhs most 4.0 least 1.0
    rhs equal 0.5 range 6.0
    rhs other 0.5
RANGES
    ranges range 5.0 other 2.0
BOUNDS
 UP bounds x 3.0
 LO bounds y -1.0
 UP bounds y 2.0
 FR bounds z
 UP bounds w 2.5
ENDATA
"""
MARKERS = {
    "marker": "    m1 'MARKER' 'INTORG'\n",
    "end": "    m2 'MARKER' 'INTEND'\n",
}
LINEAR, INTEGER = PROGRAM.format(marker="", end=""), PROGRAM.format(**MARKERS)


@pytest.fixture
def written(tmp_path):
    def write(text, name="model.mps"):
        path = tmp_path / name
        path.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
        return path

    return write


def optimum(path, cost):
    """Of another linear objective over the feasible set of a file."""
    solver = highspy.Highs()
    solver.setOptionValue("output_flag", False)
    solver.readModel(str(path))
    for column, value in enumerate(cost):
        solver.changeColCost(column, float(value))
    solver.run()
    return solver.getObjectiveValue()


@pytest.mark.parametrize(
    ("kind", "text"), [(fw.Polytope, LINEAR), (fw.MixedInteger, INTEGER), (fw.MixedInteger, LINEAR)]
)
def test_the_oracle_of_a_file_is_that_of_highs(kind, text, written):
    path = written(text)
    C, rng = kind.read_mps(path), np.random.default_rng(0)
    assert C.shape == (4,)
    for g in [read(path).cost, *rng.standard_normal((40, 4))]:
        s = C.lmo(g)
        # HiGHS leaves integers of its own by up to 1e-6 from where they should be.
        assert s.dot(g) == pytest.approx(optimum(path, g), abs=1e-5 if text is INTEGER else 1e-7)
        assert C.contains(np.asarray(s)) is True
        if text is INTEGER:
            np.testing.assert_array_equal(np.asarray(s)[:2], np.round(np.asarray(s)[:2]))


def test_what_a_file_says(written):
    found = read(written(INTEGER, "model.mps.gz"))
    assert found.names == ["x", "y", "z", "w"]
    assert found.integrality.tolist() == [True, True, False, False]
    np.testing.assert_array_equal(found.cost, [1.0, -2.0, 0.5, -1.0])
    np.testing.assert_array_equal(found.lower, [0.0, -1.0, -np.inf, 0.0])
    np.testing.assert_array_equal(found.upper, [3.0, 2.0, np.inf, 2.5])
    sides = sorted((*row, side) for row, side in zip(found.A.toarray().tolist(), found.b.tolist(), strict=True))
    assert sides == sorted(
        [
            (1.0, 1.0, 0.0, 1.0, 4.0),
            (-0.0, -1.0, -0.0, -2.0, -1.0),
            (2.0, 0.0, 1.0, 0.0, 6.0),
            (-2.0, -0.0, -1.0, -0.0, -1.0),
            (0.0, 1.0, 0.0, 1.0, 2.5),
            (-0.0, -1.0, -0.0, -1.0, -0.5),
        ]
    )
    np.testing.assert_array_equal(found.C.toarray(), [[1.0, 0.0, -1.0, 0.0]])
    assert found.d.tolist() == [0.5]


def test_a_program_that_maximises_has_costs_of_the_other_sign(written):
    text = LINEAR.replace("ROWS\n", "OBJSENSE\n    MAX\nROWS\n", 1)
    np.testing.assert_array_equal(read(written(text)).cost, [-1.0, 2.0, -0.5, 1.0])


def test_a_run_over_a_file(written):
    C = fw.Polytope.read_mps(written(LINEAR))
    f = fw.Quadratic(np.eye(4), [1.0, 1.0, 1.0, 1.0])
    r = fw.minimize(f, C, tol=1e-8)
    assert r.success
    assert r.feasible is True


QUADRATIC = "QUADOBJ\n    x x 2.0\nENDATA\n"


@pytest.mark.parametrize(
    ("text", "name", "match"),
    [
        (INTEGER, "model.mps", r"must be integers; MixedInteger\.read_mps reads it"),
        (LINEAR.replace("ENDATA\n", QUADRATIC), "model.mps", "quadratic objective; only linear and"),
        (LINEAR.replace("UP bounds w", "SC bounds w"), "model.mps", "semi-continuous"),
        ("this is no such file\n", "model.mps", "not an MPS file of a linear program"),
        ("", "model.mps", r"not an MPS file of a linear program|no columns"),
        (LINEAR, "model.lp", r"must end in \.mps or \.mps\.gz"),
        (LINEAR.replace("UP bounds y 2.0", "UP bounds y -2.0"), "model.mps", "empty set"),
    ],
)
def test_files_that_are_no_polytopes_are_refused(text, name, match, written):
    with pytest.raises(ValueError, match=match):
        fw.Polytope.read_mps(written(text, name))


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(FileNotFoundError, match="does not exist"):
        fw.Polytope.read_mps(tmp_path / "none.mps")


def test_reading_says_what_it_needs(written, monkeypatch):
    monkeypatch.setitem(sys.modules, "highspy", None)
    with pytest.raises(ImportError, match=r"highspy: pip install 'fwflow\[mps\]'"):
        fw.Polytope.read_mps(written(LINEAR))
