import math
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fwflow as fw
from tests.catalogue import OBJECTIVES, targets

cases = settings(deadline=None, max_examples=40, derandomize=True)
NORMALISATIONS = ("projector", "paper")


def direct_energy(X, W, normalize):
    """The formula as it stands, with the whole trajectory and the matrix I - dbar dbar^T / divisor at hand."""
    energies = []
    for k in range(0, len(X) - W, W):
        d_bar = X[k + W] - X[k]
        divisor = np.linalg.norm(d_bar) ** (2 if normalize == "projector" else 1)
        Q = np.eye(X.shape[1]) - np.outer(d_bar, d_bar) / divisor
        energies.append(sum(np.linalg.norm(Q @ (X[i + 1] - X[i])) for i in range(k + 1, k + W)) / (W - 1))
    return np.mean(energies)


def trajectory(seed, length, n=4):
    return np.cumsum(np.random.default_rng(seed).standard_normal((length, n)), axis=0)


@cases
@pytest.mark.parametrize("normalize", NORMALISATIONS)
@given(seed=st.integers(0, 2**16), window=st.integers(2, 9), windows=st.integers(1, 5), rest=st.integers(0, 8))
def test_energy_follows_the_formula(normalize, seed, window, windows, rest):
    X = trajectory(seed, windows * window + 1 + rest % window)
    expected = direct_energy(X, window, normalize)
    # rows of order one to ten, four entries each; the printed form multiplies by up to |dbar|
    np.testing.assert_allclose(fw.zigzag_energy(X, window, normalize), expected, rtol=1e-12)


def test_the_default_is_the_projector_over_five_steps():
    X = trajectory(0, 21)
    assert fw.zigzag_energy(X) == fw.zigzag_energy(X, window=5, normalize="projector")
    assert fw.zigzag_energy(X) != pytest.approx(fw.zigzag_energy(X, normalize="paper"), rel=1e-3)


def test_both_forms_agree_where_the_window_moves_by_one():
    X = np.array([[0.0, 0.0], [0.5, 0.5], [1.0, 0.0]])
    assert fw.zigzag_energy(X, 2, "projector") == fw.zigzag_energy(X, 2, "paper") == 0.5


@pytest.mark.parametrize("normalize", NORMALISATIONS)
def test_streaming_gives_the_batch(normalize):
    X = trajectory(1, 38)
    zigzag = fw.ZigZag(5, normalize)
    for i, x in enumerate(X):
        zigzag.add(x)
        if i < 5:
            assert math.isnan(zigzag.energy)
        else:
            assert zigzag.energy == fw.zigzag_energy(X[: i + 1], 5, normalize)
    assert fw.zigzag_energy(iter(X.tolist()), 5, normalize) == fw.zigzag_energy(X, 5, normalize)


def test_an_incomplete_window_does_not_count():
    X = trajectory(2, 11)
    assert fw.zigzag_energy(np.vstack([X, 1e6 * trajectory(3, 4)]), window=5) == fw.zigzag_energy(X, window=5)
    assert math.isnan(fw.zigzag_energy(X[:5], window=5))
    assert math.isnan(fw.zigzag_energy([], window=5))


def test_the_first_step_of_a_window_does_not_count():
    # d_0 = (0, 9) and d_1 = (0, -9) deviate; the mean is over d_1 and d_2 only.
    X = np.array([[0.0, 0.0], [0.0, 9.0], [0.0, 0.0], [1.0, 0.0]])
    assert fw.zigzag_energy(X, window=3) == pytest.approx((9 + 0) / 2, rel=1e-15)


def test_windows_share_their_ends():
    X = np.array([[0.0, 0.0], [1.0, 1.0], [2.0, 0.0], [3.0, 3.0], [4.0, 0.0]])
    assert fw.zigzag_energy(X, window=2) == pytest.approx((1 + 3) / 2, rel=1e-15)


@pytest.mark.parametrize("normalize", NORMALISATIONS)
def test_without_displacement_all_of_a_step_deviates(normalize):
    there_and_back = np.array([[0.0, 0.0], [3.0, 4.0], [0.0, 0.0]])
    assert fw.zigzag_energy(there_and_back, 2, normalize) == 5.0
    assert fw.zigzag_energy(np.ones((3, 2)), 2, normalize) == 0.0


@cases
@given(seed=st.integers(0, 2**16), scale=st.sampled_from([1e-80, 1e-8, 1e8, 1e80]))
def test_the_projector_form_scales_moves_and_turns_with_the_trajectory(seed, scale):
    X = trajectory(seed, 16)
    energy = fw.zigzag_energy(X)
    rotation = np.linalg.qr(trajectory(seed + 1, 4))[0]
    assert fw.zigzag_energy(scale * X) == pytest.approx(scale * energy, rel=1e-12)
    assert fw.zigzag_energy(X + 7.0) == pytest.approx(energy, rel=1e-12)
    assert fw.zigzag_energy(X @ rotation) == pytest.approx(energy, rel=1e-12)


