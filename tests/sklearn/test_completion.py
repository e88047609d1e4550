"""Matrix completion: comparison with a conic solver, biases, names, weights and recommendations."""

import cvxpy as cp
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.model_selection import cross_val_score

import sklearn
from fwflow.sklearn import NuclearCompletion, NuclearCompletionCV

RNG = np.random.default_rng(0)
ROWS, COLS = 12, 9
TRUTH = 3 + RNG.standard_normal((ROWS, 2)) @ RNG.standard_normal((2, COLS)) + RNG.standard_normal((ROWS, 1))
PAIRS = np.column_stack(np.divmod(RNG.permutation(ROWS * COLS)[:70], COLS))
VALUES = TRUTH[tuple(PAIRS.T)]


@pytest.mark.parametrize("loss", ["squared", "huber"])
def test_the_matrix_is_that_of_a_conic_solver(loss):
    model = NuclearCompletion(6.0, loss=loss, rho=0.2, biases=False, tol=1e-7).fit(PAIRS, VALUES)
    Z = cp.Variable((ROWS, COLS))
    residuals = cp.hstack([Z[i, j] for i, j in PAIRS]) - (VALUES - VALUES.mean())
    terms = cp.huber(residuals, 0.2) if loss == "huber" else cp.square(residuals)
    problem = cp.Problem(cp.Minimize(cp.sum(terms) / 2 / len(VALUES)), [cp.normNuc(Z) <= 6.0])
    problem.solve(solver="CLARABEL")
    assert model.trace_["fun"][-1] == pytest.approx(problem.value, rel=1e-4)
    assert np.linalg.norm(model.U_ @ model.V_.T, "nuc") <= 6.0 * (1 + 1e-9)
    np.testing.assert_allclose(model.predict(PAIRS), model.mean_ + (model.U_ @ model.V_.T)[tuple(PAIRS.T)])


def test_biases_are_those_of_ridge_regression():
    model = NuclearCompletion(1e-6, damping=2.0).fit(PAIRS, VALUES)
    D = np.hstack([np.eye(ROWS)[PAIRS[:, 0]], np.eye(COLS)[PAIRS[:, 1]]])
    biases = np.linalg.solve(D.T @ D + 2 * np.eye(ROWS + COLS), D.T @ (VALUES - VALUES.mean()))
    np.testing.assert_allclose(np.r_[model.row_biases_, model.col_biases_], biases, atol=1e-6)


def test_names_of_all_kinds():
    plain = NuclearCompletion(5.0).fit(PAIRS, VALUES)
    users, films = np.array([f"user {i:02d}" for i in range(ROWS)]), 100 + 7 * np.arange(COLS)
    frame = pd.DataFrame({"user": users[PAIRS[:, 0]], "film": films[PAIRS[:, 1]]})
    named = NuclearCompletion(5.0).fit(frame, VALUES)
    np.testing.assert_allclose(named.predict(frame), plain.predict(PAIRS))
    assert list(named.feature_names_in_) == ["user", "film"]
    assert set(named.recommend(["user 03"], k=3)[0]) <= set(films)
    assert named.recommend(["user 03"], k=3).tolist() == films[plain.recommend([3], k=3)].tolist()


def test_a_sparse_matrix_is_a_list_of_its_entries():
    table = sp.coo_array((VALUES, PAIRS.T), shape=(ROWS, COLS))
    a, b = NuclearCompletion(5.0).fit(PAIRS, VALUES), NuclearCompletion(5.0).fit(table.tocsr())
    np.testing.assert_allclose(a.predict(PAIRS), b.predict(PAIRS), atol=1e-9)


def test_who_was_never_seen_is_predicted_by_what_is_known():
    model = NuclearCompletion(5.0).fit(PAIRS, VALUES)
    found = model.predict([[999, 2], [3, 999], [999, 999]])
    np.testing.assert_allclose(
        found, model.mean_ + np.array([model.col_biases_[2], model.row_biases_[3], 0.0]), atol=1e-12
    )


def test_rankings_go_down_and_leave_out_what_they_are_told():
    model = NuclearCompletion(5.0).fit(PAIRS, VALUES)
    ranked = model.recommend([4, 5], k=COLS)
    for user, films in zip([4, 5], ranked, strict=True):
        assert (np.diff(model.predict(np.column_stack([np.full(COLS, user), films]))) <= 1e-12).all()
    seen = PAIRS[PAIRS[:, 0] == 4]
    fresh = model.recommend([4], k=COLS - len(seen), exclude=PAIRS)[0]
    assert not set(fresh) & set(seen[:, 1])


def test_weights_are_repetitions():
    weights = RNG.integers(1, 4, len(VALUES))
    repeated = np.repeat(np.arange(len(VALUES)), weights)
    a = NuclearCompletion(4.0, tol=1e-8).fit(PAIRS, VALUES, weights)
    b = NuclearCompletion(4.0, tol=1e-8).fit(PAIRS[repeated], VALUES[repeated])
    np.testing.assert_allclose(a.predict(PAIRS), b.predict(PAIRS), atol=1e-3)


def test_warm_starts_and_single_precision():
    model = NuclearCompletion(5.0, warm_start=True, tol=1e-5).fit(PAIRS, VALUES)
    assert model.fit(PAIRS, VALUES).n_iter_ <= 1
    model.set_params(radius=1.0).fit(PAIRS, VALUES)
    assert np.linalg.norm(model.U_ @ model.V_.T, "nuc") <= 1.0 + 1e-6
    assert NuclearCompletion(5.0).fit(PAIRS, VALUES.astype(np.float32)).U_.dtype == np.float32


def test_a_search_finds_a_radius():
    search = NuclearCompletionCV(n_radii=5, cv=3, eps=0.2).fit(PAIRS, VALUES)
    assert search.radius_ in search.radii_
    assert search.losses_.shape == (3, len(search.radii_))
    table = sp.coo_array((VALUES, PAIRS.T), shape=(ROWS, COLS))
    with pytest.warns(UserWarning, match="NuclearCompletionCV: the chosen radius 4 is at the end of the radii"):
        assert NuclearCompletionCV([2.0, 4.0], cv=3).fit(table).radii_.tolist() == [2.0, 4.0]


def test_it_is_an_estimator_like_others():
    model = NuclearCompletion(5.0)
    assert sklearn.clone(model).get_params() == model.get_params()
    assert cross_val_score(model, PAIRS, VALUES, cv=3).shape == (3,)
    with pytest.raises(ValueError, match="X has 3 features; the row and the column of each observation make 2"):
        model.fit(np.ones((4, 3)), np.ones(4))


def test_sparse_pairs_are_dense_pairs():
    dense, sparse = (NuclearCompletion(2.0).fit(kind(PAIRS), VALUES) for kind in (np.asarray, sp.csr_array))
    np.testing.assert_array_equal(sparse.predict(sp.csr_array(PAIRS)), dense.predict(PAIRS))
