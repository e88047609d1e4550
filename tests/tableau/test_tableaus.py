import json
import math
import pickle
from dataclasses import FrozenInstanceError
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.integrate import RK23, RK45

import fwflow as fw
from fwflow.tableau.catalogue import find_tableau
from fwflow.tableau.scheme import mixture_weights
from tests.catalogue import CERTIFIED, ORDERS, UNCERTIFIED

CATALOGUE = pytest.mark.parametrize("name", fw.tableaus)
EPS = np.finfo(float).eps
exhaustive = settings(deadline=None, max_examples=60, derandomize=True)


def fractions(text):
    return [Fraction(entry) for entry in text.split()]


# Appendix A of the paper: A below the diagonal, beta, omega, and z by k, for c = 2.
PAPER = {
    "midpoint": (["1/2"], "0 1", "0 1/2", {1: [-0.3810, 1.1429], 2: [-0.2222, 0.8889]}),
    "rk44": (
        ["1/2", "0 1/2", "0 0 1"],
        "1/6 1/3 1/3 1/6",
        "0 1/2 1/2 1",
        {1: [0.2449, 0.5986, 0.5714, 0.3333]},
    ),
    "rk38": (
        ["1/3", "-1/3 1", "1 -1 1"],
        "1/8 3/8 3/8 1/8",
        "0 1/3 2/3 1",
        {1: [0.1758, 0.6409, 0.6818, 0.2500]},
    ),
    "rk5": (
        ["1/4", "1/8 1/8", "0 -1/2 1", "3/16 0 0 9/16", "-3/7 2/7 12/7 -12/7 8/7"],
        "7/90 0 32/90 12/90 32/90 7/90",
        "0 1/4 1/4 1/2 3/4 1",
        {1: [0.1821, 0.0068, 0.8416, 0.3657, 0.9956, 0.2333]},
    ),
}


def printed(name):
    lower, beta, omega, z = PAPER[name]
    q = len(lower) + 1
    rows = [fractions(row) for row in ["", *lower]]
    return [row + [Fraction(0)] * (q - len(row)) for row in rows], fractions(beta), fractions(omega), z


def exact(tableau):
    """The fractions that the floats of a tableau with small denominators stand for."""

    def simple(values):
        return [Fraction(v).limit_denominator(10**5) for v in values]

    return [simple(row) for row in tableau.A.tolist()], simple(tableau.beta.tolist()), simple(tableau.omega.tolist())


def floats(values):
    return [floats(v) if isinstance(v, list) else float(v) for v in values]


def tableau_of(A, beta, omega=None):
    return fw.Tableau(floats(A), floats(beta), None if omega is None else floats(omega))


def stage_gammas(omega, c, k, delta=Fraction(1)):
    return [delta * c / (c + (k + w) * delta) for w in omega]


def inverse(M):
    """Gauss-Jordan elimination in exact arithmetic; the pivots of a triangular matrix need no search."""
    q = len(M)
    rows = [list(row) + [Fraction(int(i == j)) for j in range(q)] for i, row in enumerate(M)]
    for i in range(q):
        rows[i] = [entry / rows[i][i] for entry in rows[i]]
        for j in range(q):
            if j != i:
                rows[j] = [a - rows[j][i] * b for a, b in zip(rows[j], rows[i], strict=True)]
    return [row[q:] for row in rows]


def paper_P(A, gamma):
    """P = Gamma (I + A^T Gamma)^{-1}, the paper's proposition on feasibility."""
    q = len(gamma)
    M = [[int(i == j) + A[j][i] * gamma[j] for j in range(q)] for i in range(q)]
    return [[gamma[i] * entry for entry in row] for i, row in enumerate(inverse(M))]


def is_convex(weights):
    return min(weights, default=0) >= 0 and sum(weights) <= 1


def is_feasible(coefficients, c, delta, k):
    A, beta, omega = coefficients
    if c + (k + min(omega)) * delta <= 0:  # gamma = c / (c + t) is not defined there, or negative
        return False
    return is_convex(mixture_weights(A, beta, stage_gammas(omega, c, k, delta))[1])


small = st.fractions(min_value=-1, max_value=2, max_denominator=6)
shares = st.fractions(min_value=0, max_value=1, max_denominator=6)