def test_straight_lines_have_no_energy():
    assert fw.zigzag_energy(np.outer(np.arange(21.0) ** 2, [1.0, 2.0, -3.0])) < 1e-12


@pytest.mark.parametrize("method", ["fw", "rk44"])
def test_it_is_a_callback(method):
    X, zigzag = [], fw.ZigZag(window=5)

    def both(state):
        X.append(state.x.copy())
        return zigzag(state)

    r = fw.minimize(OBJECTIVES["logistic"](6, 0), fw.L1Ball(2.0), method=method, callback=both, tol=0, max_iter=40)
    assert r.nit == 40  # it does not stop the run
    assert zigzag.energy == pytest.approx(direct_energy(np.array(X), 5, "projector"), rel=1e-12)
    alone = fw.ZigZag(window=5)
    fw.minimize(OBJECTIVES["logistic"](6, 0), fw.L1Ball(2.0), method=method, callback=alone, tol=0, max_iter=40)
    assert alone.energy == zigzag.energy


def test_matrices_and_low_rank_iterates_are_flattened():
    X = trajectory(4, 11, 6)
    assert fw.zigzag_energy(X.reshape(-1, 2, 3)) == fw.zigzag_energy(X)
    f = fw.MatrixCompletion([0, 1, 2], [1, 0, 1], targets(3), (3, 2))
    zigzag, dense = fw.ZigZag(), []

    def both(state):
        dense.append(state.x.to_dense().ravel())
        zigzag(state)

    fw.minimize(f, fw.NuclearBall(1.0), callback=both, tol=0, max_iter=20)
    assert zigzag.energy == pytest.approx(direct_energy(np.array(dense), 5, "projector"), rel=1e-9)


def test_points_are_copied():
    zigzag, x = fw.ZigZag(window=2), np.zeros(2)
    for step in ([1.0, 1.0], [1.0, -1.0], [0.0, 0.0]):
        zigzag.add(x)
        x += step
    assert zigzag.energy == 1.0


def test_memory_is_that_of_a_window():
    n, length, window = 20_000, 400, 5
    rng = np.random.default_rng(0)
    tracemalloc.start()
    try:
        fw.zigzag_energy((rng.standard_normal(n) for _ in range(length)), window)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    # the window, stacked, its differences, and two temporaries of the projection; the trajectory is 400 rows
    assert peak < 8 * n * 6 * (window + 1)


@pytest.mark.parametrize("window", [1, 0, -3, 2.5, math.nan])
def test_windows_have_at_least_two_steps(window):
    with pytest.raises(ValueError, match=r"^window must be"):
        fw.ZigZag(window)


def test_unknown_normalisations_are_refused():
    with pytest.raises(ValueError, match=r"^normalize='projektor' is not known; did you mean 'projector'\?.*'paper'"):
        fw.zigzag_energy(np.zeros((9, 2)), normalize="projektor")


@cases
@given(exponent=st.floats(0.1, 4), constant=st.floats(1e-6, 1e6), length=st.integers(10, 3000), start=st.floats(0, 0.8))
def test_power_laws_are_recovered(exponent, constant, length, start):
    k = np.arange(length)
    errors = constant * np.maximum(1.0, k) ** -exponent
    rate = fw.fit_rate(errors, start=start)
    # logarithms are good to 1e-15 of at most 20; the fit spans at least log10(10^0.2) of the axis
    assert rate.exponent == pytest.approx(exponent, abs=1e-10)
    assert rate.constant == pytest.approx(constant, rel=1e-9)
    assert rate.residual < 1e-10


def test_positions_may_be_given():
    k = np.array([10.0, 20.0, 40.0, 80.0, 160.0])
    assert fw.fit_rate(5 / k**1.5, k).exponent == pytest.approx(1.5, abs=1e-12)
    assert fw.fit_rate(5 / k**1.5, k, start=0.0).constant == pytest.approx(5.0, rel=1e-12)


def test_the_fit_begins_at_a_fraction_of_the_logarithmic_range():
    k = np.arange(1001)
    errors = np.where(k < 100, 1.0, 100.0 / np.maximum(1, k))  # bends at two thirds of the logarithmic axis
    assert fw.fit_rate(errors, start=0.67).exponent == pytest.approx(1.0, abs=1e-12)
    assert fw.fit_rate(errors, start=0.0).exponent < 0.9


