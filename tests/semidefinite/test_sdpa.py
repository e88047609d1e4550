"""Are SDPA files read and written as their definition says, and are bad files refused with the line?"""

import re
import shutil
import subprocess

import numpy as np
import pytest

from fwflow import semidefinite
from tests.semidefinite.programs import as_problem, optimum, random_program

# The example of the SDPA manual with two blocks and a diagonal one, and its optimal value as CSDP prints it.
EXAMPLE = """"Example 2 with comments
*another comment
5 = mDIM
3 = nBLOCK
(2, 3, -2) = bLOCKsTRUCT
{1.1, -10, 6.6, 19, 4.1}
0 1 1 1 -1.4
0 1 1 2 -3.2
0 1 2 2 -28
0 2 1 1 15
0 2 1 2 -12
0 2 1 3 2.1
0 2 2 2 16
0 2 2 3 -3.8
0 2 3 3 15
0 3 1 1 1.8
0 3 2 2 -4.0
1 1 1 1 0.5
1 1 1 2 5.2
1 1 2 2 -5.3
1 2 1 1 7.8
1 2 1 2 -2.4
1 2 1 3 6.0
1 2 2 2 4.2
1 2 2 3 6.5
1 2 3 3 2.1
1 3 1 1 -4.5
1 3 2 2 -3.5
2 1 1 1 1.7
2 1 1 2 7.0
2 1 2 2 -9.3
2 2 1 1 -1.9
2 2 1 2 -0.9
2 2 1 3 -1.3
2 2 2 2 -0.8
2 2 2 3 -2.1
2 2 3 3 4.0
2 3 1 1 -0.2
2 3 2 2 -3.7
3 1 1 1 6.3
3 1 1 2 -7.5
3 1 2 2 -3.3
3 2 1 1 0.2
3 2 1 2 8.8
3 2 1 3 5.4
3 2 2 2 3.4
3 2 2 3 -0.4
3 2 3 3 7.5
3 3 1 1 -3.3
3 3 2 2 -4.0
4 1 1 1 -2.4
4 1 1 2 -2.5
4 1 2 2 -2.9
4 2 1 1 3.4
4 2 1 2 -3.2
4 2 1 3 -4.5
4 2 2 2 3.0
4 2 2 3 -4.8
4 2 3 3 3.6
4 3 1 1 4.8
4 3 2 2 9.7
5 1 1 1 -6.5
5 1 1 2 -5.4
5 1 2 2 -6.6
5 2 1 1 6.7
5 2 1 2 -7.2
5 2 1 3 -3.6
5 2 2 2 7.3
5 2 2 3 -3.0
5 2 3 3 -1.4
5 3 1 1 6.1
5 3 2 2 -1.5
"""
VALUE = 32.062693  # min c^T x of the manual: 3.2062693e+01


def test_the_example_of_the_manual(tmp_path):
    path = tmp_path / "example2.dat-s"
    path.write_text(EXAMPLE)
    problem = semidefinite.read_sdpa(path, trace=20.0)
    assert (problem.n, problem.map.m) == (7, 5)
    C = problem.C.apply(np.eye(7))
    assert C[2, 3] == C[3, 2] == 12
    assert C[6, 6] == 4.0
    assert C[0, 2] == C[5, 6] == 0
    r = semidefinite.solve(problem, rtol=1e-6)
    assert r.success
    np.testing.assert_allclose([-r.value, -r.bound], VALUE, rtol=3e-6)
    assert r.bound <= -VALUE * (1 - 1e-7)


@pytest.mark.parametrize("seed", range(4))
def test_what_is_written_is_read_again(tmp_path, seed):
    problem = as_problem(*random_program("sparse", seed))
    path = tmp_path / "program.dat-s"
    semidefinite.write_sdpa(problem, path)
    again = semidefinite.read_sdpa(path, trace=1e6)
    slack = int(problem.inequalities.sum()) + (not problem.trace_is_implied)
    assert again.n == problem.n + slack
    assert len(again.b) == len(problem.b) + (not problem.trace_is_implied)
    n = problem.n
    np.testing.assert_array_equal(again.C.apply(np.eye(again.n))[:n, :n], problem.C.apply(np.eye(n)))
    Y = np.random.default_rng(seed).standard_normal((again.n, 3))
    Y[n:] = 0
    np.testing.assert_allclose(again.map.image(Y)[: len(problem.b)], problem.map.image(Y[:n]), rtol=1e-12)


