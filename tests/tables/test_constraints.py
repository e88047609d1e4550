"""Do sets of tables hold in original units, and are their minimisers those of CVXPY?"""

import cvxpy as cp
import numpy as np
import pytest

import fwflow as fw
from fwflow._validation import InputError
from fwflow.tables.constraints import Constraint
from fwflow.tables.model_files import FittedModel
from fwflow.tables.problem import read_problem
from fwflow.tables.selection import select
from tests.cli.test_solve import run

__all__ = ["run"]

RNG = np.random.default_rng(5)
ROWS = 150
AGE, HEIGHT = RNG.normal(40, 12, ROWS), RNG.normal(170, 8, ROWS)
CITY = RNG.choice(["Rome", "Oslo", "Lima"], ROWS)
SCORE = 0.1 * AGE - 0.05 * HEIGHT + 2.0 * (CITY == "Rome") - 1.0 * (CITY == "Lima")
TABLE = {
    "age": AGE,
    "height": HEIGHT,
    "city": CITY,
    "day": [str(np.datetime64("2024-01-01") + int(k)) for k in RNG.integers(0, 90, ROWS)],
    "y": SCORE + RNG.normal(size=ROWS),
    "label": np.where(SCORE + RNG.logistic(size=ROWS) > np.median(SCORE), "yes", "no"),
}
LOWER, UPPER = ["height=-0.02", "city=-0.5"], ["age=0.06", "city=Rome=1.2"]


def problem_of(loss="squared", **options):
    target, other = ("y", "label") if loss == "squared" else ("label", "y")
    return read_problem(TABLE, target, drop=(other,), loss=loss, **options)


def optimum(problem, constraints):
    """The minimum by an interior-point method, for constraints of the standardised coefficients."""
    X = problem.X if isinstance(problem.X, np.ndarray) else problem.X.toarray()
    x, c = cp.Variable(X.shape[1]), cp.Variable()
    z = X @ x + c
    if problem.loss == "squared":
        value = cp.sum_squares(z - problem.y) / (2 * len(X))
    else:
        value = cp.sum(cp.logistic(cp.multiply(np.where(problem.y > 0, -1.0, 1.0), z))) / len(X)
    return cp.Problem(cp.Minimize(value), constraints(x)).solve(solver=cp.CLARABEL)


def spreads(problem):
    """Standard deviation of each prepared column in the table, and one for levels."""
    known = {"age": AGE.std(), "height": HEIGHT.std()}
    return [known.get(name, 1.0) for name in problem.names]


@pytest.mark.parametrize("loss", ["squared", "logistic"])
@pytest.mark.parametrize("scale", [True, False])
@pytest.mark.parametrize("radius", [0.5, 3.0])
def test_bounds_are_in_original_units(loss, scale, radius):
    problem = problem_of(loss, scale=scale)
    found = fw.minimize(problem.f, problem.set_of(Constraint.parse(f"l1:{radius}", LOWER, UPPER)), tol=1e-9)
    units = dict(zip(problem.names, spreads(problem) if scale else np.ones(len(problem.names)), strict=True))

    def constraints(x):
        at = {name: x[j] for j, name in enumerate(problem.names)}
        yield cp.norm1(x) <= radius
        yield at["height"] >= -0.02 * units["height"]
        yield at["age"] <= 0.06 * units["age"]
        yield at["city=Rome"] <= 1.2
        yield from (at[f"city={city}"] >= -0.5 for city in ("Rome", "Oslo", "Lima"))

    assert found.fun == pytest.approx(optimum(problem, lambda x: [*constraints(x)]), abs=1e-6)
    rows = {row.name: row.original for row in problem.model(found).table()}
    assert rows["age"] <= 0.06 + 1e-9
    assert rows["height"] >= -0.02 - 1e-9
    assert min(rows[f"city={city}"] for city in ("Rome", "Oslo", "Lima")) >= -0.5 - 1e-9
    if radius > 1:
        assert rows["age"] == pytest.approx(0.06)  # the bound is active


@pytest.mark.parametrize("loss", ["squared", "logistic"])
def test_levels_of_a_category_are_a_group(loss):
    problem = problem_of(loss)
    found = fw.minimize(problem.f, problem.set_of(Constraint.parse("group:1.5")), tol=1e-9)
    groups: dict[str, list[int]] = {}
    for j, name in enumerate(problem.names):
        groups.setdefault(name.partition("=")[0], []).append(j)
    assert {"age", "height", "city", "day: month", "day: weekday"} <= groups.keys()
    least = optimum(problem, lambda x: [sum(cp.norm2(x[places]) for places in groups.values()) <= 1.5])
    assert found.fun == pytest.approx(least, abs=1e-6)
    assert all(np.all(found.x[places]) or not np.any(found.x[places]) for places in groups.values())


