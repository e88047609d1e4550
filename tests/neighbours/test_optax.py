"""Does the optimiser for optax follow its formulas, work under JAX's transformations, and refuse what it cannot do?"""

import math
import warnings
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import fwflow as fw
import fwflow.jax as fwj
from fwflow.optax import GapStop, LMOState, gap, lmo
from tests.neighbours import recursion

SHAPES = [(5, 5), (7, 4), (3, 8)]


def trajectory(shape, dtype=jnp.float32, **options):
    """Iterates on the problem of the recursion, by one compiled loop."""
    *data, start = (jnp.asarray(part, dtype) for part in recursion.problem(shape))
    optimizer = lmo(recursion.LR, radius=recursion.RADIUS, **options)

    def step(carry, _):
        w, state = carry
        with jax.default_matmul_precision("highest"):
            g = recursion.gradient(w, *data)
        updates, state = optimizer.update(g, state, w)
        w = optax.apply_updates(w, updates)
        return (w, state), w

    carry = start, optimizer.init(start)
    return np.asarray(jax.jit(lambda carry: jax.lax.scan(step, carry, length=recursion.STEPS))(carry)[1])


@pytest.mark.parametrize("options", recursion.OPTIONS.values(), ids=recursion.OPTIONS)
@pytest.mark.parametrize("name", recursion.FORMULAS)
def test_steps_are_those_of_the_recursion(name, options):
    # "l1" and "nuclear" jump between vertices: rounding to float32 decides ties.
    double = name in ("l1", "nuclear")
    for shape in SHAPES:
        expected = recursion.run(recursion.FORMULAS[name], shape, **options)
        with jax.enable_x64(double):
            found = trajectory(shape, jnp.float64 if double else jnp.float32, set=name, exact=True, **options)
        np.testing.assert_allclose(found, expected, atol=1e-10 if double else 1e-5, rtol=0)


@pytest.mark.parametrize(
    ("C", "name"),
    [
        (fwj.LInfBall(1.0), "sign"),
        (fw.LInfBall(1.0), "sign"),
        (fw.SchattenBall(math.inf), "spectral"),
        (lambda m: -jnp.sign(m), "sign"),
    ],
    ids=["compiled", "core", "host", "callable"],
)
def test_sets_and_callables_are_scaled_by_the_radius(C, name):
    np.testing.assert_allclose(trajectory((5, 4), set=C), recursion.run(recursion.FORMULAS[name], (5, 4)), atol=1e-5)


def tree():
    keys = iter(jax.random.split(jax.random.key(0), 9))
    shapes = {"matrix": (4, 3), "again": (4, 3), "bias": (3,), "scale": (), "kernel": (3, 3, 2, 4), "empty": (0, 3)}
    return {name: jax.random.normal(next(keys), shape) for name, shape in shapes.items()}


def loss(params):
    return sum(((leaf - 1) ** 2).sum() for leaf in jax.tree.leaves(params)) / 2


def trained(optimizer, params, steps=20, **extra):
    @jax.jit
    def step(params, state):
        updates, state = optimizer.update(jax.grad(loss)(params), state, params, **extra)
        return optax.apply_updates(params, updates), state

    state = optimizer.init(params)
    for _ in range(steps):
        params, state = step(params, state)
    return params, state


@pytest.mark.parametrize("exact", [True, False])
@pytest.mark.parametrize("name", recursion.FORMULAS)
def test_trees_of_all_shapes(name, exact):
    params, state = trained(lmo(0.1, set=name, exact=exact), tree())
    assert all(bool(jnp.isfinite(leaf).all()) for leaf in jax.tree.leaves(params))
    assert jax.tree.structure(params) == jax.tree.structure(state.momentum) == jax.tree.structure(state.gap)
    assert math.isfinite(state.total_gap)
    assert (int(state.count), int(state.skipped)) == (20, 0)