@pytest.mark.skipif(shutil.which("csdp") is None, reason="CSDP is not installed (Debian: coinor-csdp)")
@pytest.mark.parametrize("kind", ["sparse", "blocks"])
@pytest.mark.parametrize("seed", range(4))
def test_agrees_with_csdp(tmp_path, kind, seed):
    data = random_program(kind, seed)
    path, problem = tmp_path / "program.dat-s", as_problem(*data)
    semidefinite.write_sdpa(problem, path)
    printed = subprocess.run(["csdp", path, tmp_path / "solution"], capture_output=True, text=True, check=False).stdout
    found = -float(re.search(r"Primal objective value: (\S+)", printed)[1])
    r = semidefinite.solve(problem)
    assert r.success
    assert r.bound <= found + 1e-5 * abs(found)
    np.testing.assert_allclose(r.value, found, rtol=2e-4)
    np.testing.assert_allclose(optimum(*data), found, rtol=1e-5)


SMALL = "1\n1\n2\n1.0\n1 1 1 1 1.0\n1 1 2 2 1.0\n"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("1\n1\n2", "x\n1\n2", "line 1: the number of constraints must be an integer; got 'x'"),
        ("1\n1\n2", "0\n1\n2", "line 1: the number of constraints must be positive"),
        ("1\n1\n2", "1\n1\n0", "line 3: a block size must not be 0"),
        ("1\n1\n2", "1\n1\n2.5", "line 3: a block size must be an integer"),
        ("2\n1.0\n", "2\n1.0 2.0\n", "line 4: there are 2 right-hand sides; expected 1"),
        ("2\n1.0\n", "2\nnan\n", "line 4: a right-hand side must be a finite number"),
        ("1 1 1 1 1.0", "1 1 1 1", "line 5: an entry has five fields"),
        ("1 1 1 1 1.0", "2 1 1 1 1.0", "line 5: matrix 2 does not exist"),
        ("1 1 1 1 1.0", "1 2 1 1 1.0", "line 5: block 2 does not exist"),
        ("1 1 1 1 1.0", "1 1 1 3 1.0", r"line 5: entry \(1, 3\) is outside block 1"),
        ("1 1 1 1 1.0", "1 1 0 1 1.0", r"line 5: entry \(0, 1\) is outside"),
        ("1 1 1 1 1.0", "1 1 1 1 1_0", "line 5: a value must be a finite number"),
        ("1 1 1 1 1.0", "1 1 2 2 1.0", "matrix 1 has two entries at row 2, column 2"),
        (SMALL, "1\n1\n-2\n1.0\n1 1 1 2 1.0\n", "off the diagonal of block 1"),
        (SMALL, "1\n1\n", "ends after line 2, before the block sizes"),
        (SMALL, "", "ends after line 0"),
        (SMALL, '"only a comment\n', "before the number of constraints"),
    ],
)
def test_bad_files_are_refused_with_the_line(tmp_path, old, new, message):
    path = tmp_path / "bad.dat-s"
    assert old in SMALL
    path.write_text(SMALL.replace(old, new, 1))
    with pytest.raises(ValueError, match=message):
        semidefinite.read_sdpa(path)


def test_small_variations_of_the_format(tmp_path):
    path = tmp_path / "small.dat-s"
    path.write_text(
        "* comment\n1 =m\n2 = nblocks\n{2,\n-1}\n{+1.0D0}\n\n1 1 1 1 1\n1 1 2 2 1.0e0\n1,2,1,1,1\n0 1 2 1 -0.5\n"
    )
    problem = semidefinite.read_sdpa(path)
    assert problem.n == 3
    assert problem.trace == 1.0
    assert problem.C.apply(np.eye(3))[0, 1] == 0.5
    r = semidefinite.solve(problem)
    np.testing.assert_allclose([r.value, r.bound], -0.5, rtol=1e-4)
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ValueError, match="not a text file"):
        semidefinite.read_sdpa(path)
    with pytest.raises(FileNotFoundError):
        semidefinite.read_sdpa(tmp_path / "missing")
