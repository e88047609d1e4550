"""Dask arrays are designs: on threads, processes and real workers, one of which dies."""

import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ProcessPoolExecutor

import dask
import dask.array as da
import joblib
import numpy as np
import pytest
import scipy.sparse as sp
from distributed import Client, LocalCluster
from hypothesis import given, settings
from hypothesis import strategies as st

import fwflow as fw
from fwflow.designs import DataLost, Distributed, as_design
from fwflow.sklearn import L1RegressionCV
from tests.catalogue import ACTIVE_SET, SELF_STEPPING, STAGED, design, labels, targets
from tests.stories import execute

SHAPE = 40, 12
CHUNKS = {"rows": (9, 12), "columns": (40, 5), "both": (17, 5)}
KINDS = {"dense": lambda A: A, "sparse": lambda A: A.map_blocks(sp.csr_array)}
C = fw.L1Ball(1.5)


def matrix(seed=0):
    """Half of the entries are zero, and some columns matter."""
    A = design(*SHAPE, seed) * (design(*SHAPE, seed + 10) > 0)
    return A, A[:, :3].sum(axis=1) + 0.1 * targets(SHAPE[0], seed)


def chunked(A, chunks="both", kind="dense"):
    return KINDS[kind](da.from_array(A, chunks=CHUNKS[chunks]))


@pytest.fixture(scope="module")
def cluster():
    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as started, Client(started) as client:
        yield client


@settings(max_examples=25, deadline=None)
@given(
    m=st.integers(1, 12),
    n=st.integers(1, 9),
    height=st.integers(1, 12),
    width=st.integers(1, 9),
    dtype=st.sampled_from([np.float64, np.float32, np.int8, np.uint16, bool]),
    kind=st.sampled_from([None, sp.csr_array, sp.csc_matrix, sp.coo_array]),
    persist=st.booleans(),
    seed=st.integers(0, 99),
)
def test_products_are_those_of_the_array(m, n, height, width, dtype, kind, persist, seed):
    rng = np.random.default_rng(seed)
    A = (3 * np.abs(rng.standard_normal((m, n))) * (rng.random((m, n)) < 0.6)).astype(dtype)
    chunks = da.from_array(A, chunks=(height, width))
    with dask.config.set(scheduler="sync"):
        D = Distributed(chunks if kind is None else chunks.map_blocks(kind), persist)
        expected = np.float32 if dtype == np.float32 else np.float64
        few = 100 * np.finfo(expected).eps
        x, R = rng.standard_normal(n).astype(expected), rng.standard_normal((2, m)).astype(expected)
        J = rng.integers(0, n, 3)
        w = rng.standard_normal(3)
        assert D.shape == (m, n)
        assert D.dtype == expected
        for found, wanted in [
            (D.matvec(x), A @ x),
            (D.rmatvec(R[0]), R[0] @ A),
            (D.rmatmat(R), R @ A),
            (D.matmat(np.stack([x, -x])), np.stack([x, -x]) @ A.T),
            (D.combined(J, w).to_dense(), A[:, J] @ w),
            (D.double().matvec(x), A.astype(float) @ x.astype(float)),
        ]:
            assert type(found) is np.ndarray
            np.testing.assert_allclose(found, wanted, rtol=few, atol=20 * few)
        assert (D.matvec(x).dtype, D.rmatmat(R).dtype, D.double().rmatvec(R[0]).dtype) == (expected, expected, float)
        for j in range(n):
            assert (D.column(j).to_dense() == A[:, j]).all()
            assert (D.double().column(j).to_dense() == A[:, j]).all()
        assert D.fingerprint() == Distributed(da.from_array(A, chunks=(m, n))).fingerprint()