@pytest.mark.parametrize("tableau", fw.tableaus)
@pytest.mark.parametrize("constrained", [True, False])
@pytest.mark.filterwarnings("ignore::fwflow.UncertifiedWarning")
def test_multistep_follows_the_tableau(tableau, constrained):
    scheme, lr = fw.tableaus[tableau], 0.2
    *data, w = recursion.problem((4, 3))
    with jax.enable_x64(True):
        optimizer = lmo(lr, momentum=1.0, exact=True, tableau=scheme, constrained=constrained)
        params = jnp.asarray(w)
        state = optimizer.init(params)

        @jax.jit
        def step(params, state):
            grad_fn = partial(recursion.gradient, mixing=data[0], scale=data[1], centre=data[2])
            updates, state = optimizer.update(grad_fn(params), state, params, grad_fn=grad_fn)
            return optax.apply_updates(params, updates), state

        for _ in range(10):
            params, state = step(params, state)
            w = recursion.textbook_step(scheme, w, data, lr, constrained)
            np.testing.assert_allclose(params, w, atol=1e-8)


def test_a_multistep_needs_a_function():
    params = tree()
    optimizer = lmo(0.1, tableau="rk44")
    with pytest.raises(ValueError, match="rk44 has 4 stages; pass a function"):
        optimizer.update(params, optimizer.init(params), params)


def test_multistep_in_a_chain():
    optimizer = optax.chain(optax.clip_by_global_norm(1.0), lmo(0.1, tableau="rk44"))
    params, _ = trained(optimizer, tree(), grad_fn=jax.grad(loss))
    assert loss(params) < loss(tree())


def test_parameters_are_needed():
    params = tree()
    optimizer = lmo(0.1)
    with pytest.raises(ValueError, match="lmo needs the parameters"):
        optimizer.update(params, optimizer.init(params))


@pytest.mark.parametrize("bad", [math.nan, math.inf])
@pytest.mark.parametrize("name", [*recursion.FORMULAS, fw.Simplex()], ids=str)
@pytest.mark.parametrize("tableau", ["euler", "heun"])
def test_gradients_that_are_not_finite_change_nothing_and_are_counted(name, bad, tableau):
    params = {"w": jnp.ones((3, 2)), "b": jnp.ones(2)}
    optimizer = lmo(0.1, set=name, exact=True, tableau=tableau)
    state = optimizer.init(params)
    grads = jax.grad(loss)(params)
    _, state = optimizer.update(grads, state, params, grad_fn=jax.grad(loss))
    grads["b"] = grads["b"].at[1].set(bad)
    updates, after = jax.jit(partial(optimizer.update, grad_fn=jax.grad(loss)))(grads, state, params)
    assert not any(leaf.any() for leaf in jax.tree.leaves(updates))
    jax.tree.map(np.testing.assert_array_equal, after.momentum, state.momentum)
    assert int(after.skipped) == 1
    assert math.isnan(after.total_gap)
    _, again = optimizer.update(jax.grad(loss)(params), after, params, grad_fn=jax.grad(loss))
    assert int(again.skipped) == 1
    assert math.isfinite(again.total_gap)


@pytest.mark.parametrize("kind", [jnp.int32, jnp.complex64, jnp.bool_])
def test_parameters_that_are_no_real_numbers_are_an_error(kind):
    params = {"layer": {"w": jnp.ones((2, 2)), "count": jnp.ones(2, kind)}}
    with pytest.raises(ValueError, match=r"\['layer'\]\['count'\] has type .*optax.masked"):
        lmo(0.1).init(params)
    masked = optax.masked(lmo(0.1), {"layer": {"w": True, "count": False}})
    masked.init(params)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"set": "spectrum"}, "did you mean 'spectral'"),
        ({"set": {"w": "spectrum"}}, "did you mean 'spectral'"),
        ({"set": 3}, "set=3 is not known"),
        ({"radius": 0.0}, "radius must be a positive"),
        ({"radius": {"w": -1.0}}, "radius must be a positive"),
        ({"momentum": 0.0}, r"momentum must lie in \(0, 1\]"),
        ({"weight_decay": -1.0}, "weight_decay must"),
        ({"learning_rate": -0.1}, "lr must"),
        ({"learning_rate": 1.5}, "lr=1.5 is too large"),
        ({"nesterov": "yes"}, "nesterov must be True or False"),
        ({"kernels": "flat"}, "kernels='flat' is not known"),
        ({"ns_dtype": "float16"}, "ns_dtype='float16' is not known"),
        ({"ns_steps": 0}, "ns_steps must be an integer"),
        ({"tableau": "rk4"}, "rk44"),
    ],
)
def test_arguments_are_checked(options, message):
    with pytest.raises(ValueError, match=message):
        lmo(**{"learning_rate": 0.1} | options)