@st.composite
def coefficients(draw, max_stages=4, early_stages=False):
    q = draw(st.integers(1, max_stages))
    A = [[draw(small) for _ in range(i)] + [Fraction(0)] * (q - i) for i in range(q)]
    beta = [draw(shares) for _ in range(q - 1)]
    row_sums = [sum(row, Fraction(0)) for row in A]
    omega = (
        [Fraction(0), *(draw(small if early_stages else shares) for _ in range(q - 1))]
        if draw(st.booleans())
        else row_sums
    )
    assume((min(omega) < 0) is early_stages)
    return A, [*beta, 1 - sum(beta)], omega


@pytest.mark.parametrize(("name", "k"), [(name, k) for name in PAPER for k in PAPER[name][3]])
def test_z_to_the_digits_printed_in_the_paper(name, k):
    A, beta, omega, z = printed(name)
    _, p = mixture_weights(A, beta, stage_gammas(omega, Fraction(2), k))
    half_a_digit = Fraction(1, 20_000)
    assert all(abs(len(p) * a - Fraction(str(b))) <= half_a_digit for a, b in zip(p, z[k], strict=True))
    np.testing.assert_array_equal(fw.tableaus[name].certificate(c=2.0, k=k).z.round(4), z[k])


@pytest.mark.parametrize("name", PAPER)
def test_coefficients_printed_in_the_paper(name):
    A, beta, omega, _ = printed(name)
    tableau = fw.tableaus[name]
    assert (tableau.A.tolist(), tableau.beta.tolist(), tableau.omega.tolist()) == (
        floats(A),
        floats(beta),
        floats(omega),
    )


@pytest.mark.parametrize(("name", "peer"), [("dp5", RK45), ("bs3", RK23)])
def test_coefficients_of_embedded_pairs_agree_with_scipy(name, peer):
    tableau = fw.tableaus[name]
    q = tableau.stages
    np.testing.assert_array_equal(tableau.A[:, : q - 1], peer.A[:q, : q - 1])
    np.testing.assert_array_equal(tableau.beta, peer.B[:q])
    np.testing.assert_allclose(tableau.omega, peer.C[:q], rtol=2 * EPS)


@pytest.mark.parametrize(
    ("name", "lower", "beta"),
    [
        ("euler", [], "1"),
        ("heun", ["1"], "1/2 1/2"),
        ("ralston", ["2/3"], "1/4 3/4"),
        ("kutta3", ["1/2", "-1 2"], "1/6 2/3 1/6"),
        ("ssprk3", ["1", "1/4 1/4"], "1/6 1/6 2/3"),
    ],
)
def test_coefficients_of_the_textbook(name, lower, beta):
    A, b, omega = exact(fw.tableaus[name])
    assert [row[:i] for i, row in enumerate(A)] == [[], *map(fractions, lower)]
    assert b == fractions(beta)
    assert omega == [sum(row) for row in A]


@CATALOGUE
@pytest.mark.parametrize("k", [0, 1, 2, 7, 1000])
def test_catalogue_weights_solve_the_papers_formula(name, k):
    A, beta, omega = exact(fw.tableaus[name])
    check_against_paper(A, beta, stage_gammas(omega, Fraction(2), k))


@given(coefficients(), st.integers(0, 50), st.fractions(1, 5), st.fractions(Fraction(1, 10), 2))
@exhaustive
def test_random_weights_solve_the_papers_formula(tableau, k, c, delta):
    A, beta, omega = tableau
    check_against_paper(A, beta, stage_gammas(omega, c, k, delta))


def check_against_paper(A, beta, gamma):
    q = len(beta)
    P = paper_P(A, gamma)
    W, p = mixture_weights(A, beta, gamma)
    assert p == [sum(P[i][j] * beta[j] for j in range(q)) for i in range(q)]
    # Z = (S - x 1^T) P and X_bar = x 1^T + Z A^T, so stage i weighs vertex j by (P A^T)_ji.
    stages = [[sum(P[j][m] * A[i][m] for m in range(q)) for j in range(i)] for i in range(q)]
    assert stages == W


