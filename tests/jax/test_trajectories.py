"""In double precision every tableau, schedule, momentum and set goes the way of the core, step by step."""

import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import fwflow as fw
import fwflow.jax as fwj
from fwflow.jax.methods import Multistep, evaluate
from fwflow.jax.steps import as_gamma
from tests.catalogue import design

A = design(30, 12)
B = A[:, 0] - A[:, 1] + 0.1 * np.random.default_rng(1).standard_normal(30)
SETS = {"l1": fw.L1Ball(1.5), "simplex": fw.Simplex(2.0), "l2": fw.L2Ball(1.0), "box": fw.Box(-0.5, 0.7)}
SCHEDULES = [fw.OpenLoop(c=4.0, delta=0.5, k0=1), fw.LogOpenLoop(), fw.ConstantSchedule(0.1)]
CASES = [(nesterov, name) for nesterov in (False, True) for name in SETS]
STEPS = 100


def core(name, tableau, schedule, nesterov):
    points = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", fw.UncertifiedWarning)
        fw.minimize(
            fw.LinearModel(A, B),
            SETS[name],
            method=tableau,
            schedule=schedule,
            momentum="nesterov" if nesterov else None,
            tol=0,
            max_iter=STEPS,
            check_every=STEPS,
            screen=False,
            callback=lambda state: points.append(np.array(state.x)) and False,
        )
    return np.array(points[1:])


def compiled(f, C, methods):
    """The points of a batch of methods that differ in numbers alone."""

    def points(method):
        start = f.point(C.start(f.shape, f.dtype))
        known = evaluate(f, C, start, None, lift=True)

        def step(carry, k):
            point, known, memory = carry
            following = method.step(f, C, k, point, known, memory)
            return (following.point, evaluate(f, C, following.point, None, lift=True), following.memory), following[0].x

        return lax.scan(step, (start, known, method.init(f, C, start, known)), jnp.arange(STEPS))[1]

    return jax.vmap(points)(methods)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("stages", sorted({tableau.stages for tableau in fw.tableaus.values()}))
def test_tableaus_go_the_way_of_the_core(stages):
    pairs = [(tableau, s) for tableau in fw.tableaus.values() if tableau.stages == stages for s in SCHEDULES]
    with jax.enable_x64(True):
        f = fwj.LinearModel(A, B)
        batch = {
            nesterov: jax.tree.map(
                lambda *numbers: jnp.array(numbers, jnp.float64),
                *(Multistep.of(tableau, as_gamma(schedule), None, nesterov) for tableau, schedule in pairs),
            )
            for nesterov in (False, True)
        }
        run = jax.jit(lambda f, batch: [compiled(f, fwj.as_jax_set(SETS[name]), batch[which]) for which, name in CASES])
        found = run(f, batch)
    for (nesterov, name), points in zip(CASES, found, strict=True):
        for (tableau, schedule), ours in zip(pairs, np.asarray(points), strict=True):
            np.testing.assert_allclose(ours, core(name, tableau, schedule, nesterov), rtol=0, atol=1e-10)


@pytest.mark.parametrize("schedule", [fw.OpenLoop(), *SCHEDULES], ids=str)
def test_schedules_are_those_of_the_core(schedule):
    with jax.enable_x64(True):
        for k in (0, 1, 7, 1000):
            ours = as_gamma(schedule).stage_gammas(jnp.asarray(k), (0.0, 0.5, 1.0), jnp.float64)
            np.testing.assert_allclose(ours, schedule.stage_gammas(k, (0.0, 0.5, 1.0)), rtol=1e-14)


@pytest.mark.parametrize("search", ["exact", "aggressive"])
def test_line_searches_go_the_way_of_the_core(search):
    labels = np.where(B > 0, 1.0, -1.0)
    with jax.enable_x64(True):
        run = {"method": "heun", "line_search": search, "tol": 0, "max_iter": 30}
        ours = fwj.minimize(fwj.LinearModel(A, labels, "logistic"), fwj.L1Ball(3.0), trace=True, **run)
        theirs = fw.minimize(fw.LinearModel(A, labels, "logistic"), fw.L1Ball(3.0), screen=False, **run)
        for column in ("fun", "gap", "step"):
            np.testing.assert_allclose(ours.trace[column], theirs.trace[column], rtol=1e-6, atol=1e-9)
        assert int(ours.nit) == theirs.nit == 30
        assert int(ours.n_grad) >= theirs.n_grad


def test_uncertified_tableaus_are_named():
    f = fwj.LinearModel(np.eye(2), [1.0, 0.0])
    with pytest.warns(fw.UncertifiedWarning, match="midpoint"):
        fwj.minimize(f, fwj.Simplex(), method="midpoint", max_iter=3)