def test_a_set_of_another_shape_is_an_error():
    with pytest.raises(ValueError, match=r"\['w'\] has shape \(2, 2\); its set has members of shape \(3, 3\)"):
        lmo(0.1, set=fw.Birkhoff(3)).init({"w": jnp.ones((2, 2))})


def test_uncertified_tableaus_say_so():
    with pytest.warns(fw.UncertifiedWarning, match="midpoint"):
        lmo(0.5, tableau="midpoint")


def test_sets_and_radii_may_be_trees_and_prefixes():
    params = {"layers": [{"w": jnp.ones((4, 3)), "b": jnp.ones(3)}, {"w": jnp.ones((3, 3))}], "head": jnp.ones((3, 2))}
    sets = {"layers": "spectral", "head": fwj.L1Ball(0.5)}
    after, _ = trained(lmo(0.1, set=sets, radius={"layers": 2.0, "head": 1.0}, exact=True), params, steps=200)
    for layer in after["layers"]:
        assert jnp.linalg.norm(layer["w"], 2) <= 2 + 1e-4
    assert jnp.abs(after["head"]).sum() <= 0.5 + 1e-4


@pytest.mark.parametrize(
    ("tree", "message"),
    [
        ({"layers": 1}, r"parameter \['head'\] has no entry$"),
        ({"layers": 1, "tail": 1}, r"parameter \['head'\] has no entry and entry \['tail'\] belongs to no parameter"),
        ({"layers": 1, "head": 1, "tail": 1}, r"; entry \['tail'\] belongs to no parameter"),
        ({"layers": {"w": 1}, "head": 1}, r"parameter \['layers'\]\[0\] has no entry and entry \['layers'\]\['w'\]"),
        ({"layers": [1], "head": 1}, r"parameter \['layers'\]\[1\] has no entry"),
        ({"layers": (1, 1), "head": 1}, "its containers have other types"),
        ({"layers": 1, "head": {"w": 1}}, r"parameter \['head'\] has no entry"),
        ({}, r"parameter \['head'\] has no entry"),
        (None, r"parameter \['head'\] has no entry"),
        ([1, 1], r"parameter \['head'\] has no entry"),
    ],
    ids=str,
)
@pytest.mark.parametrize("name", ["sets", "radii"])
def test_trees_that_do_not_fit_are_an_error(name, tree, message):
    params = {"layers": [jnp.ones((4, 3)), jnp.ones(3)], "head": jnp.ones((3, 2))}
    options = {"radius": tree} if name == "radii" else {"set": jax.tree.map(lambda _: "sign", tree)}
    asked = (lambda: lmo(0.1, **options).init(params)), (lambda: gap(params, params, **options))
    plain = lmo(0.1).init(params)
    for call in (*asked, lambda: lmo(0.1, **options).update(params, plain, params)):
        with pytest.raises(
            ValueError, match=f"the tree of {name} must be a prefix of the tree of parameters.*{message}"
        ):
            call()


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda m: -1.0, r"shape \(\) and type float32"),
        (lambda m: -jnp.sign(m).sum(), r"shape \(\)"),
        (lambda m: -jnp.sign(m[0]), r"shape \(3,\)"),
        (lambda m: -jnp.sign(m)[None], r"shape \(1, 2, 3\)"),
        (lambda m: -jnp.sign(m) * 1j, "type complex64"),
        (lambda m: (m, m), "tuple"),
        (lambda m: {"w": m}, "dict"),
        (lambda m: None, "NoneType"),
        (fwj.Oracle(lambda m: -1.0), r"shape \(\)"),
    ],
)
def test_callables_with_wrong_answers_are_an_error(wrong, message):
    params = {"w": jnp.ones((2, 3)), "b": jnp.ones(())}
    own, optimizer = {"w": params["w"]}, lmo(0.1, set={"w": wrong, "b": lambda m: -1.0})
    state = optimizer.init(params)
    for call in (lambda: jax.jit(optimizer.update)(params, state, params), lambda: gap(own, own, wrong)):
        with pytest.raises(
            ValueError, match=r"set must return a real array of shape \(.*\) for parameter .*" + message
        ):
            call()


