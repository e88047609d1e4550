"""The public names are a promise: they exist, behave as written down, and bring in nothing optional."""

import importlib
import inspect
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import matplotlib.pyplot as plt
import numpy as np
import pytest
import scipy.sparse as sp

import fwflow as fw
from tests.catalogue import design, labels, targets

README = Path(__file__).parents[1] / "README.md"
OPTIONAL = (
    *("matplotlib", "pandas", "numba", "sklearn", "typer", "rich", "jax", "dask", "distributed", "zarr", "pyarrow"),
    *("ot", "networkx", "highspy", "cvxpy", "IPython", "torch", "optax"),
)
A, B = design(20, 5), labels(20)


def logistic():
    return fw.LinearModel(A, B, loss="logistic")


def public_callables():
    for name in fw.__all__:
        value = getattr(fw, name)
        if callable(value):
            yield name, value
        if inspect.isclass(value):
            for attribute, member in inspect.getmembers(value):
                # Line searches and momenta are documented as wholes; these methods are for the solver.
                if not attribute.startswith("_") and callable(member) and attribute not in ("step", "aim"):
                    yield f"{name}.{attribute}", member
        if inspect.ismodule(value):
            for attribute, member in vars(value).items():
                if inspect.isfunction(member) and member.__module__ == value.__name__:
                    yield f"{name}.{attribute}", member


def test_all_is_complete_and_sorted():
    assert fw.__all__ == sorted(set(fw.__all__))
    imported = {
        name for name, value in vars(fw).items() if not name.startswith("_") and not isinstance(value, ModuleType)
    }
    assert imported | {"checks", "networks", "semidefinite"} == set(fw.__all__)
    for name in fw.__all__:
        assert getattr(fw, name) is not None


@pytest.mark.parametrize("kind", [fw.ConstraintSet, fw.Objective, fw.Schedule])
def test_every_kind_of_object_is_public(kind):
    def descendants(cls):
        for child in cls.__subclasses__():
            yield child
            yield from descendants(child)

    for cls in descendants(kind):
        if cls.__module__.startswith("fwflow.") and not inspect.isabstract(cls) and not cls.__name__.startswith("_"):
            assert getattr(fw, cls.__name__, None) is cls or cls.__name__ == "CallableSet"


def test_version():
    assert re.fullmatch(r"\d+\.\d+\.\d+([ab]\d+|rc\d+)?", fw.__version__)


def test_import_is_light():
    script = f"import sys, fwflow; print([m for m in {OPTIONAL} if m in sys.modules])"
    environment = {"PYTHONPATH": str(Path(fw.__file__).parents[1])}
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", script], capture_output=True, text=True, env=environment, check=True
    )
    assert (done.stdout.strip(), done.stderr) == ("[]", "")


CALLABLES = dict(public_callables())


@pytest.mark.parametrize("name", CALLABLES)
def test_every_public_callable_has_a_docstring(name):
    doc = inspect.getdoc(CALLABLES[name])
    assert doc
    # A dataclass without a docstring gets its signature for one.
    assert not doc.startswith(name + "(")


def test_signature_of_minimize():
    parameters = inspect.signature(fw.minimize).parameters
    assert list(parameters)[:3] == ["f", "C", "x0"]
    defaults = {
        "x0": None,
        "method": "auto",
        "schedule": fw.OpenLoop(c=2.0, delta=1.0, k0=0),
        "line_search": None,
        "momentum": None,
        "tol": 1e-6,
        "rtol": 0.0,
        "max_iter": 10_000,
        "max_time": None,
        "callback": None,
        "progress": False,
    }
    for name, default in defaults.items():
        assert parameters[name].default == default
        assert name == "x0" or parameters[name].kind is inspect.Parameter.KEYWORD_ONLY


@pytest.mark.parametrize(
    ("options", "formula"),
    [
        ({"loss": "logistic"}, lambda z, b: np.log1p(np.exp(-b * z)).mean()),
        ({"loss": "squared"}, lambda z, b: ((z - b) ** 2 / 2).mean()),
        ({}, lambda z, b: ((z - b) ** 2 / 2).mean()),
        ({"loss": "squared", "scale": "sum"}, lambda z, b: ((z - b) ** 2 / 2).sum()),
        ({"loss": "huber"}, lambda z, b: np.where(abs(z - b) <= 1, (z - b) ** 2 / 2, abs(z - b) - 0.5).mean()),
        (
            {"loss": "huber", "rho": 2.0},
            lambda z, b: np.where(abs(z - b) <= 2, (z - b) ** 2 / 2, 2 * abs(z - b) - 2).mean(),
        ),
    ],
    ids=lambda value: "" if callable(value) else str(value),
)
@pytest.mark.parametrize("convert", [np.asarray, sp.csr_array, sp.csc_array])
def test_linear_model(convert, options, formula):
    f = fw.LinearModel(convert(A), B, **options)
    x = np.linspace(-1, 2, 5)
    assert f.value(f.point(x)) == pytest.approx(formula(A @ x, B), rel=1e-12)