def test_the_second_half_is_fitted_if_the_whole_is_not_a_power_law():
    k = np.arange(10_001)
    errors = np.where(k < 100, 1.0, 100.0 / np.maximum(1, k))  # bends at the middle of the logarithmic axis
    rate = fw.fit_rate(errors, start=0.0)
    assert rate.reliable
    assert rate.exponent == pytest.approx(1.0, abs=1e-12)


def test_oscillation_below_the_envelope_does_not_count():
    k = np.arange(1, 1025)
    envelope = 3.0 / k
    errors = np.where(k % 2 == 0, envelope, 0.0)  # the last entry is on the envelope
    rate = fw.fit_rate(errors, k)
    assert rate.exponent == pytest.approx(1.0, abs=1e-12)  # only the peaks are fitted, and they are on the envelope
    assert rate.constant == pytest.approx(3.0, rel=1e-9)
    assert rate.reliable


def test_residuals_are_in_decades():
    k = np.array([1.0, 10.0, 100.0, 1000.0])
    errors = 10.0 ** np.array([0.1, -1.0, -2.1, -3.0])
    slope, intercept = np.polyfit([0, 1, 2, 3], np.log10(errors), 1)
    residual = np.sqrt(np.mean((np.log10(errors) - slope * np.arange(4) - intercept) ** 2))
    rate = fw.fit_rate(errors, k, start=0.0)
    assert rate.residual == pytest.approx(residual, rel=1e-10)
    assert rate.exponent == pytest.approx(-slope, rel=1e-12)


#: Accuracy that a reliable rate promises.
ACCURACY = 0.15
exponents, lengths, seeds = st.floats(0.5, 8), st.integers(50, 8000), st.integers(0, 2**16)


def counted(length):
    return np.arange(1.0, length + 1)


@cases
@given(p=exponents, length=lengths, depth=st.floats(0, 0.95), pace=st.floats(0.01, 3), phase=st.floats(0, 6))
def test_reliable_rates_of_oscillating_errors_are_right(p, length, depth, pace, phase):
    k = counted(length)
    rate = fw.fit_rate(k**-p * (1 + depth * np.cos(pace * k + phase)), k)
    assert not rate.reliable or rate.exponent == pytest.approx(p, abs=ACCURACY)


@cases
@given(p=exponents, length=lengths, noise=st.floats(0, 0.6), seed=seeds)
def test_reliable_rates_of_noisy_errors_are_right(p, length, noise, seed):
    k = counted(length)
    rate = fw.fit_rate(k**-p * np.exp(noise * np.random.default_rng(seed).standard_normal(length)), k)
    assert not rate.reliable or rate.exponent == pytest.approx(p, abs=ACCURACY)


@cases
@given(
    p=exponents,
    length=lengths,
    floor=st.floats(-16, -5),
    rounding=st.sampled_from(["none", "signed", "size"]),
    seed=seeds,
)
def test_reliable_rates_above_a_floor_are_right(p, length, floor, rounding, seed):
    k, level = counted(length), 10**floor
    noise = np.random.default_rng(seed).standard_normal(length)
    added = {"none": level, "signed": level * noise, "size": level * np.abs(noise)}[rounding]
    rate = fw.fit_rate(k**-p + added, k)
    assert not rate.reliable or rate.exponent == pytest.approx(p, abs=ACCURACY)


@cases
@given(p=exponents, length=lengths, q=st.sampled_from([-1.0, -0.5, 0.5, 1.0, 2.0]))
def test_reliable_rates_with_logarithms_are_right(p, length, q):
    k = counted(length)
    rate = fw.fit_rate(k**-p * np.log(k + 1) ** q, k)
    assert not rate.reliable or rate.exponent == pytest.approx(p, abs=ACCURACY)


@cases
@given(p=exponents, length=lengths, shift=st.floats(0, 30))
def test_reliable_rates_with_a_shift_of_k_are_right(p, length, shift):
    k = counted(length)
    rate = fw.fit_rate((k + shift) ** -p, k)
    assert not rate.reliable or rate.exponent == pytest.approx(p, abs=ACCURACY)


@cases
@given(p=exponents, length=st.integers(200, 8000), period=st.integers(1, 7), floor=st.sampled_from([0.0, 1e-30]))
def test_clean_power_laws_are_reliable(p, length, period, floor):
    k = counted(length)
    # with p = 8 and 8000 entries the errors end at 6e-32, so a floor of 1e-30 may be reached
    rate = fw.fit_rate(np.where(k % period == 0, k**-p, 0.1 * k**-p) + floor, k)
    assert rate.reliable
    assert rate.exponent == pytest.approx(p, abs=ACCURACY)
    assert rate.interval[0] <= rate.exponent <= rate.interval[1]


