"""Lemmas of the appendices: constants and steps against independent computations, and verdicts that change."""

from __future__ import annotations

import math

import numpy as np
import pytest

import fwflow as fw
from fwflow.reproduction import e11_lemmas as lemmas
from fwflow.reproduction.problems import ProblemInstance, solve
from tests.reproduction.helpers import FAILS, HOLDS, SMALL, one_by_one, run

INTERVAL = lemmas.SCALARS["x²/2 on [-1, 1]"]


@pytest.mark.filterwarnings("ignore::fwflow.UncertifiedWarning")
@pytest.mark.parametrize("name", fw.tableaus)
@pytest.mark.parametrize("problem", lemmas.SCALARS)
def test_steps_by_the_equations_are_those_of_a_run(name, problem):
    f = lemmas.SCALARS[problem]
    x, xi, reach = lemmas.scalar_steps(fw.tableaus[name], f, 2.0, 25)
    points = []
    quadratic = fw.Quadratic(np.array([[f.a]]), [f.b])
    line = ProblemInstance(quadratic, fw.Box(-1.0, 1.0), np.array([f.x0]), None, "")
    solve(line, 25, method=name, callback=lambda state: points.append(float(state.x[0])))
    np.testing.assert_allclose(x, points, rtol=0, atol=1e-12)
    gamma = 2 / (2 + np.arange(25)[:, None] + fw.tableaus[name].omega)
    np.testing.assert_allclose(np.abs(xi), gamma * reach, rtol=1e-12)
    np.testing.assert_allclose(np.diff(x), xi @ fw.tableaus[name].beta, rtol=0, atol=1e-15)


def test_constants_of_euler_in_closed_form():
    # q = 1 and A = 0: P^(1) = c/(c+1), D_2 = c D/(c+1), D_3 = 0, D_4 = L D_2²/2.
    for c in (1.0, 2.0, 4.0):
        constants = lemmas.printed_constants(fw.tableaus["euler"], c, 3.0, 2.0)
        D_2 = 2 * c / (c + 1)
        assert pytest.approx((D_2, 0.0, 3 * D_2**2 / 2)) == (constants.D_2, constants.D_3, constants.D_4)
        mended = lemmas.mended_constants(fw.tableaus["euler"], c, 3.0, 2.0, 7.0)
        assert (mended.D_2, mended.D_3) == (2.0, 0.0)
        assert pytest.approx(((c + 2) / (c + 1)) ** 2 * 3 * 4 / 2) == mended.D_4


@pytest.mark.parametrize("name", ["midpoint", "rk44", "rk5"])
def test_columns_of_the_matrix_p_give_z(name):
    tableau = fw.tableaus[name]
    Gamma, inverse = lemmas._inverse(tableau, 2.0, 3)
    np.testing.assert_allclose(tableau.stages * Gamma @ inverse @ tableau.beta, tableau.certificate(k=3).z, rtol=1e-12)


def test_excess_of_one_step_by_hand():
    # c = 2: h = 3, 1, 0.5. At k = 1, γ+ = 2/4, so the left-hand side is 0.5 - 1 + 0.5 = 0.
    assert lemmas.excess(np.array([3.0, 1.0, 0.5]), 2.0, 1.0) == 0.0
    assert lemmas.excess(np.array([3.0, 1.0, 1.0]), 2.0, 1.0) == pytest.approx(0.5 / 0.25)
    assert lemmas.excess(np.array([3.0, 1.0, 1.0]), 2.0, 0.0) == math.inf
    assert lemmas.excess(np.array([3.0, 1.0, 0.5]), 2.0, 0.0) == 0.0


def test_lemma_fails_for_fw_from_a_vertex_as_computed_by_hand():
    # x^(1) = 1 and s = -1, so x^(2) = 1 - 2γ with γ = 2/3, and the excess is at least that of the first step.
    f = lemmas.SCALARS["(x - 0.99)²/2 on [-1, 1]"]
    x, _, reach = lemmas.scalar_steps(fw.tableaus["euler"], f, 2.0, 5)
    assert x[:3] == pytest.approx([-1.0, 1.0, -1 / 3])
    assert reach[1, 0] == 2.0 > lemmas.printed_constants(fw.tableaus["euler"], 2.0, 1.0, 2.0).D_2
    h = f.value(x) - f.optimum
    first = (h[2] - h[1] / 2) / ((4 / 3) ** 2 / 2 / 4)
    assert lemmas.excess(h, 2.0, (4 / 3) ** 2 / 2) >= first > 1