@pytest.mark.parametrize("chunks", CHUNKS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("loss", ["squared", "logistic"])
def test_every_method_runs_as_in_memory(chunks, kind, loss):
    A, b = matrix()
    b = b if loss == "squared" else labels(len(b))
    near, far = (fw.LinearModel(data, b, loss) for data in (A, chunked(A, chunks, kind)))
    # Blocks need a product and batches need rows. After an exact search both vertices of a pair promise the same, and
    # rounding decides between them: sliding and steps within a face, which search exactly, are left out.
    others = {*SELF_STEPPING} - {"block", "stochastic", "sliding", "decomposition-invariant"}
    for method in ("fw", "rk44", *STAGED, *ACTIVE_SET, *sorted(others)):  # "auto" minds passes over data elsewhere
        options = {"line_search": "armijo"} if method in ACTIVE_SET else {}
        ours, theirs = (fw.minimize(f, C, method=method, tol=1e-7, max_iter=8, **options) for f in (far, near))
        np.testing.assert_allclose(ours.x, theirs.x, atol=1e-10, err_msg=method)
        assert (method, ours.n_design, ours.nit) == (method, theirs.n_design, theirs.nit)


def test_auto_makes_fewer_passes_than_projected_steps():
    A = design(200, 60)
    f = fw.LinearModel(da.from_array(A, chunks=(50, 60)), labels(200), "logistic")
    auto, apg = (fw.minimize(f, fw.L1Ball(3.0), method=name, tol=1e-8) for name in ("auto", "apg"))
    assert auto.method == "corrective"
    assert fw.minimize(fw.LinearModel(A, labels(200), "logistic"), fw.L1Ball(3.0), tol=1e-8).method != "corrective"
    assert auto.success
    assert 2 * auto.n_design < apg.n_design


def test_columns_are_fetched_once_and_the_oldest_make_room(monkeypatch):
    A, _ = matrix()
    D = Distributed(chunked(A, "rows"))
    monkeypatch.setattr("fwflow.designs.blocked._KEPT", 3 * A[:, 0].nbytes)
    for j in (0, 1, 2, 0, 3):
        D.column(j)
    assert list(D._kept) == [2, 0, 3]


def test_processes_compute_too():
    A, b = matrix()
    pool = ProcessPoolExecutor(1, multiprocessing.get_context("spawn"))
    with pool, dask.config.set(scheduler="processes", pool=pool):
        D = as_design(chunked(A, "rows"))
        assert not D.persisted
        np.testing.assert_allclose(D.rmatvec(b), b @ A, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    ("A", "said"),
    [
        (da.zeros(3), "2 dimension"),
        (da.zeros((3, 3), dtype=complex), "real numbers"),
        (da.zeros((0, 3)), "empty"),
        (da.zeros((4, 3), chunks=2)[da.ones(4, chunks=2) > 0], "compute_chunk_sizes"),
    ],
)
def test_what_is_no_matrix_is_refused(A, said):
    with pytest.raises(ValueError, match=said):
        fw.LinearModel(A, np.zeros(3))


def test_what_is_no_dask_array_is_refused():
    with pytest.raises(ValueError, match="must be a Dask array"):
        Distributed(np.eye(3))


def test_chunks_may_be_empty():
    A, b = matrix()
    D = as_design(da.from_array(A, chunks=((0, 25, 0, 15), (7, 0, 5))))
    np.testing.assert_allclose(D.rmatvec(b), b @ A, rtol=1e-12, atol=1e-12)
    np.testing.assert_array_equal(D.column(8), A[:, 8])


def test_other_data_has_another_fingerprint():
    A, _ = matrix()
    prints = {Distributed(chunked(data)).fingerprint() for data in (A, A + np.eye(*SHAPE), 2 * A, A[:, ::-1])}
    assert len(prints) == 4


def test_targets_may_be_a_dask_array_too():
    A, b = matrix()
    f = fw.LinearModel(chunked(A), da.from_array(b, chunks=7))
    np.testing.assert_array_equal(f.b, b)


def test_a_cluster_keeps_what_fits_and_gives_the_answer_of_memory(cluster):
    A, b = matrix()
    kept = Distributed(chunked(A))
    assert kept.persisted
    assert sum(not key[0].startswith("fwflow") for key in cluster.futures) == 9
    assert not kept._fits(1e15)
    for f in (fw.LinearModel(kept, b), fw.LinearModel(Distributed(chunked(A, "columns", "sparse"), False), b)):
        r, alone = (fw.minimize(g, C, method="corrective") for g in (f, fw.LinearModel(A, b)))
        assert r.success
        assert r.n_design == alone.n_design
        np.testing.assert_allclose(r.x, alone.x, atol=1e-10)


def test_a_killed_worker_changes_nothing(cluster):
    A, b = matrix()
    f = fw.LinearModel(chunked(A), b)
    victim, *_ = cluster.run(os.getpid).values()

    def kill(state):
        if state.k == 3:
            os.kill(victim, signal.SIGKILL)

    r, alone = (fw.minimize(g, C, method="rk44", tol=0, max_iter=8, callback=c) for g, c in ((f, kill), (f, None)))
    np.testing.assert_array_equal(r.x, alone.x)
    assert (r.status, r.n_design) == (fw.Status.ITERATIONS, alone.n_design)
    assert victim not in cluster.run(os.getpid).values()


def slow(block):
    time.sleep(0.1)
    return block


def in_a_pass(cluster, action):
    """A callback that starts a thread, which acts while the first pass thereafter is under way."""

    def wait():
        while not any(cluster.processing().values()):
            time.sleep(0.01)
        action()

    return lambda state: state.k == 1 and threading.Thread(target=wait).start()


def slow_model(A, b):
    return fw.LinearModel(Distributed(chunked(A, "rows").map_blocks(slow, meta=A), persist=False), b)


def test_a_worker_killed_within_a_pass_changes_nothing(cluster):
    A, b = matrix()
    victim, *_ = cluster.run(os.getpid).values()
    kill = in_a_pass(cluster, lambda: os.kill(victim, signal.SIGKILL))
    r, alone = (
        fw.minimize(f, C, method="fw", tol=0, max_iter=4, callback=c)
        for f, c in ((slow_model(A, b), kill), (fw.LinearModel(A, b), None))
    )
    np.testing.assert_allclose(r.x, alone.x, atol=1e-12)
    assert (r.status, r.n_design) == (fw.Status.ITERATIONS, alone.n_design)
    assert victim not in cluster.run(os.getpid).values()


def test_an_interrupt_leaves_no_tasks(cluster):
    f = slow_model(*matrix())
    done = threading.Event()

    def interrupt():
        """Python drops an interrupt that arrives in a destructor, so it is sent again like an impatient user does."""
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
        while not done.wait(30):
            signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)

    r = fw.minimize(f, C, method="fw", tol=0, max_iter=10**6, callback=in_a_pass(cluster, interrupt))
    done.set()
    assert r.status is fw.Status.INTERRUPTED
    assert r.gap > 0  # verified afterwards
    del f
    for _ in range(100):
        if not (left := cluster.run_on_scheduler(lambda dask_scheduler: list(dask_scheduler.tasks))):
            break
        time.sleep(0.05)
    assert not left