@cases
@given(p=st.floats(2, 6), seed=seeds, signed=st.booleans())
def test_rounding_is_recognised_and_left_out(p, seed, signed):
    k, level = counted(20_000), 1e-10
    noise = level * np.random.default_rng(seed).standard_normal(k.size)
    rate = fw.fit_rate(k**-p + (noise if signed else np.abs(noise)), k)
    crossing = level ** (-1 / p)  # where the power law equals the floor
    assert rate.saturated is None or crossing / 4 < rate.saturated < 4 * crossing
    assert (rate.saturated is not None) == (4 * crossing < k[-1]) or crossing > k[-1] / 4
    assert not rate.reliable or rate.exponent == pytest.approx(p, abs=ACCURACY)


def test_zeros_at_the_end_are_saturation():
    k = counted(4000)
    rate = fw.fit_rate(np.where(k < 1000, k**-2, 0.0), k)
    assert rate.saturated == 1000
    assert rate.reliable
    assert rate.exponent == pytest.approx(2.0, abs=1e-9)


def test_a_floor_far_above_rounding_is_no_convergence():
    k = counted(10_000)
    rate = fw.fit_rate(k**-1 + 0.01, k)
    assert rate.saturated is not None
    assert not rate.reliable


@cases
@given(factor=st.floats(0.5, 0.998), floor=st.sampled_from([0.0, 1e-16, 1e-300]), length=st.integers(3000, 6000))
def test_linear_convergence_is_not_a_power_law(factor, floor, length):
    k = np.arange(length)
    assert not fw.fit_rate(factor**k + floor, k).reliable


def test_convergence_between_powers_and_linear_is_not_a_power_law():
    k = counted(5000)
    assert not fw.fit_rate(np.exp(-np.sqrt(k)), k).reliable
    assert not fw.fit_rate(k ** -np.log(k), k).reliable


@pytest.mark.parametrize("length", [5, 12, 20])
def test_short_sequences_are_not_reliable(length):
    rate = fw.fit_rate(counted(length) ** -2.0, counted(length))
    assert not rate.reliable
    assert (rate.interval == (-math.inf, math.inf)) is (length < 20)
    assert rate.exponent == pytest.approx(2.0, abs=1e-9)


def test_bends_are_not_reliable():
    k = counted(3000)
    assert not fw.fit_rate(np.minimum(k**-1.0, 600.0 * k**-2.0), k).reliable


@cases
@given(p=exponents, scale=st.floats(-200, 200), seed=seeds)
def test_rates_do_not_depend_on_the_unit_of_the_error(p, scale, seed):
    k = counted(500)
    errors = k**-p * (1.5 + np.cos(k + seed))
    one, other = fw.fit_rate(errors, k), fw.fit_rate(errors * 10**scale, k)
    assert other.exponent == pytest.approx(one.exponent, abs=1e-9)
    assert other.reliable == one.reliable


def test_frank_wolfe_on_an_interval_decays_like_one_over_k():
    # the paper's negative result: for f = x^2 / 2 over [-1, 1] the largest |x| from k on is of order 1/k
    f = fw.Smooth(lambda x: float(x @ x) / 2, lambda x: x)
    seen = []
    fw.minimize(
        f, fw.Box(-1.0, 1.0), [0.7], method="fw", tol=0, max_iter=3000, callback=lambda s: seen.append(abs(s.x[0]))
    )
    assert fw.fit_rate(seen).exponent == pytest.approx(1.0, abs=0.05)


def test_gaps_that_were_not_computed_are_passed_over():
    k = np.arange(1000)
    errors = 3.0 / np.maximum(1, k)
    errors[k % 5 != 0] = np.nan
    rate = fw.fit_rate(errors)
    assert rate.exponent == pytest.approx(1.0, abs=1e-9)
    assert rate.constant == pytest.approx(3.0, rel=1e-9)
    r = fw.minimize(
        OBJECTIVES["squared"](6, 0), fw.L1Ball(1.0), momentum="nesterov", tol=0, max_iter=101, check_every=4
    )
    assert 0 < fw.fit_rate(r.trace["gap"]).exponent < 5


@pytest.mark.parametrize(
    ("errors", "k", "message"),
    [
        ([], None, r"^errors has fewer than two"),
        ([1.0], None, r"^errors has fewer than two"),
        ([1.0, 0.5], None, r"^errors has fewer than two"),
        ([0.0, 0.0, 0.0], None, r"^errors has fewer than two"),
        ([np.nan] * 5, None, r"^errors has fewer than two"),
        ([1.0, 0.5], [1.0], r"^errors and k must be vectors of one length; got \(2,\) and \(1,\)"),
        (np.ones((2, 2)), np.ones((2, 2)), r"^errors and k must be vectors"),
    ],
)
def test_what_cannot_be_fitted_is_refused(errors, k, message):
    with pytest.raises(ValueError, match=message):
        fw.fit_rate(errors, k)