def test_smallest_split_of_weights():
    splits = {name: lemmas.smallest_split(tableau.beta) for name, tableau in fw.tableaus.items()}
    assert {name for name in splits if splits[name] == 0} == {"heun", "rk44", "rk38"}
    assert splits["kutta3"] == pytest.approx(1 / 3)
    assert splits["rk5"] == pytest.approx(2 / 90)
    assert splits["euler"] == 1.0


def test_recursion_with_sparse_steps_is_below_every_multiple_of_one_over_k():
    smallest = lemmas.recursions()["smallest"]
    assert (smallest[:3] >= 1).all()
    # After k = 256 the sequence is 0 until it jumps to 1/65536 at k = 65537, and sup|x| at k = 258 is that.
    assert smallest[3] == pytest.approx(258 / 65536 / (lemmas.C_1 / 2), rel=0.01)


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("fwflow.reproduction.framework._in_parallel", one_by_one)
        return run(tmp_path_factory.mktemp("lemmas"), *lemmas.tasks(CHOSEN))


CHOSEN = lemmas.Settings(**SMALL["E11"])


def claims(results):
    return {claim.statement: claim for claim in lemmas.findings(CHOSEN, results).claims}


def judged(results, beginning):
    return next(claim for statement, claim in claims(results).items() if statement.startswith(beginning)).verdict


def test_verdicts_on_unstated_assumptions_name_what_breaks_them(results):
    found = claims(results)

    def against(beginning):
        claim = next(claim for statement, claim in found.items() if statement.startswith(beginning))
        return [case.name for case, vote in zip(claim.cases, claim.votes, strict=True) if vote < 0]

    assert against("The weights β") == ["Dormand-Prince 5"]
    assert against("(γ/γ+)²") == ["c = 1"]
    assert against("h_0 = max") == ["c = 1"]
    assert against("The lemma holds for linear") == ["slope 100", "slope 1000"]
    assert "FW" in against("The stages satisfy")
    assert against("The one-step lemma holds with larger") == []


@pytest.mark.parametrize(
    ("key", "column", "value", "statement", "expected"),
    [
        ("interval-rk44", "distance", 2.0, "|x^(k)| ≤ C_2/k for large k, if", FAILS),
        ("interval-midpoint", "distance", 2.0, "|x^(k)| ≤ C_2/k for large k, if", HOLDS),
        ("interval-midpoint", "distance", 2.0, "|x^(k)| ≤ C_2/k for large k, also", FAILS),
        ("interval-rk5", "length", 2.0, "The stages have the length", FAILS),
        ("interval-kutta3", "towards", 0.1, "Steps towards zero are longer than ε/k again and again, if", FAILS),
        ("interval-kutta3", "step", 0.9, "A step has at least", FAILS),
        ("one-step-rk44-c2", "mended", 1.1, "The one-step lemma holds with larger", FAILS),
        ("one-step-dp5-c2", "mended", 1.1, "The one-step lemma holds with larger", HOLDS),  # not certified
    ],
)
def test_verdicts_flip(results, key, column, value, statement, expected):
    doctored = {**results, key: {**results[key], column: np.array([value])}}
    assert judged(doctored, statement) is expected


def test_lengths_of_stages_tend_to_the_step_size():
    tableau = fw.tableaus["rk44"]
    _, xi, _ = lemmas.scalar_steps(tableau, INTERVAL, 2.0, 2000)
    k = np.arange(2000)
    off = k**2 * np.abs(np.abs(xi) - (2 / (2 + k))[:, None]).max(axis=1)
    assert off[200:].max() < 10
    assert lemmas.interval("rk44", 2000)["length"] == pytest.approx(off[200:].max() / off[20:200].max())