@CATALOGUE
@pytest.mark.parametrize("k", [0, 1, 10])
@pytest.mark.parametrize("delta", [1, 3, Fraction(1, 10)])  # at 3 the weights of early steps sum to more than one
def test_certificate_fields(name, k, delta):
    tableau = fw.tableaus[name]
    q = tableau.stages
    A, beta, omega = exact(tableau)
    gamma = stage_gammas(omega, Fraction(2), k, Fraction(delta))
    W, p = mixture_weights(A, beta, gamma)
    certificate = tableau.certificate(c=2.0, k=k, delta=float(delta))
    # The same sums without cancellation bound what rounding can do to them: no path through the
    # recursion has more than 4 q^2 operations.
    size_W, size_p = mixture_weights([[-abs(a) for a in row] for row in A], [abs(b) for b in beta], gamma)
    for found, true, size in zip((certificate.p, *certificate.W), (p, *W), (size_p, *size_W), strict=True):
        assert len(found) == len(true)
        assert all(
            abs(Fraction(a) - b) <= 4 * q**2 * Fraction(EPS) * abs(s)
            for a, b, s in zip(map(float, found), true, size, strict=True)
        )
    np.testing.assert_array_equal(certificate.z, q * certificate.p)
    assert certificate.feasible is is_convex(p)
    assert certificate.stages_feasible is all(map(is_convex, W))


def test_certificate_depends_on_c_and_delta():
    heun = fw.tableaus["heun"]
    np.testing.assert_allclose(heun.certificate(c=4.0, k=1).p, [0.8 / 2 * (1 - 2 / 3), 1 / 3], rtol=4 * EPS)
    np.testing.assert_allclose(heun.certificate(c=2.0, k=1, delta=0.5).p, [0.4 / 2 * (1 - 1 / 3), 1 / 6], rtol=4 * EPS)


def test_defaults_of_the_certificate_are_the_papers():
    tableau = fw.tableaus["rk44"]
    np.testing.assert_array_equal(tableau.certificate().z, tableau.certificate(c=2.0, k=1, delta=1.0).z)


def test_certificates_can_be_compared():
    heun = fw.tableaus["heun"]
    assert (heun.certificate(k=1) == heun.certificate(k=2)) is False


@pytest.mark.parametrize("c", [1, 2, 4, Fraction(7, 2)])
@pytest.mark.parametrize("delta", [1, Fraction(1, 10), 3])
@CATALOGUE
def test_feasible_from_by_trial(name, c, delta):
    tableau = fw.tableaus[name]
    check_feasible_from(tableau, exact(tableau), Fraction(c), Fraction(delta))


@given(coefficients(), st.sampled_from([1, 2, Fraction(5, 2)]), st.sampled_from([1, Fraction(1, 2), 2]))
@exhaustive
def test_feasible_from_by_trial_on_random_tableaus(tableau, c, delta):
    check_feasible_from(tableau_of(*tableau), tableau, Fraction(c), Fraction(delta))


def check_feasible_from(tableau, coefficients, c, delta):
    first = tableau.certificate(c=float(c), delta=float(delta), k=1000).feasible_from
    if first is None:  # however late, a step may leave the set
        assert not is_feasible(coefficients, c, delta, 10**12)
        return
    later = [first + k for k in (*range(40), *(int(1.4**j) for j in range(10, 40)), 10**12)]
    assert all(is_feasible(coefficients, c, delta, k) for k in later)
    assert first == 0 or not is_feasible(coefficients, c, delta, first - 1)


def test_feasible_from_is_not_later_than_a_step_that_only_touches_the_boundary():
    # With equal gammas g, p_1 = g (1 - 2 g)^2 / 16 vanishes at g = 1/2 without a change of sign.
    tableau = fw.Tableau([[0, 0, 0], [1, 0, 0], [-6 / 5, 4 / 5, 0]], [1 / 16, 5 / 8, 5 / 16], [0, 0, 0])
    assert all(is_feasible(exact(tableau), Fraction(2), Fraction(1), k) for k in range(200))
    assert tableau.certificate(c=2.0).feasible_from == 0


@given(coefficients(max_stages=3, early_stages=True), st.sampled_from([1, 2, 4]), st.sampled_from([1, 2]))
@exhaustive
def test_feasible_from_with_stages_before_the_step(tableau, c, delta):
    check_feasible_from(tableau_of(*tableau), tableau, Fraction(c), Fraction(delta))


