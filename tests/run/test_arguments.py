"""Arguments of minimize() that are refused, and methods of users."""

import inspect

import numpy as np
import pytest

import fwflow as fw
from fwflow.methods import Proposal
from tests.run.functions import BALL, X0, assert_same_run, completion, fun, smooth

BAD_ARGUMENTS = [
    ("f", fun),
    ("f", None),
    ("f", fw.Smooth),
    ("C", None),
    ("C", 1.0),
    ("C", fw.L1Ball),
    ("method", "rk45x"),
    ("method", None),
    ("method", 4),
    ("method", fw.Tableau),
    ("schedule", None),
    ("schedule", 0.5),
    ("schedule", fw.OpenLoop),
    ("line_search", "exakt"),
    ("line_search", 0.1),
    ("line_search", fw.ExactSearch),
    ("momentum", "nesterow"),
    ("momentum", 0.9),
    ("momentum", fw.Nesterov),
    ("tol", -1e-9),
    ("tol", np.nan),
    ("tol", None),
    ("tol", "small"),
    ("rtol", -1.0),
    ("rtol", np.nan),
    ("rtol", None),
    ("max_iter", -1),
    ("max_iter", np.nan),
    ("max_iter", 1.5),
    ("max_iter", None),
    ("max_iter", "10"),
    ("max_time", 0),
    ("max_time", -1.0),
    ("max_time", np.nan),
    ("max_time", "soon"),
    ("callback", 3),
    ("callback", "print"),
    ("starts", 0),
    ("starts", 1.5),
    ("starts", "many"),
    ("seed", -1),
    ("seed", None),
    ("check_every", 0),
    ("check_every", -1),
    ("check_every", 1.5),
    ("check_every", np.nan),
    ("check_every", "often"),
]


@pytest.mark.parametrize(("name", "value"), BAD_ARGUMENTS, ids=lambda value: getattr(value, "__name__", str(value)))
def test_invalid_argument_is_named(name, value):
    arguments = {"f": smooth(), "C": BALL, "x0": X0, "max_iter": 3} | {name: value}
    with pytest.raises(ValueError, match=rf"\b{name}\b"):
        fw.minimize(**arguments)


@pytest.mark.parametrize("state", [3, {}, "run.state"], ids=repr)
def test_invalid_state_is_named(state):
    with pytest.raises(ValueError, match=r"\bstate\b"):
        fw.minimize(smooth(), BALL, state=state, max_iter=3)


def test_every_argument_is_covered():
    told = {name for name, _ in BAD_ARGUMENTS} | {"x0", "state", "progress", "screen"}
    assert told == set(inspect.signature(fw.minimize).parameters)


@pytest.mark.parametrize(
    ("options", "name"),
    [({"method": "rk4"}, "rk44"), ({"line_search": "exat"}, "exact"), ({"momentum": "nestrov"}, "nesterov")],
    ids=str,
)
def test_misspelt_names_get_a_suggestion(options, name):
    with pytest.raises(ValueError, match=f"did you mean '{name}'"):
        fw.minimize(smooth(), BALL, X0, **options)


@pytest.mark.parametrize("C", [BALL, lambda g: -np.eye(7, 5), fw.Box(-1.0, 1.0)], ids=["L1Ball", "callable", "Box"])
def test_matrix_completion_explains_what_it_needs(C):
    with pytest.raises(ValueError, match="rank-one"):
        fw.minimize(completion(), C, max_iter=3)


def test_set_and_objective_of_different_dimensions():
    with pytest.raises(ValueError, match=r"\(4,\).*\(3,\)|\(3,\).*\(4,\)"):
        fw.minimize(fw.LinearModel(np.eye(3), np.ones(3)), fw.ConvexHull(np.eye(4)))


class Halfway(fw.Method):
    """A method of one's own: half of the way to the vertex, whatever the schedule says."""

    def init(self, problem, x):
        return 0

    def step(self, problem, iterate, memory):
        return Proposal(iterate.point.mix([(0.5, iterate.known.vertex)]), 0.5, memory + 1)


def test_a_method_of_ones_own():
    r = fw.minimize(smooth(), BALL, X0, method=Halfway(), tol=0, max_iter=6)
    fixed = fw.minimize(smooth(), BALL, X0, schedule=fw.ConstantSchedule(0.5), tol=0, max_iter=6)
    assert_same_run(r, fixed)
    assert r.state.memory == 6


def test_method_objects_take_no_line_search():
    method = Halfway()
    for options in ({"line_search": "exact"}, {"momentum": "nesterov"}):
        with pytest.raises(ValueError, match="line_search and momentum"):
            fw.minimize(smooth(), BALL, X0, method=method, **options)