@pytest.mark.parametrize(
    ("C", "start"),
    [
        (fw.L1Ball(250.0), np.zeros(5)),
        (fw.L1Ball(), np.zeros(5)),
        (fw.Simplex(), np.full(5, 0.2)),
        (fw.Simplex(radius=2), np.full(5, 0.4)),
        (fw.Box(np.zeros(5), np.ones(5)), np.full(5, 0.5)),
        (fw.Box(0.0, 1.0), np.full(5, 0.5)),
        (fw.L2Ball(3.0), np.zeros(5)),
        (fw.LpBall(3.0, 2.0), np.zeros(5)),
        (fw.LpBall(p=1.5, radius=2.0), np.zeros(5)),
        (fw.LInfBall(1.0), np.zeros(5)),
        (fw.ConvexHull(np.eye(5)), np.full(5, 0.2)),
        (lambda g: -np.sign(g), -np.ones(5)),
    ],
    ids=[
        "l1",
        "l1-unit",
        "simplex",
        "simplex-2",
        "box",
        "box-scalars",
        "l2",
        "lp-3",
        "lp-1.5",
        "linf",
        "hull",
        "callable",
    ],
)
def test_sets_and_where_they_start(C, start):
    r = fw.minimize(logistic(), C, max_iter=0)
    np.testing.assert_allclose(r.x, start, rtol=0, atol=1e-15)
    r = fw.minimize(logistic(), C, method="rk44", rtol=0.1)
    assert r.success


def test_fields_of_a_result():
    r = fw.minimize(logistic(), fw.L1Ball(250.0), method="rk44", max_iter=10)
    assert r.x.shape == (5,)
    assert r.fun == pytest.approx(np.log1p(np.exp(-B * (A @ r.x))).mean(), rel=1e-12)
    assert r.gap > 0
    assert (r.nit, r.n_grad, r.n_lmo) == (10, 42, 42)
    assert (r.status, r.success) == (fw.Status.ITERATIONS, False)
    assert "max_iter" in r.message
    for name in ("gap", "fun", "time", "n_grad", "n_lmo", "step"):
        assert len(r.trace[name]) == 11


@pytest.mark.parametrize("method", ["fw", "heun", "rk44", "rk38", "rk5", "auto", fw.tableaus["rk44"]], ids=str)
def test_methods(method):
    r = fw.minimize(logistic(), fw.L1Ball(2.0), method=method, tol=1e-2)
    assert r.success


@pytest.mark.parametrize("method", ["midpoint", "ralston"])
def test_uncertified_methods_say_so(method):
    with pytest.warns(fw.UncertifiedWarning, match=method):
        r = fw.minimize(logistic(), fw.L1Ball(2.0), method=method, tol=1e-2)
    assert r.feasible is not None


@pytest.mark.parametrize("method", ["away", "pairwise"])
def test_methods_with_an_active_set(method):
    r = fw.minimize(fw.Quadratic(np.eye(5), targets(5)), fw.Simplex(), method=method)
    assert r.success


def test_fw_is_euler():
    runs = [fw.minimize(logistic(), fw.L1Ball(2.0), method=m, max_iter=9) for m in ("fw", fw.tableaus["euler"])]
    np.testing.assert_array_equal(runs[0].x, runs[1].x)


@pytest.mark.parametrize(
    "search", ["aggressive", "exact", "short", "armijo", "adaptive", "secant", fw.ExactSearch()], ids=str
)
@pytest.mark.parametrize("momentum", [None, "nesterov", fw.Nesterov()], ids=str)
def test_searches_and_momentum_by_name_or_object(search, momentum):
    r = fw.minimize(logistic(), fw.L1Ball(2.0), line_search=search, momentum=momentum, max_iter=50)
    assert r.feasible is True
    if search != "aggressive":  # which follows level sets and need not descend
        assert r.fun < r.trace["fun"][0]


def test_names_and_objects_are_the_same():
    pairs = [
        ({"line_search": "exact"}, {"line_search": fw.ExactSearch()}),
        ({"line_search": "aggressive"}, {"line_search": fw.Aggressive()}),
        ({"line_search": "short"}, {"line_search": fw.ShortStep()}),
        ({"line_search": "armijo"}, {"line_search": fw.Armijo()}),
        ({"line_search": "adaptive"}, {"line_search": fw.Adaptive()}),
        ({"momentum": "nesterov"}, {"momentum": fw.Nesterov()}),
        ({"momentum": "gradient-averaging"}, {"momentum": fw.GradientAveraging()}),
        ({"momentum": "lmo-averaging"}, {"momentum": fw.LMOAveraging()}),
    ]
    for named, given in pairs:
        first, second = (fw.minimize(logistic(), fw.L1Ball(2.0), max_iter=9, **o) for o in (named, given))
        np.testing.assert_array_equal(first.x, second.x)
        assert first.state.method == second.state.method