@pytest.mark.parametrize("omega", [-2, -3])
def test_a_stage_before_the_flow_begins_is_refused_by_name(omega):
    # gamma(-c) is infinite and gamma(t) negative before it.
    with pytest.raises(ValueError, match="omega"):
        fw.Tableau([[0, 0], [1, 0]], [0.5, 0.5], [0, omega]).certificate(c=2.0, k=0)


@pytest.mark.parametrize("omega", [-2, -5 / 2, -5])
def test_a_run_does_not_begin_before_the_flow(omega):
    f = fw.Quadratic(np.eye(2))
    with pytest.raises(ValueError, match="omega"):
        fw.minimize(f, fw.L1Ball(1.0), method=fw.Tableau([[0, 0], [1, 0]], [0.5, 0.5], [0, omega]), max_iter=1)


def test_which_tableaus_are_certified():
    first = {name: tableau.certificate(c=2.0).feasible_from for name, tableau in fw.tableaus.items()}
    assert first == dict.fromkeys(CERTIFIED, 0) | {"midpoint": None, "ralston": 2, "dp5": None}
    assert set(first) == {*CERTIFIED, *UNCERTIFIED}


@pytest.mark.sampled(3)
@CATALOGUE
def test_largest_z_decays_with_k(name):
    norms = [np.abs(fw.tableaus[name].certificate(c=2.0, k=k).z).max() for k in range(1, 200)]
    assert (np.diff(norms) < 0).all()


# The order conditions, written out (Hairer, Norsett & Wanner, table II.2.2), with c the row sums of A.
def order_conditions(A, beta):
    def dot(a, b):
        return sum(x * y for x, y in zip(a, b, strict=True))

    def times(*vectors):
        return [math.prod(entries) for entries in zip(*vectors, strict=True)]

    def apply(v):
        return [dot(row, v) for row in A]

    c = [sum(row) for row in A]
    Ac, Acc = apply(c), apply(times(c, c))
    trees = {
        1: [([1] * len(c), 1)],
        2: [(c, 2)],
        3: [(times(c, c), 3), (Ac, 6)],
        4: [(times(c, c, c), 4), (times(c, Ac), 8), (Acc, 12), (apply(Ac), 24)],
        5: [
            (times(c, c, c, c), 5),
            (times(c, c, Ac), 10),
            (times(c, Acc), 15),
            (times(c, apply(Ac)), 30),
            (times(Ac, Ac), 20),
            (apply(times(c, c, c)), 20),
            (apply(times(c, Ac)), 40),
            (apply(Acc), 60),
            (apply(apply(Ac)), 120),
        ],
    }
    return {
        n: [dot(beta, phi) - Fraction(1, density) for phi, density in conditions] for n, conditions in trees.items()
    }


def order_by_hand(A, beta):
    residuals = order_conditions(A, beta)
    return next((n - 1 for n in residuals if any(residuals[n])), 5)


@CATALOGUE
def test_order_declared_by_algebra_by_hand_and_measured(name):
    tableau = fw.tableaus[name]
    A, beta, _ = exact(tableau)
    assert tableau.order == ORDERS[name] == order_by_hand(A, beta)
    assert round(fw.checks.observed_order(tableau)) == ORDERS[name]


@given(st.fractions(Fraction(1, 4), 1, max_denominator=8))
@exhaustive
def test_every_two_stage_tableau_of_order_two(u):
    beta = [1 - 1 / (2 * u), 1 / (2 * u)]
    assert tableau_of([[0, 0], [u, 0]], beta).order == 2


def kutta_family(u, v):
    """All three-stage tableaus of order three with distinct stage times 0, u, v."""
    b2, b3 = (2 - 3 * v) / (6 * u * (u - v)), (2 - 3 * u) / (6 * v * (v - u))
    a32 = v * (v - u) / (u * (2 - 3 * u))
    return [[0, 0, 0], [u, 0, 0], [v - a32, a32, 0]], [1 - b2 - b3, b2, b3]


times = st.fractions(Fraction(1, 5), 1, max_denominator=5)