def test_equal_shapes_share_a_call():
    params = {f"w{i}": jax.random.normal(jax.random.key(i), (4, 3)) for i in range(5)}
    optimizer = lmo(0.1, exact=True)
    text = str(jax.make_jaxpr(optimizer.update)(params, optimizer.init(params), params))
    assert text.count(" svd[") == 1
    for name, w in params.items():
        together = trained(optimizer, params)[0][name]
        np.testing.assert_allclose(together, trained(optimizer, w)[0], atol=1e-5)
    assert name == "w4"


def test_multi_transform_and_masks():
    params = {"w": jnp.ones((3, 3)) * 2, "b": jnp.ones(3) * 2}
    both = optax.multi_transform({"lmo": lmo(0.1), "adam": optax.adam(0.1)}, {"w": "lmo", "b": "adam"})
    after, _ = trained(both, params)
    alone, _ = trained(lmo(0.1), {"w": params["w"]})
    adam, _ = trained(optax.adam(0.1), {"b": params["b"]})
    np.testing.assert_allclose(after["w"], alone["w"], rtol=1e-6)
    np.testing.assert_allclose(after["b"], adam["b"], rtol=1e-6)


def test_schedules():
    schedule = optax.linear_schedule(0.2, 0.0, 10)
    params = {"w": jnp.full((3, 3), 2.0)}
    optimizer = lmo(schedule, momentum=1.0, exact=True, set="sign")
    state, w = optimizer.init(params), 2.0
    for k in range(12):
        updates, state = optimizer.update(jax.tree.map(jnp.ones_like, params), state, params)
        params = optax.apply_updates(params, updates)
        w += float(schedule(k)) * (-1 - w)
        np.testing.assert_allclose(params["w"], w, rtol=1e-5)


def test_injected_hyperparameters_change_between_steps():
    params = tree()
    optimizer = optax.inject_hyperparams(lmo)(learning_rate=0.1, radius=2.0, weight_decay=0.1, constrained=False)
    state = optimizer.init(params)
    assert state.hyperparams.keys() == {"learning_rate", "radius", "momentum", "weight_decay"}
    step = jax.jit(optimizer.update)
    first, _ = step(params, state, params)
    state.hyperparams["learning_rate"] = jnp.asarray(0.2)
    second, _ = step(params, state, params)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(2 * a, b, rtol=1e-4, atol=1e-6), first, second)
    plain = lmo(0.1, radius=2.0, weight_decay=0.1, constrained=False)
    expected, _ = plain.update(params, plain.init(params), params)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6), first, expected)


def test_injection_with_a_callable_set():
    factory = optax.inject_hyperparams(lmo, static_args="set")
    params, _ = trained(factory(learning_rate=0.1, set=lambda m: -jnp.sign(m)), tree())
    expected, _ = trained(lmo(0.1, set="sign"), tree())
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5), params, expected)


def test_batches_of_networks():
    many = jax.tree.map(
        lambda *leaves: jnp.stack(leaves), *(jax.tree.map(partial(jnp.add, i), tree()) for i in range(3))
    )
    optimizer = lmo(0.1, exact=True)
    states = jax.vmap(optimizer.init)(many)
    grads = jax.vmap(jax.grad(loss))(many)
    updates, states = jax.jit(jax.vmap(optimizer.update))(grads, states, many)
    for i in range(3):
        own, grad = (jax.tree.map(lambda x: x[i], part) for part in (many, grads))  # noqa: B023
        expected, _ = optimizer.update(grad, optimizer.init(own), own)
        jax.tree.map(
            lambda a, b: np.testing.assert_allclose(a, b, atol=1e-5), jax.tree.map(lambda x: x[i], updates), expected  # noqa: B023
        )  # fmt: skip


