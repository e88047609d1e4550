"""In double precision every tableau, schedule, momentum and set has the iterates of the core."""

import warnings
from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import fwflow as fw
import fwflow.jax as fwj
from fwflow.jax import solve
from fwflow.jax.methods import Multistep, evaluate, stage_gammas
from tests.catalogue import design

A = design(30, 12)
B = A[:, 0] - A[:, 1] + 0.1 * np.random.default_rng(1).standard_normal(30)
SETS = {"l1": fw.L1Ball(1.5), "simplex": fw.Simplex(2.0), "l2": fw.L2Ball(1.0), "box": fw.Box(-0.5, 0.7)}
SCHEDULES = [fw.OpenLoop(c=4.0, delta=0.5, k0=1), fw.LogOpenLoop(), fw.ConstantSchedule(0.1)]
#: Momentum and set, each with one of the schedules.
CASES = [
    (nesterov, name, SCHEDULES[i % 3]) for i, (nesterov, name) in enumerate((n, s) for n in (False, True) for s in SETS)
]
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
            following, memory, _ = method.step(f, C, k, point, known, memory)
            return (following, evaluate(f, C, following, None, lift=True), memory), following.x

        return lax.scan(step, (start, known, method.init(f, C, start, known)), jnp.arange(STEPS))[1]

    return jax.vmap(points)(methods)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("stages", sorted({tableau.stages for tableau in fw.tableaus.values()}))
def test_tableaus_go_the_way_of_the_core(stages):
    tableaus = [tableau for tableau in fw.tableaus.values() if tableau.stages == stages]
    with jax.enable_x64(True):
        f = fwj.LinearModel(A, B)
        batches = [
            jax.tree.map(
                lambda *numbers: jnp.array(numbers, jnp.float64),
                *(Multistep.of(t, schedule, momentum=fw.Nesterov() if nesterov else None) for t in tableaus),
            )
            for nesterov, _, schedule in CASES
        ]
        sets = [fwj.as_jax_set(SETS[name]) for _, name, _ in CASES]
        found = jax.jit(lambda f, batches: [compiled(f, *pair) for pair in zip(sets, batches, strict=True)])(f, batches)
    for (nesterov, name, schedule), points in zip(CASES, found, strict=True):
        for tableau, ours in zip(tableaus, np.asarray(points), strict=True):
            np.testing.assert_allclose(ours, core(name, tableau, schedule, nesterov), rtol=0, atol=1e-10)


@dataclass(frozen=True)
class Slow(fw.Schedule):
    """A schedule of a user's."""

    power: float

    def gamma(self, t):
        return (1 + t) ** -self.power


@pytest.mark.parametrize("schedule", [fw.OpenLoop(), *SCHEDULES, Slow(0.5)], ids=str)
def test_schedules_are_those_of_the_core(schedule):
    omega = (0.0, 0.5, 1.0)
    with jax.enable_x64(True):
        sampled = jax.jit(lambda method, k: stage_gammas(method.schedule, k, omega, jnp.float64))
        method = Multistep.of(fw.tableaus["heun"], schedule)
        for k in (0, 1, 7, 1000):
            np.testing.assert_allclose(sampled(method, jnp.asarray(k)), schedule.stage_gammas(k, omega), rtol=1e-14)


def test_numbers_of_schedules_and_tableaus_are_not_compiled_in():
    f = fwj.LinearModel(A, B)
    run = partial(fwj.minimize, f, fwj.L1Ball(1.5), max_iter=2)
    first = run(method="heun", schedule=fw.OpenLoop(4.0))
    before = solve._alone._cache_size()
    second = run(method="ralston", schedule=fw.OpenLoop(3.0, delta=0.5, k0=2))
    assert solve._alone._cache_size() == before
    assert not np.array_equal(first.x, second.x)


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
