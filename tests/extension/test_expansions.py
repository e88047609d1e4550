"""A restricted method of one's own: an expansion says what may move, and the library minimises over it."""

from dataclasses import dataclass

import numpy as np
import pytest

import fwflow as fw
from fwflow.methods.restricted.charts import Chart, Expansion, RestrictedSteps
from fwflow.methods.restricted.projected_steps import Place, StepMemory
from tests.catalogue import design, targets


@dataclass(frozen=True)
class Greedy(Expansion):
    """The `count` entries of a box with the largest gradient among those that can move against it."""

    count: int = 5

    def chart(self, problem, iterate, memory):
        x, g = iterate.point, np.asarray(iterate.known.gradient)
        lower, upper = problem.constraint.bounds(x.x.shape)
        gain = np.where(g > 0, g * (x.x - lower), g * (x.x - upper))
        places = np.sort(np.argsort(-gain)[: self.count])
        f = problem.objective.restricted(x, places)
        start = Place(x.x[places], gradient=g[places], memory=StepMemory(memory.smoothness))

        def lift(ended):
            full = x.x.copy()
            full[places] = ended.v
            return problem.objective.imaged(full)

        return Chart(f, fw.Box(lower[places], upper[places]), start, (len(places),), lift)


@pytest.mark.parametrize("loss", ["squared", "logistic", "huber"])
def test_an_expansion_is_a_method(loss):
    b = np.sign(targets(60)) if loss == "logistic" else targets(60)
    f, C = fw.LinearModel(design(60, 30), b, loss), fw.Box(-0.1 * np.ones(30), 0.2 * np.ones(30))
    own = fw.minimize(f, C, method=RestrictedSteps((Greedy(),)), tol=1e-8)
    best = fw.minimize(f, C, tol=1e-10)
    assert own.success
    assert abs(own.fun - best.fun) <= own.gap + best.gap
    assert (np.diff(own.trace["fun"]) <= 1e-12 * np.abs(own.trace["fun"][:-1])).all()
    # One full gradient in each iteration; the others are those of five columns.
    assert own.n_design < 3 * own.nit + own.n_grad * 3 * 5 / 30


def test_a_run_continues_exactly(tmp_path):
    f, C = fw.LinearModel(design(60, 30), targets(60)), fw.Box(-0.1 * np.ones(30), 0.2 * np.ones(30))
    options = {"method": RestrictedSteps((Greedy(),)), "tol": 0}
    fw.minimize(f, C, max_iter=3, **options).state.save(tmp_path / "state")
    continued = fw.minimize(f, C, max_iter=4, state=fw.State.load(tmp_path / "state"), **options)
    np.testing.assert_array_equal(continued.x, fw.minimize(f, C, max_iter=7, **options).x)