def test_the_state_may_be_donated_and_keeps_its_types():
    params = tree() | {"half": jnp.ones((3, 3), jnp.bfloat16)}
    optimizer = lmo(0.1)
    step = jax.jit(lambda state, params: optimizer.update(params, state, params)[1], donate_argnums=0)
    state = optimizer.init(params)
    kinds = jax.tree.map(lambda leaf: (leaf.shape, leaf.dtype), state)
    for _ in range(3):
        state = step(state, params)
    assert jax.tree.map(lambda leaf: (leaf.shape, leaf.dtype), state) == kinds


@pytest.mark.parametrize("dtype", [jnp.bfloat16, jnp.float16])
@pytest.mark.parametrize("name", recursion.FORMULAS)
def test_weights_keep_their_type(name, dtype):
    params = jax.tree.map(lambda leaf: leaf.astype(dtype), tree())
    optimizer = lmo(0.1, set=name, radius=2.0)
    updates, state = optimizer.update(params, optimizer.init(params), params)
    for part in (updates, state.momentum):
        assert {leaf.dtype for leaf in jax.tree.leaves(part)} == {jnp.dtype(dtype)}
    assert all(bool(jnp.isfinite(leaf).all()) for leaf in jax.tree.leaves(updates))
    assert math.isfinite(state.total_gap)


def test_the_gap_is_that_of_the_core():
    *data, w = recursion.problem((5, 4))
    g = recursion.gradient(w, *data)
    for name, C in (("spectral", fw.SchattenBall(math.inf, 2.0)), ("l1", fw.L1Ball(2.0)), ("sign", fw.LInfBall(2.0))):
        expected = np.vdot(g, w - np.asarray(C.lmo(g)))
        params, grads = {"w": jnp.asarray(w)}, {"w": jnp.asarray(g)}
        assert float(gap(grads, params, name, 2.0)["w"]) == pytest.approx(expected, rel=1e-5)
        assert float(gap(grads, params, C)["w"]) == pytest.approx(expected, rel=1e-5)
        optimizer = lmo(0.1, set=name, radius=2.0, momentum=1.0, exact=True)
        _, state = optimizer.update(grads, optimizer.init(params), params)
        assert float(state.total_gap) == pytest.approx(expected, rel=1e-5)


def test_the_gap_stops_a_loop():
    params = {"w": jnp.zeros((3, 3))}
    optimizer = lmo(lambda k: 2 / (k + 2), momentum=1.0, exact=True, radius=2.0)
    state, stop = optimizer.init(params), GapStop(tol=0.05)
    step = jax.jit(lambda params, state: optimizer.update(jax.grad(loss)(params), state, params))
    for _ in range(2000):
        updates, state = step(params, state)
        if stop(state.total_gap):
            break
        params = optax.apply_updates(params, updates)
    assert state.total_gap <= 0.05
    # The minimiser of |W - 1|^2 over the operator norm ball of radius 2 is 2/3 in each entry.
    assert loss(params) - 9 * (1 / 3) ** 2 / 2 <= 0.05


def test_checkpoints_continue_exactly():
    optimizer = lmo(0.1)
    params, state = trained(optimizer, tree(), steps=5)
    leaves, structure = jax.tree.flatten((params, state))
    params2, state2 = jax.tree.unflatten(structure, [jnp.asarray(np.asarray(leaf)) for leaf in leaves])
    assert isinstance(state2, LMOState)
    first, _ = optimizer.update(params, state, params)
    second, _ = optimizer.update(params2, state2, params2)
    jax.tree.map(np.testing.assert_array_equal, first, second)


def test_numbers_of_python_and_numpy_are_parameters():
    params = {"a": 1.0, "b": np.ones((2, 2), np.float32)}
    optimizer = lmo(0.1)
    updates, _ = optimizer.update({"a": 1.0, "b": np.eye(2, dtype=np.float32)}, optimizer.init(params), params)
    assert float(updates["a"]) == pytest.approx(-0.2)


def test_no_warning_is_given():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        trained(lmo(0.1, tableau="rk44"), tree(), steps=2, grad_fn=jax.grad(loss))