@pytest.mark.parametrize(
    ("text", "constraints"),
    [
        ("positive:2", lambda x: [x >= 0, cp.sum(x) <= 2.0]),
        ("simplex:2", lambda x: [x >= 0, cp.sum(x) == 2.0]),
        ("linf:0.7", lambda x: [cp.abs(x) <= 0.7]),
        ("box:-0.3,0.8", lambda x: [x >= -0.3, x <= 0.8]),
    ],
)
def test_other_sets_with_bounds(text, constraints):
    problem = problem_of(scale=False)
    age = problem.names.index("age")
    C = problem.set_of(Constraint.parse(text, upper=["age=0.04"]))
    found = fw.minimize(problem.f, C, rtol=1e-9, tol=0)
    least = optimum(problem, lambda x: [*constraints(x), x[age] <= 0.04])
    assert found.fun == pytest.approx(least, rel=1e-6, abs=1e-6)


def test_path_with_bounds_ends_where_the_radius_stops_binding():
    problem = problem_of()
    asked = Constraint.parse("l1", LOWER, UPPER, radius=False)
    radii = problem.radii(asked, n_radii=8)
    assert len(radii) == 8
    values = [
        fw.minimize(problem.f, problem.ball(asked)(radius), tol=1e-9).fun for radius in (radii[-1], 10 * radii[-1])
    ]
    start = problem.f.value(problem.f.point(np.zeros(len(problem.names))))
    assert values[0] - values[1] <= 2e-3 * (start - values[1])
    path = problem.path(asked, radii)
    assert path.family == "l1"
    assert path.certified.all()


def test_cross_validation_keeps_bounds_in_every_fold():
    chosen = select(problem_of("logistic"), Constraint.parse("l1", LOWER, UPPER, radius=False), folds=3, n_radii=6)
    model = chosen.model()
    assert (
        model.constraint
        == f"l1:{chosen.held_out.radius:.6g}; height >= -0.02; city >= -0.5; age <= 0.06; city=Rome <= 1.2"
    )
    assert model.at(model.path.radii[2]).constraint.startswith(f"l1:{model.path.radii[2]:.6g}; height >= -0.02;")
    rows = {row.name: row.original for row in model.table()}
    assert rows["age"] <= 0.06 + 1e-9
    assert rows["height"] >= -0.02 - 1e-9


@pytest.mark.parametrize(
    "columns", [["age"], ["age=0", "nowhere=1"], ["age=x"], ["age=0", "age=1"], ["=1"], ["age=inf"]]
)
def test_wrong_bounds_are_refused(columns):
    with pytest.raises(InputError, match=r"--lower|nowhere"):
        problem_of().set_of(Constraint.parse("l1:1", lower=columns))


@pytest.mark.parametrize(
    ("text", "lower", "upper", "message"),
    [
        ("l2:1", ["age=0"], [], "are for --set l1"),
        ("group:1", [], ["age=0"], "are for --set l1"),
        ("l1:1", ["age=2"], ["age=1"], "above --upper"),
        ("l1:1", ["age=9"], [], "leave no member"),
        ("group:-1", [], [], "radius must be"),
        ("group", [], [], "needs a radius"),
    ],
)
def test_sets_without_members_are_refused(text, lower, upper, message):
    with pytest.raises(InputError, match=message):
        problem_of().set_of(Constraint.parse(text, lower, upper))


def test_radii_of_sets_without_zero_are_refused():
    with pytest.raises(InputError, match="exclude zero"):
        problem_of().ball(Constraint.parse("l1", ["age=0.1"], radius=False))
    with pytest.raises(InputError, match="give the sum"):
        problem_of().ball(Constraint.parse("simplex", ["age=0"], radius=False))


def test_bounds_of_many_classes_are_refused():
    problem = read_problem(TABLE | {"label": RNG.choice(["a", "b", "c"], ROWS)}, "label", loss="logistic")
    with pytest.raises(InputError, match="two classes"):
        problem.set_of(Constraint.parse("l1:1", ["age=0"]))
    assert problem.set_of(Constraint.parse("group:1")).shape == (3 * len(problem.names),)


def test_bounds_and_groups_at_the_command_line(run, tmp_path):
    names = ["age", "height", "city", "y"]
    data = tmp_path / "t.csv"
    lines = [names, *zip(*(TABLE[name] for name in names), strict=True)]
    data.write_text("\n".join(",".join(map(str, line)) for line in lines))
    out = tmp_path / "m.npz"
    code, output, error = run(
        *(
            "solve",
            data,
            "--target",
            "y",
            "--set",
            "l1:5",
            "--upper",
            "age=0.06",
            "--lower",
            "city=Rome=0",
            "--out",
            out,
        )
    )
    assert (code, error) == (0, "")
    assert "l1:5; city=Rome >= 0; age <= 0.06" in output
    rows = {row.name: row.original for row in FittedModel.load(out).table()}
    assert rows["age"] == pytest.approx(0.06)
    assert run("path", data, "--target", "y", "--set", "group", "--radii", 4, "--out", tmp_path / "p.npz")[0] == 0
    path = FittedModel.load(tmp_path / "p.npz").path
    assert {int(np.count_nonzero(x[2:])) for x in path.coefficients} == {0, 3}  # no level or all levels of city
    code, _, error = run("solve", data, "--target", "y", "--set", "l1:5", "--lower", "ages=0")
    assert code == 2
    assert "did you mean 'age'" in error
