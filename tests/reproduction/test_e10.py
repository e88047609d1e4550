"""The lower bound for the ball, averages and active sets."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.optimize

import fwflow as fw
from fwflow.reproduction import e10_beyond as e10
from tests.reproduction.helpers import FAILS, HOLDS


@pytest.mark.parametrize(("power", "kept"), [(2.0, 1.0), (3.0, 99 / 900)])
def test_the_scaled_error_is_compared_between_the_last_two_decades(power, kept):
    N = np.arange(1.0, 1001.0)
    # For N^-2 the scaled error is constant. For N^-3 it is 1/N, with its minima at 900 and at 99.
    assert e10._kept({"gradients": N, "error": 5 * N**-power}, 1000) == pytest.approx(kept)


def test_errors_on_the_ball_are_the_worst_over_the_starts():
    one, more = (e10.ball("fw", e10.EXACT, 200, starts) for starts in (1, 4))
    assert (more["error"] >= one["error"]).all()
    assert (np.diff(more["error"]) <= 0).all()
    assert one["gradients"][-1] == 200
    assert e10.ball("rk44", e10.OPEN, 200, 1)["gradients"][-1] == 200  # 50 iterations with 4 gradients


def test_open_loop_steps_on_the_ball_converge_as_the_square():
    run = e10.ball("fw", e10.OPEN, 2000, 1)
    assert fw.fit_rate(run["error"], run["gradients"]).exponent == pytest.approx(2.0, abs=0.15)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_the_optimum_of_the_regression_agrees_with_another_solver(seed):
    A, x_star, g = e10.regression(seed)
    constraint = {"type": "eq", "fun": lambda x: x.sum() - 1}

    def f(x):
        return np.sum((A @ (x - x_star)) ** 2) / 2 + g @ (x - x_star)

    found = scipy.optimize.minimize(
        f, np.full(x_star.size, 1 / x_star.size), method="SLSQP", bounds=[(0, 1)] * x_star.size,
        constraints=constraint, options={"ftol": 1e-14, "maxiter": 1000},
    )  # fmt: skip
    assert found.fun == pytest.approx(0.0, abs=1e-8)  # f(x^*) = 0; SLSQP stops at differences of about 1e-9
    assert x_star.sum() == pytest.approx(1.0, rel=1e-14)


def test_identification_is_the_last_oracle_answer_outside_the_face():
    run = e10.averaging(e10.PLAIN, 600, 1)
    assert 0 < run["identified"] < 600
    assert run["error"][-1] < run["error"][0]


def test_active_sets_exceed_the_bound_and_their_affine_bases_do_not():
    run = {name: np.atleast_1d(column) for name, column in e10.atoms("away-step", 200).items()}
    late = run["k"] >= run["identified"]
    assert run["atoms"][late].max() > e10.FACE + 1
    assert run["basis"][late].max() == e10.FACE + 1


def results(scaled=2.0, after=1.5, atoms=5):
    gradients, k = np.arange(0, 4001, 4), np.arange(0, 4001)
    ball = {"gradients": gradients, "error": np.maximum(gradients, 1.0) ** -scaled}
    fit = {
        f"{name}{end}": [value] for name, value in (("before", 1.0), ("after", after)) for end in ("", "_low", "_high")
    }
    average = {"k": k, "error": np.maximum(k, 1.0) ** -after, "identified": [100.0]}
    average |= fit | {"before_reliable": [1.0], "after_reliable": [0.0]}
    active = {"k": k[:50], "atoms": np.full(50, atoms), "basis": np.full(50, 7), "identified": [3.0]}
    found = {f"ball-{m}-{s}": ball for m, s in e10.ON_THE_BALL} | {
        f"averaging-{name}": average for name in e10.AVERAGES
    }
    found |= {e10._atoms_key(name): active for name in e10.ACTIVE}
    return {name: {c: np.asarray(v, dtype=float) for c, v in columns.items()} for name, columns in found.items()}


def verdict(found, words):
    (claim,) = (claim for claim in found.claims if words in claim.statement)
    return claim.verdict


def test_verdicts_follow_the_runs():
    settings = e10.Settings()
    found = e10.findings(settings, results())
    assert verdict(found, "does not escape the lower bound") is HOLDS
    assert verdict(found, "at least as k^-1.5") is HOLDS
    assert verdict(found, "active sets have at most") is HOLDS
    assert verdict(found, "affine basis") is HOLDS
    other = e10.findings(settings, results(scaled=3.0, after=1.0, atoms=8))
    assert verdict(other, "does not escape the lower bound") is FAILS
    assert verdict(other, "at least as k^-1.5") is FAILS
    assert verdict(other, "active sets have at most") is FAILS