@given(times, times)
@exhaustive
def test_every_three_stage_tableau_of_order_three(u, v):
    assume(u != v and u != Fraction(2, 3))
    A, beta = kutta_family(u, v)
    assert tableau_of(A, beta).order == 3
    # Moving weight within row 3 keeps the quadrature conditions and breaks beta A c = 1/6.
    A[2][0] += Fraction(1, 7)
    A[2][1] -= Fraction(1, 7)
    assert tableau_of(A, beta).order == 2


@given(st.fractions(Fraction(1, 10), 2, max_denominator=10))
@exhaustive
def test_a_family_of_order_four(b3):
    half = Fraction(1, 2)
    a32 = 1 / (6 * b3)
    A = [[0] * 4, [half, 0, 0, 0], [half - a32, a32, 0, 0], [0, 1 - 3 * b3, 3 * b3, 0]]
    beta = [Fraction(1, 6), Fraction(2, 3) - b3, b3, Fraction(1, 6)]
    assert order_by_hand(A, beta) == 4
    assert tableau_of(A, beta).order == 4


def nonautonomous_order(A, beta, omega):
    """Up to three: where x' = F(t, x), a leaf is the row sum for x and omega for t."""

    def dot(a, b):
        return sum(x * y for x, y in zip(a, b, strict=True))

    c = [sum(row) for row in A]
    second = [dot(beta, leaf) - Fraction(1, 2) for leaf in (c, omega)]
    third = [
        dot(beta, [x * y for x, y in zip(a, b, strict=True)]) - Fraction(1, 3)
        for a, b in ((c, c), (c, omega), (omega, omega))
    ] + [dot(beta, [dot(row, leaf) for row in A]) - Fraction(1, 6) for leaf in (c, omega)]
    return 1 if any(second) else 2 if any(third) else 3


@given(times, times, shares, st.booleans())
@exhaustive
def test_order_where_omega_is_not_the_row_sum(u, v, w, balanced):
    assume(u != v and u != Fraction(2, 3))
    A, beta = kutta_family(u, v)
    assume(beta[2] != 0)
    # Balanced, the stage times keep their mean 1/2 and the tableau keeps order two at least.
    omega = [0, w, (Fraction(1, 2) - beta[1] * w) / beta[2] if balanced else w / 2]
    assert tableau_of(A, beta, omega).order == nonautonomous_order(A, beta, omega)


@pytest.mark.parametrize(("omega", "order"), [([0, 1 / 4, 3 / 4], 2), ([0, 1 / 4, 1 / 4], 1), ([0, 1 / 2, 1 / 2], 2)])
def test_measured_order_where_omega_is_not_the_row_sum(omega, order):
    tableau = fw.Tableau([[0, 0, 0], [1 / 2, 0, 0], [1 / 2, 0, 0]], [0, 1 / 2, 1 / 2], omega)
    assert tableau.order == order
    assert round(fw.checks.observed_order(tableau)) == order


def test_omega_reaches_the_weights():
    early, late = (fw.Tableau([[0, 0], [1, 0]], [1 / 2, 1 / 2], omega) for omega in ([0, 0], [0, 1]))
    np.testing.assert_allclose(early.certificate(k=2).p, [1 / 8, 1 / 4], rtol=4 * EPS)
    np.testing.assert_allclose(late.certificate(k=2).p, [3 / 20, 1 / 5], rtol=4 * EPS)


def test_omega_defaults_to_the_row_sums():
    A = [[0, 0, 0], [0.5, 0, 0], [-1, 2, 0]]
    np.testing.assert_array_equal(fw.Tableau(A, [1 / 6, 2 / 3, 1 / 6]).omega, [0, 0.5, 1])