def test_callback_returning_true_stops():
    assert fw.minimize(logistic(), fw.L1Ball(2.0), tol=0, callback=lambda state: state.k == 4).nit == 4


def test_smooth():
    f = fw.Smooth(lambda x: float(np.sum(x**4)), lambda x: 4 * x**3)
    r = fw.minimize(f, fw.Box(0.5, 1.0), np.ones((2, 3)), line_search="exact")
    np.testing.assert_allclose(r.x, np.full((2, 3), 0.5), rtol=0, atol=1e-12)


def test_quadratic():
    H, b = design(5, 5) @ design(5, 5).T, targets(5)
    x = np.linspace(-1, 2, 5)
    f = fw.Quadratic(H, b)
    assert f.value(f.point(x)) == pytest.approx(x @ H @ x / 2 - b @ x, rel=1e-12)


def test_matrix_completion():
    f = fw.MatrixCompletion([0, 2, 1], [1, 0, 1], [30.0, 1.0, 2.0], (3, 2), loss="huber", rho=10.0)
    assert f.value(f.point(np.zeros((3, 2)))) == pytest.approx(10 * (30 - 5) + 1 / 2 + 4 / 2)
    default = fw.MatrixCompletion([0, 2, 1], [1, 0, 1], [30.0, 1.0, 2.0], (3, 2))
    assert default.value(default.point(np.zeros((3, 2)))) == f.value(f.point(np.zeros((3, 2))))
    r = fw.minimize(f, fw.NuclearBall(5.0), method="rk44", max_iter=20)
    X = r.x.to_dense()
    np.testing.assert_array_equal(X, r.x.U @ r.x.V.T)
    np.testing.assert_allclose(r.x.entries([0, 2], [1, 0]), X[[0, 2], [1, 0]], rtol=0, atol=1e-13)
    assert isinstance(r.x, fw.LowRank)


def test_tableau():
    tableau = fw.Tableau([[0, 0], [1, 0]], [1 / 2, 1 / 2], [0, 1], name="mine")
    assert (tableau.name, tableau.order, fw.tableaus["rk44"].order) == ("mine", 2, 4)
    certificate = fw.tableaus["rk44"].certificate(c=2.0, k=1)
    assert certificate.feasible is True
    np.testing.assert_allclose(certificate.z, 4 * certificate.p, rtol=1e-15)
    assert fw.tableaus["midpoint"].certificate(c=2.0, k=1).feasible is False
    assert {"euler", "midpoint", "heun", "rk44", "rk38", "rk5"} <= fw.tableaus.keys()


def test_zigzag_energy():
    X = np.array([[0, 0], [1, 1], [2, 0], [3, 1], [4, 0], [5, 1], [6, 0]], dtype=float)
    assert fw.zigzag_energy(X, window=2, normalize="projector") == pytest.approx(1.0)
    # As printed, the component along (2, 0) is subtracted twice over: (1, -1) - 2 (1, 0).
    assert fw.zigzag_energy(X, window=2, normalize="paper") == pytest.approx(np.sqrt(2))
    assert fw.zigzag_energy(X, window=6) == fw.zigzag_energy(X, window=6, normalize="projector")


def test_flow():
    f = fw.Quadratic(np.eye(2))
    path = fw.flow(f, fw.L2Ball(1.0), [1.0, 0.0], t_end=0.5, c=2.0, delta=1e-2)
    assert path.x.shape == (51, 2)
    np.testing.assert_allclose(path.t, np.linspace(0, 0.5, 51), rtol=0, atol=1e-15)
    np.testing.assert_array_equal(path.x[0], [1.0, 0.0])
    default = fw.flow(f, fw.L2Ball(1.0), [1.0, 0.0], t_end=0.5)
    np.testing.assert_array_equal(default.x, path.x)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("convert", [np.asarray, sp.csr_array])
def test_arrays_come_back_in_their_dtype(convert, dtype):
    f = fw.LinearModel(convert(A.astype(dtype)), B.astype(dtype), loss="logistic")
    for options in ({}, {"method": "rk44"}, {"line_search": "exact"}, {"momentum": "nesterov"}):
        assert fw.minimize(f, fw.L1Ball(2.0), max_iter=5, **options).x.dtype == dtype


def test_readme_examples_run(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    plt.switch_backend("Agg")
    blocks = re.findall(r"^```(python|text)\n(.*?)^```", README.read_text(encoding="utf-8"), flags=re.M | re.S)
    assert blocks
    names = {}
    for number, (kind, text) in enumerate(blocks):
        if kind == "python":
            exec(compile(text, f"README block {number}", "exec"), names)
        else:
            assert capsys.readouterr().out == text
    plt.close("all")


def test_submodules_do_not_hide_public_functions():
    for name in set(fw.__all__) - {"checks", "networks", "semidefinite"}:
        with pytest.raises(ModuleNotFoundError):
            importlib.import_module(f"fwflow.{name}")