def test_folds_are_fitted_by_workers(cluster):
    A, b = matrix()
    models = [L1RegressionCV(n_radii=4, cv=3) for _ in range(2)]
    models[0].fit(A, b)
    with joblib.parallel_config("dask"):
        models[1].fit(A, b)
    np.testing.assert_array_equal(models[0].losses_, models[1].losses_)


def test_the_example_finds_on_workers_what_it_finds_alone(cluster, monkeypatch):
    address = cluster.scheduler.address
    found = execute("cluster", monkeypatch, ADDRESS=address, ROWS=300, COLUMNS=30, CHUNKS=3)
    runs = found["runs"]
    assert [name for name, r in runs.items() if not r.success] == ["fw"]  # which is to show how many passes it takes
    np.testing.assert_allclose(runs["auto"].x, found["alone"].x, atol=1e-3)
    assert runs["auto"].n_design < runs["apg"].n_design


def test_the_example_starts_workers_of_its_own(monkeypatch):
    found = execute("cluster", monkeypatch, ROWS=60, COLUMNS=25, CHUNKS=3)
    assert found["client"].status == "closed"
    assert found["runs"]["auto"].success
    assert found["difference"] < 1e-3


def started(tmp_path):
    """A scheduler and a worker as processes of their own, and the file that tells where they are."""
    where = tmp_path / "scheduler.json"
    options = ["--no-dashboard", "--host", "127.0.0.1", "--scheduler-file", str(where)]
    run = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    python = [sys.executable, "-m"]
    scheduler = subprocess.Popen([*python, "distributed.cli.dask_scheduler", "--port", "0", *options], **run)
    more = ["--no-nanny", "--nthreads", "1", "--death-timeout", "30"]
    worker = subprocess.Popen([*python, "distributed.cli.dask_worker", *options, *more], **run)
    return where, scheduler, worker


def test_a_lost_scheduler_ends_a_run_that_another_cluster_continues(tmp_path, cluster):
    A, b = matrix()
    where, scheduler, worker = started(tmp_path)
    try:
        while not where.exists():
            time.sleep(0.05)
        with Client(scheduler_file=str(where), set_as_default=False) as client, client.as_current():
            f = fw.LinearModel(chunked(A), b)
            assert f.design._client is client

            def kill(state):
                if state.k == 4:
                    scheduler.kill()
                    scheduler.wait()

            r = fw.minimize(f, C, method="away", tol=0, max_iter=8, callback=kill)
            with pytest.raises(DataLost):
                f.design.rmatvec(b)
    finally:
        for process in (scheduler, worker):
            process.kill()
            process.wait()
    assert (r.status, r.success, r.feasible) == (fw.Status.DATA, False, True)
    assert 4 <= r.nit < 8
    assert r.fun == r.trace["fun"].min()
    r.state.save(tmp_path / "state.npz")
    state = fw.State.load(tmp_path / "state.npz")
    f = fw.LinearModel(chunked(A, "rows"), b)
    assert f.design._client is cluster
    r, alone = (
        fw.minimize(f, C, method="away", tol=0, max_iter=8 - (0 if s is None else s.k), state=s) for s in (state, None)
    )
    assert (r.nit, alone.nit) == (8, 8)
    np.testing.assert_allclose(r.x, alone.x, atol=1e-10)
    with pytest.raises(ValueError, match="belongs to another problem"):
        fw.minimize(fw.LinearModel(chunked(2 * A), b), C, method="away", state=state)