@pytest.mark.parametrize(
    ("argument", "A", "beta", "omega"),
    [
        ("A", [[1.0]], [1.0], None),
        ("A", [[0, 1], [0, 0]], [0.5, 0.5], None),
        ("A", [[0, 0]], [1.0], None),
        ("A", [0.0], [1.0], None),
        ("A", [[0, 0], [1]], [0.5, 0.5], None),
        ("A", [[0, 0], [math.nan, 0]], [0.5, 0.5], None),
        ("A", [[0, 0], [math.inf, 0]], [0.5, 0.5], None),
        ("A", [[0j]], [1.0], None),
        ("A", [["0"]], [1.0], None),
        ("A", None, [1.0], None),
        ("beta", np.zeros((0, 0)), [], None),
        ("beta", [[0.0]], 1.0, None),
        ("beta", [[0.0]], [[1.0]], None),
        ("beta", [[0.0]], [0.9], None),
        ("beta", [[0, 0], [1, 0]], [1, 1], None),
        ("beta", [[0.0]], [math.nan], None),
        ("beta", [[0.0]], ["1"], None),
        ("omega", [[0.0]], [1.0], [0.5]),
        ("omega", [[0.0]], [1.0], [0.0, 1.0]),
        ("omega", [[0.0]], [1.0], 0.0),
        ("omega", [[0, 0], [1, 0]], [0.5, 0.5], [0, math.nan]),
    ],
)
def test_a_bad_tableau_is_refused_by_the_name_of_the_argument(argument, A, beta, omega):
    with pytest.raises(ValueError, match=rf"^{argument} "):
        fw.Tableau(A, beta, omega)


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        ("c", 0.99),
        ("c", math.nan),
        ("c", math.inf),
        ("delta", 0.0),
        ("delta", -1.0),
        ("delta", math.nan),
        ("delta", math.inf),
        ("k", -1),
        ("k", math.nan),
    ],
)
def test_a_bad_certificate_request_is_refused_by_the_name_of_the_argument(argument, value):
    with pytest.raises(ValueError, match=rf"^{argument} must"):
        fw.tableaus["heun"].certificate(**{argument: value})


def test_an_unknown_name_is_refused_with_the_nearest_one():
    with pytest.raises(ValueError, match=r"method='rk4'.*did you mean 'rk44'.*'fw'.*'dp5'"):
        find_tableau("rk4")


def test_fw_is_euler():
    assert find_tableau("fw") is fw.tableaus["euler"]


@CATALOGUE
def test_names_match_the_catalogue(name):
    assert fw.tableaus[name].name == name
    assert find_tableau(name) is fw.tableaus[name]


@pytest.mark.parametrize("field", ["A", "beta", "omega"])
def test_arrays_are_read_only_and_the_tableaus_own(field):
    given = {"A": np.array([[0.0, 0.0], [1.0, 0.0]]), "beta": np.array([0.5, 0.5]), "omega": np.array([0.0, 1.0])}
    tableau = fw.Tableau(**given)
    before = getattr(tableau, field).copy()
    given[field][-1] += 1
    np.testing.assert_array_equal(getattr(tableau, field), before)
    with pytest.raises(ValueError, match="read-only"):
        getattr(tableau, field)[-1] = 7
    with pytest.raises(FrozenInstanceError):
        setattr(tableau, field, before)


def test_arrays_are_float64_whatever_went_in():
    single = fw.Tableau(np.array([[0, 0], [0.5, 0]], np.float32), np.array([0, 1], np.float32))
    whole = fw.Tableau([[0, 0], [1, 0]], [0, 1], [0, 1])
    for tableau in (single, whole):
        assert {tableau.A.dtype, tableau.beta.dtype, tableau.omega.dtype} == {np.dtype(np.float64)}


def test_catalogue_is_read_only():
    with pytest.raises(TypeError):
        fw.tableaus["mine"] = fw.tableaus["heun"]


def test_a_tableau_survives_pickling():
    tableau = pickle.loads(pickle.dumps(fw.tableaus["rk38"]))
    assert repr(tableau) == "Tableau(name='rk38', stages=4, order=4)"
    np.testing.assert_array_equal(tableau.certificate().z, fw.tableaus["rk38"].certificate().z)


def as_text(values):
    return [as_text(v) if isinstance(v, list) else str(v) for v in values]


def toml(fields):
    return "\n".join(f"{key} = {json.dumps(value)}" for key, value in fields.items())


@pytest.mark.parametrize(("suffix", "write"), [(".json", json.dumps), (".toml", toml)])
@CATALOGUE
def test_from_file_reads_fractions_written_as_text(tmp_path, name, suffix, write):
    tableau = fw.tableaus[name]
    A, beta, omega = map(as_text, exact(tableau))
    path = tmp_path / f"mine{suffix}"
    path.write_text(write({"name": name, "A": A, "beta": beta, "omega": omega}))
    read = fw.Tableau.from_file(path)
    assert read.name == name
    for field in ("A", "beta", "omega"):
        np.testing.assert_array_equal(getattr(read, field), getattr(tableau, field))


@pytest.mark.parametrize(("suffix", "write"), [(".json", json.dumps), (".toml", toml)])
def test_from_file_reads_numbers_and_fills_in_name_and_omega(tmp_path, suffix, write):
    path = tmp_path / f"my-heun{suffix}"
    path.write_text(write({"A": [[0, 0], [1.0, 0]], "beta": ["1/2", 0.5]}))
    read = fw.Tableau.from_file(str(path))
    assert repr(read) == "Tableau(name='my-heun', stages=2, order=2)"
    np.testing.assert_array_equal(read.omega, [0, 1])


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ('{"beta": [1]}', "keys must be A, beta"),
        ('{"A": [[0]]}', "keys must be A, beta"),
        ('{"A": [[0]], "beta": [1], "gamma": [1]}', "keys must be A, beta"),
        ("[[0]]", "keys must be A, beta"),
        ("3", "keys must be A, beta"),
        ('{"A": [[0]], "beta": [0.5]}', "beta must sum to 1"),
        ('{"A": [[1]], "beta": [1]}', "A must be strictly lower triangular"),
        ('{"A": [[0]], "beta": 1}', "beta must have 1 dimension"),
        ('{"A": [[0], [1, 0]], "beta": ["1/2", "1/2"]}', "A must be an array"),
        ('{"A": [[0]], "beta": [1], "omega": [0, 1]}', "omega has 2 entries"),
        ('{"A": [[0]], "beta": ["one"]}', "beta.*'one'"),
        ('{"A": [[0]], "beta": ["1/0"]}', "beta.*1/0"),
        ('{"A": [[0]], "beta": [null]}', "beta"),
        ('{"A": [[0]], "beta": [1], "omega": null}', "omega"),
        ('{"A": [[0]], "beta": [{"a": 1}]}', "beta"),
        ('{"A": [[NaN]], "beta": [1]}', r"\bA\b"),
        ('{"A": [[0]], "beta": [Infinity]}', "beta"),
        ('{"A": [[0]], "beta": ["1e400"]}', "beta"),
        ('{"A": [[0]], "beta": [1]', ""),
        ("", ""),
    ],
)
def test_a_malformed_json_file_is_refused_by_name(tmp_path, text, complaint):
    path = tmp_path / "mine.json"
    path.write_text(text)
    with pytest.raises(ValueError, match=rf"mine\.json: .*{complaint}"):
        fw.Tableau.from_file(path)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("A = [[0]]", "keys must be A, beta"),
        ("[tableau]\nA = [[0]]\nbeta = [1]", "keys must be A, beta"),
        ("A = [[0]]\nbeta = [0.5]", "beta must sum to 1"),
        ('A = [[0]]\nbeta = ["one"]', "beta.*'one'"),
        ("A = [[0]]\nbeta = [nan]", "beta"),
        ("A = [[0]]\nbeta = [inf]", "beta"),
        ("A = [[0]]\nbeta = [1979-05-27]", "beta"),
        ("A = [[0]\nbeta = [1]", ""),
    ],
)
def test_a_malformed_toml_file_is_refused_by_name(tmp_path, text, complaint):
    path = tmp_path / "mine.toml"
    path.write_text(text)
    with pytest.raises(ValueError, match=rf"mine\.toml: .*{complaint}"):
        fw.Tableau.from_file(path)


def test_a_file_that_is_not_text_is_refused_by_name(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(ValueError, match=r"mine\.toml: "):
        fw.Tableau.from_file(path)


def test_a_file_may_stand_for_a_method(tmp_path):
    path = tmp_path / "mine.json"
    path.write_text('{"A": [[0, 0], ["2/3", 0]], "beta": ["1/4", "3/4"]}')
    np.testing.assert_array_equal(find_tableau(str(path)).A, fw.tableaus["ralston"].A)


def test_only_toml_and_json_are_read(tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text("A: [[0]]")
    with pytest.raises(ValueError, match=r"path must end in \.toml or \.json.*mine\.yaml"):
        fw.Tableau.from_file(path)


def test_a_missing_file_is_a_missing_file(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"mine\.json"):
        fw.Tableau.from_file(tmp_path / "mine.json")
